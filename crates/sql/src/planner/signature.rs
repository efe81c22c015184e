//! What a statement takes and gives, before it is executed: its parameters and its columns.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use super::argument_types::argument_types;
use super::{Planner, Reply};
use crate::defined_functions::parameter_types;
use crate::logical::header;
use crate::relations::named_relations::Relation;
use crate::relations::projected::Projected;
use crate::relations::single_batch_source::SingleBatchSource;
use crate::relations::source_definition::SourceDefinition;
use crate::statement::compared_lists;
use crate::statement::explain;
use crate::statement::{Parameter, ParameterType, Statement, StatementKind, number};
use crate::text::TextError;
use crate::translate::is_static;

impl Planner {
    /// Adds a table whose rows are given. It is not a definition: other planners, other processes and the catalogue's log do not
    /// have it.
    pub fn add_table(&mut self, name: &str, rows: RecordBatch) {
        let schema = rows.schema();
        let open =
            move |columns: Option<&[usize]>| Projected::open(SingleBatchSource::new(rows.clone()), columns);
        let definition = SourceDefinition::new(name, schema, Arc::new(open));
        let definition =
            SourceDefinition { is_table: true, is_finite: true, is_repeatable: true, ..definition };
        self.catalog.relations.add(name, Relation::Source(Arc::new(definition)));
    }

    /// The types of a statement's parameters: those that are given, otherwise those that the statement implies, otherwise
    /// texts.
    pub fn parameter_types(
        &self,
        statement: &Statement,
        given: &[Option<ParameterType>],
    ) -> Vec<ParameterType> {
        let mut types: Vec<Option<ParameterType>> =
            (0..statement.parameters()).map(|index| given.get(index).copied().flatten()).collect();
        let of_calls = match &statement.kind {
            StatementKind::Query(query, _) => parameter_types(query, &self.catalog.defined),
            _ => Vec::new(),
        };
        for (number, kind) in statement.known_parameters().into_iter().chain(of_calls) {
            types[number - 1].get_or_insert(kind);
        }
        if types.iter().any(Option::is_none) {
            for (number, implied) in self.implied_types(statement, &types) {
                if let Some(kind) = types.get_mut(number.wrapping_sub(1)) {
                    *kind = kind.or(implied);
                }
            }
        }
        types.into_iter().map(|kind| kind.unwrap_or(ParameterType::Text)).collect()
    }

    /// What the planner finds out about the parameters whose type is not known.
    fn implied_types(
        &self,
        statement: &Statement,
        known: &[Option<ParameterType>],
    ) -> Vec<(usize, Option<ParameterType>)> {
        let values: Vec<Option<Parameter>> = known.iter().map(|kind| kind.map(Parameter::null)).collect();
        let Ok(bound) = statement.bind(&values) else { return Vec::new() };
        let StatementKind::Query(query, _) = &bound.kind else { return Vec::new() };
        let mut query = query.clone();
        let lists = compared_lists(&mut query);
        let mut plan = self.with_provider(|provider| provider.unchecked_plan(&query));
        let mut intervals = Vec::new();
        if plan.is_err() {
            // What is added to a time is an INTERVAL, and the planner cannot find that out.
            intervals = statement.added_parameters();
            intervals.retain(|number| known.get(number - 1).is_none_or(Option::is_none));
            let value = |index: usize| {
                let interval = intervals.contains(&(index + 1)).then_some(ParameterType::Interval);
                known.get(index).copied().flatten().or(interval).map(Parameter::null)
            };
            let values: Vec<Option<Parameter>> = (0..statement.parameters()).map(value).collect();
            if let Ok(StatementKind::Query(mut query, _)) = statement.bind(&values).map(|bound| bound.kind) {
                compared_lists(&mut query);
                plan = self.with_provider(|provider| provider.unchecked_plan(&query));
            }
        }
        // What is wrong with the statement is said when it is executed.
        let Ok(plan) = plan else { return Vec::new() };
        let added = intervals.into_iter().map(|number| (number, Some(ParameterType::Interval)));
        // A comparison says more than the function that gets the value elsewhere.
        let compared = plan.get_parameter_types().unwrap_or_default().into_iter();
        let compared = compared.filter_map(|(name, data_type)| Some((number(&name)?, data_type?)));
        let implied = compared.chain(argument_types(&plan)).map(|(number, data_type)| {
            let implied = ParameterType::of_column(&data_type);
            (number, if lists.contains(&number) { implied.and_then(ParameterType::list) } else { implied })
        });
        added.chain(implied).collect()
    }

    /// The columns of the rows that a statement gives, whose parameters have values; `None` if it gives no rows.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn columns(&mut self, statement: &Statement) -> Result<Option<SchemaRef>, TextError> {
        match &statement.kind {
            StatementKind::Query(query, _) => {
                let plan = self.plan(query, statement)?;
                if is_static(&plan) {
                    return Ok(Some(shown_columns(&plan)));
                }
                let prepared = self.prepare(&plan, None, statement);
                let prepared = prepared.map_err(|error| self.text_error(&error, statement))?;
                let output = prepared.outputs().first();
                Ok(Some(output.map_or_else(|| shown_columns(&plan), |output| Arc::clone(&output.schema))))
            }
            StatementKind::ExplainWhy(_) => Ok(Some(explain::why_columns())),
            StatementKind::Show(_) | StatementKind::Describe(_) => match self.execute(statement)? {
                Reply::Rows(rows) => Ok(Some(rows.schema())),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

/// The columns of an answer that does not exist yet.
pub(super) fn shown_columns(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_name(header(field.name()))).collect();
    Arc::new(Schema::new(fields))
}
