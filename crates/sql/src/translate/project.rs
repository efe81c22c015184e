//! Filters and projections: one transform for a filter and the projection above it.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection};

use tidemill_operators::changes::changelog_schema;

use super::changelog::{KEEP_UP_TO_DATE, with_weight};
use super::columns::{schema_of, stream_schema};
use super::empty_windows::check_windows_kept;
use super::{Kind, Relation, Role, Selection, Translator, as_column, column_at, refuse, window_assign};
use crate::expressions::compiled::Compiled;
use crate::expressions::filter_project::FilterProject;
use crate::logical::reads_clock;

impl Translator {
    pub(super) fn projection(&mut self, projection: &Projection) -> Result<Relation> {
        let (filters, input) = match projection.input.as_ref() {
            LogicalPlan::Filter(filter) => (vec![filter.predicate.clone()], filter.input.as_ref()),
            other => (Vec::new(), other),
        };
        let relation = self.relation(input)?;
        let is_bound = |column: &Expr| {
            let place = as_column(column, input.schema());
            place.is_some_and(|place| relation.roles[place].window().is_some())
        };
        check_windows_kept(&relation, projection.expr.iter().any(is_bound))?;
        self.compute(relation, input.schema(), &filters, &projection.expr, Some(&projection.schema))
    }

    pub(super) fn filter(&mut self, filter: &Filter) -> Result<Relation> {
        let relation = self.relation(&filter.input)?;
        let schema = filter.input.schema();
        let all: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
        self.compute(relation, schema, std::slice::from_ref(&filter.predicate), &all, Some(schema))
    }

    /// The columns with these indexes, without a transform if they are exactly the stream's columns.
    pub(super) fn select(
        &mut self,
        relation: Relation,
        places: &[usize],
        output: &DFSchema,
    ) -> Result<Relation> {
        if places.iter().copied().eq(0..relation.schema.fields().len()) {
            return Ok(relation);
        }
        let schema = DFSchema::try_from(relation.schema.as_ref().clone())?;
        let columns: Vec<Expr> = places.iter().map(|place| column_at(&schema, *place)).collect();
        self.compute(relation, &schema, &[], &columns, Some(output))
    }

    /// Filters a stream and computes columns from it. `schema` is that of the logical plan it represents.
    pub(super) fn compute(
        &mut self,
        relation: Relation,
        schema: &DFSchema,
        filters: &[Expr],
        columns: &[Expr],
        output: Option<&DFSchema>,
    ) -> Result<Relation> {
        if let Some(passed) = self.filtered_while_true(&relation, schema, filters)? {
            return self.compute(passed, schema, &[], columns, output);
        }
        let places: Vec<Option<usize>> = columns.iter().map(|column| as_column(column, schema)).collect();
        let relation = self.changelog_if_needed(relation, (filters, &places), schema)?;
        check_clock_columns(&relation, columns)?;
        check_filters(&relation, filters, schema)?;
        let identity = places.iter().copied().eq((0..relation.schema.fields().len()).map(Some));
        if filters.is_empty() && identity {
            return Ok(relation);
        }
        let role = |place: &Option<usize>| place.map_or(Role::None, |place| relation.roles[place]);
        let roles = places.iter().map(role).collect();
        // A column that is passed on keeps what it holds; within an expression, a bound of a window is computed.
        let computed = columns.iter().zip(&places).map(|(column, place)| match place {
            Some(_) => Ok(column.clone()),
            None => window_assign::with_bounds(column.clone(), &relation, schema),
        });
        let computed: Vec<Expr> = computed.collect::<Result<_>>()?;
        let weighted = relation.is_changing().then(|| with_weight(schema)).transpose()?;
        let schema = weighted.as_ref().unwrap_or(schema);
        // What merely picks columns of another stream is skipped.
        let width = schema.fields().len();
        let picked = relation.selection.clone().unwrap_or_else(|| Selection {
            stream: relation.stream,
            width,
            columns: (0..width).collect(),
        });
        let compile =
            |expression: &Expr| Compiled::new(expression, schema)?.moved(&picked.columns, picked.width);
        let mut compiled: Vec<Compiled> = computed.iter().map(compile).collect::<Result<_>>()?;
        let conditions = filters
            .iter()
            .flat_map(split_conjunction)
            .map(|condition| compile(&window_assign::with_bounds(condition.clone(), &relation, schema)?));
        let conditions: Vec<Compiled> = conditions.collect::<Result<_>>()?;
        let output = match output {
            Some(output) => schema_of(output),
            None => stream_schema(columns.iter().zip(&compiled).map(|(column, compiled)| {
                (column.schema_name().to_string(), tidemill_engine::Expression::data_type(compiled))
            })),
        };
        let name = describe(filters, columns, &places);
        let weight = relation.is_changing().then(|| width - 1);
        if let Some(weight) = weight {
            compiled.push(compile(&column_at(schema, weight))?);
        }
        let pure: Option<Vec<usize>> = places
            .iter()
            .copied()
            .chain(weight.map(Some))
            .map(|place| Some(picked.columns[place?]))
            .collect();
        let selection = pure.filter(|_| filters.is_empty()).map(|columns| Selection { columns, ..picked });
        let written = match weight {
            Some(_) => changelog_schema(&output),
            None => Arc::clone(&output),
        };
        let steps = FilterProject::new(
            conditions,
            &compiled,
            Arc::clone(&written),
            self.faults.clone(),
            picked.width,
            self.limits.memory.clone(),
        )?;
        let stream = self.transform(name, picked.stream, written, move || Box::new(steps.clone()));
        let kind = kind_of(&relation, &places);
        Ok(Relation { stream, schema: output, roles, kind, selection, ..relation })
    }
}

