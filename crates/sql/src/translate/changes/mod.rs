//! Relations whose rows come and go. A changelog has the rows of a cycle that came, and those that went, each with a weight; the sum of
//! all changelogs is the relation. Operators over changelogs keep any query up to date, a cycle at a time (the algebra of DBSP: Budiu et al.,
//! PVLDB 16(7), 2023). What only grows, or is replaced by key, keeps its own operators, which are faster.
//!
//! The stream of a changelog has the relation's columns and, at its end, the weight.

mod aggregate;
mod grouping_sets;
mod join;
mod open_windows;
mod ordered_aggregate;
mod scalar_values;
mod temporal_filter;
mod top;
mod union;
mod weighted_rows;
mod windowed;

pub(crate) use scalar_values::with_values_joined;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Join, SortExpr, lit};
use tidemill_engine::changes::WEIGHT;
use tidemill_operators::changes::{Upserts, UpsertsSpec, changelog_schema};
use tidemill_operators::top::OrderBy;

use super::columns::order_of;
use super::project::read_only_keys;
use super::{Kind, Relation, Role, Translator, column_at, refuse, user};
use crate::logical::WindowAssign;

impl Translator {
    /// The relation as operators over changelogs read it: a stream stays as it is, because its rows only come. The upserts of a table
    /// become the rows that they replace and bring.
    pub(super) fn changelog(&mut self, relation: Relation) -> Result<Relation> {
        if relation.is_as_of_the_row {
            return Err(refuse(
                "a table that is read as of the moment of each row can only be joined, by its whole key",
                "remove FOR SYSTEM_TIME AS OF, and the join is kept up to date",
            ));
        }
        let keys = match &relation.kind {
            Kind::Stream | Kind::Changing => return Ok(relation),
            Kind::Table { keys: Some(keys) } => keys.clone(),
            Kind::Table { keys: None } => {
                return Err(refuse(
                    "the columns of a table do not include its key, so nobody knows which rows are replaced",
                    "add the columns it is grouped by to its SELECT",
                ));
            }
        };
        let partitions = self.partitions(keys.len());
        let schema = Arc::clone(&relation.schema);
        let spec = UpsertsSpec {
            schema: Arc::clone(&schema),
            keys: keys.clone(),
            rows_max: self.rows_max(partitions),
        };
        Upserts::new(spec.clone()).map_err(user)?;
        let inputs = [(relation.stream, keys)];
        let output = changelog_schema(&schema);
        let stream = self.operator("changes of a table", &inputs, partitions, output, move |_| {
            Box::new(Upserts::new(spec.clone()).expect("checked when it was planned"))
        });
        Ok(changing(relation, stream, schema))
    }

    /// As [`changelog`](Translator::changelog), if conditions or columns over a table lose what its upserts mean: conditions on values may
    /// hold for a row and not for the one that replaces it, and without its key nobody knows which row that is.
    pub(super) fn changelog_if_needed(
        &mut self,
        relation: Relation,
        (filters, places): (&[Expr], &[Option<usize>]),
        schema: &DFSchema,
    ) -> Result<Relation> {
        let Kind::Table { keys } = &relation.kind else { return Ok(relation) };
        let keeps_keys =
            keys.as_ref().is_some_and(|keys| keys.iter().all(|key| places.contains(&Some(*key))));
        if self.takes_changes && !(keeps_keys && read_only_keys(filters, keys.as_deref(), schema)) {
            self.changelog(relation)
        } else {
            Ok(relation)
        }
    }

    /// The changelog of a relation with a weight in each row: that of a stream, whose rows only come, is 1.
    pub fn weighted(&mut self, relation: Relation) -> Result<Relation> {
        let relation = self.changelog(relation)?;
        if relation.is_changing() {
            return Ok(relation);
        }
        let schema = DFSchema::try_from(relation.schema.as_ref().clone())?;
        let mut columns: Vec<Expr> =
            (0..schema.fields().len()).map(|index| column_at(&schema, index)).collect();
        columns.push(lit(1_i64).alias(WEIGHT));
        self.with_weights(relation, &schema, &columns)
    }

    /// The rows of a relation for which conditions hold, if some of them are on `now()` and to be kept true.
    pub(super) fn filtered_while_true(
        &mut self,
        relation: &Relation,
        schema: &DFSchema,
        filters: &[Expr],
    ) -> Result<Option<Relation>> {
        temporal_filter::filtered_while_true(self, relation, schema, filters)
    }

    /// A join, if conditions on `now()` are to be kept true of its rows.
    pub(super) fn join_while_true(&mut self, join: &Join) -> Result<Option<Relation>> {
        temporal_filter::join_while_true(self, join)
    }

    /// The rows of a relation with the bounds of windows that nothing closes.
    pub(super) fn open_windows(&mut self, assign: &WindowAssign) -> Result<Relation> {
        open_windows::open_windows(self, assign)
    }

    /// Adds the columns by which rows are divided and ordered to a relation, behind its own, unless they are among them. Returns the
    /// relation, the places of the columns that divide its rows, and the order.
    fn divided_and_ordered(
        &mut self,
        relation: Relation,
        schema: &DFSchema,
        (partition_by, order_by): (&[Expr], &[SortExpr]),
    ) -> Result<(Relation, Vec<usize>, Vec<OrderBy>)> {
        let columns = schema.fields().len();
        let mut all: Vec<Expr> = (0..columns).map(|index| column_at(schema, index)).collect();
        let by = partition_by.iter().chain(order_by.iter().map(|by| &by.expr));
        let mut partition: Vec<usize> = by.map(|by| self.place(&mut all, by, schema)).collect();
        let order = order_of(&partition.split_off(partition_by.len()), order_by);
        let relation =
            if all.len() == columns { relation } else { self.compute(relation, schema, &[], &all, None)? };
        Ok((relation, partition, order))
    }

    /// Makes a changelog of a relation whose rows only come. `columns` are computed from its rows; the last one is the weight.
    fn with_weights(&mut self, relation: Relation, schema: &DFSchema, columns: &[Expr]) -> Result<Relation> {
        let weighted = self.compute(relation, schema, &[], columns, None)?;
        // The column of the weights keeps its name if nothing else is computed.
        let own: Vec<usize> = (0..weighted.schema.fields().len() - 1).collect();
        let (stream, own) = (weighted.stream, Arc::new(weighted.schema.project(&own)?));
        Ok(changing(weighted, stream, own))
    }
}

/// A relation that is made of another one, with the changelog in a stream.
fn changing(of: Relation, stream: tidemill_engine::StreamRef, schema: SchemaRef) -> Relation {
    let roles = vec![Role::None; schema.fields().len()];
    Relation { stream, schema, roles, kind: Kind::Changing, ordered: false, selection: None, ..of }
}