/// A table keeps its key if all of the key's columns are passed on.
fn kind_of(relation: &Relation, places: &[Option<usize>]) -> Kind {
    match &relation.kind {
        Kind::Stream => Kind::Stream,
        Kind::Changing => Kind::Changing,
        Kind::Table { keys } => {
            let place = |key: &usize| places.iter().position(|place| *place == Some(*key));
            let keys = keys.as_ref().and_then(|keys| keys.iter().map(place).collect());
            Kind::Table { keys }
        }
    }
}

/// A row that goes must be the row that came, so it cannot have the time of its cycle.
fn check_clock_columns(relation: &Relation, columns: &[Expr]) -> Result<()> {
    if !relation.is_changing()
        || !columns.iter().map(reads_clock).collect::<Result<Vec<_>>>()?.contains(&true)
    {
        return Ok(());
    }
    Err(refuse(
        "now() advances, so it would be another value for a row that goes than it was when the row came",
        "leave it out here, and compute it where the rows are read: SELECT now() - at FROM name",
    ))
}

/// A condition on a table's values would have to retract rows emitted before.
fn check_filters(relation: &Relation, filters: &[Expr], schema: &DFSchema) -> Result<()> {
    let Kind::Table { keys } = &relation.kind else { return check_sessions(relation, filters) };
    if read_only_keys(filters, keys.as_deref(), schema) {
        Ok(())
    } else {
        Err(refuse(
            "a condition on the changing values of a table (an aggregate without a window) would have to \
             retract rows that passed before",
            KEEP_UP_TO_DATE,
        ))
    }
}

/// Whether conditions on a table concern its key alone, so that they hold for all rows of a key or for none.
pub(super) fn read_only_keys(filters: &[Expr], keys: Option<&[usize]>, schema: &DFSchema) -> bool {
    let is_key = |column: &Column| {
        let place = schema.maybe_index_of_column(column);
        place.is_some_and(|place| keys.is_some_and(|keys| keys.contains(&place)))
    };
    filters.iter().flat_map(Expr::column_refs).all(is_key)
}

/// The rows that exist determine the sessions, so a filter cannot come after they were assigned.
fn check_sessions(relation: &Relation, filters: &[Expr]) -> Result<()> {
    let pending = relation.roles.iter().filter_map(|role| role.window());
    let mut sessions = pending.filter(|window| window.size_ns().is_none() && !window.is_computed);
    if !filters.is_empty() && sessions.next().is_some() {
        Err(refuse(
            "the filter applies to rows of sessions before the sessions are complete",
            "filter first: session((SELECT * FROM clicks WHERE ...), event_time, INTERVAL '5 minutes')",
        ))
    } else {
        Ok(())
    }
}

/// A description of a transform.
fn describe(filters: &[Expr], columns: &[Expr], places: &[Option<usize>]) -> String {
    let mut parts = Vec::new();
    if !filters.is_empty() {
        let shown: Vec<String> = filters.iter().map(ToString::to_string).collect();
        parts.push(format!("filter {}", shown.join(" AND ")));
    }
    let computed: Vec<String> = columns
        .iter()
        .zip(places)
        .filter(|(_, place)| place.is_none())
        .map(|(column, _)| column.to_string())
        .collect();
    if computed.is_empty() {
        parts.push(format!(
            "columns {}",
            columns.iter().map(|c| c.schema_name().to_string()).collect::<Vec<_>>().join(", ")
        ))
    } else {
        parts.push(format!("compute {}", computed.join(", ")))
    }
    crate::logical::shown_text(&parts.join(", "))
}
