//! What an aggregation computes: keys, calls of functions, and names of the results.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tidemill_core::Cause;

use super::{Accumulator, Aggregate};
use crate::state::StateColumns;

/// A call of an aggregate function on columns of the input.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The function.
    pub function: Arc<dyn Aggregate>,
    /// The columns of its arguments.
    pub arguments: Vec<usize>,
    /// A Boolean column: only rows with true count.
    pub filter: Option<usize>,
}

/// What an aggregation computes from which rows. The same specification, except for `partial_input`, is given to
/// [`Combine`](crate::Combine) before the split and to the operator after it.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use tidemill_operators::{AggregateCall, AggregateSpec, TableAggregate, aggregate::Count};
///
/// let input = Schema::new(vec![Field::new("campaign", DataType::Utf8, true)]);
/// let call = AggregateCall { function: Arc::new(Count::rows()), arguments: vec![], filter: None };
/// let spec = AggregateSpec {
///     keys: vec![0],
///     calls: vec![call],
///     names: vec!["campaign".into(), "clicks".into()],
///     input: Arc::new(input),
///     partial_input: false,
///     groups_max: 1_000_000,
/// };
/// let output = TableAggregate::output_schema(&spec).unwrap();
/// assert_eq!(output.field(1).data_type(), &DataType::Int64);
/// ```
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// The columns of the input whose values form a group.
    pub keys: Vec<usize>,
    /// The functions.
    pub calls: Vec<AggregateCall>,
    /// The names of the output's columns: keys, then (with windows) start and end of the window, then one per
    /// call.
    pub names: Vec<String>,
    /// The schema of the rows before any combination.
    pub input: SchemaRef,
    /// Whether the operator's input was written by [`Combine`](crate::Combine).
    pub partial_input: bool,
    /// The most groups that one partition may hold at a time (the setting `max_groups`).
    pub groups_max: usize,
}

impl AggregateSpec {
    /// The types of the keys.
    pub fn key_types(&self) -> Vec<DataType> {
        self.keys.iter().map(|key| self.input.field(*key).data_type().clone()).collect()
    }

    /// Whether rows may be combined before the split with bit-identical results.
    pub fn is_exact(&self) -> bool {
        self.calls.iter().all(|call| call.function.is_exact())
    }

    /// One empty accumulator per call.
    pub(crate) fn accumulators(&self) -> Vec<Box<dyn Accumulator>> {
        self.calls.iter().map(|call| call.function.accumulator()).collect()
    }

    /// The types of the partial results of all calls, one call after the other.
    pub(crate) fn partial_types(&self) -> Vec<DataType> {
        self.calls.iter().flat_map(|call| call.function.partial_types()).collect()
    }

    /// The columns of a snapshot: these, and then the partial results.
    pub(crate) fn state_columns(&self, mut types: Vec<DataType>) -> StateColumns {
        let mut added = Vec::new();
        for call in &self.calls {
            types.extend(call.function.partial_types());
            added.extend(types.len() - call.function.partials_added()..types.len());
        }
        StateColumns { types, added }
    }

    /// The schema of keys, the given window columns, and results.
    pub(crate) fn results_schema(&self, window: &[DataType]) -> Result<SchemaRef, Cause> {
        let expected = self.keys.len() + window.len() + self.calls.len();
        if self.names.len() != expected {
            let given = self.names.len();
            return Err(Cause::bug(format!("an aggregation of {expected} columns got {given} names")));
        }
        let keys = self.keys.iter().map(|key| FieldRef::clone(&self.input.fields()[*key]));
        let window = window.iter().map(|bound| Arc::new(Field::new("", bound.clone(), false)));
        let results =
            self.calls.iter().map(|call| Arc::new(Field::new("", call.function.result_type(), true)));
        let columns = keys.chain(window).chain(results).zip(&self.names);
        let fields = columns.map(|(field, name)| field.as_ref().clone().with_name(name)).collect::<Vec<_>>();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Checks that all named columns exist, and that filters are Boolean.
    pub(crate) fn check(&self) -> Result<(), Cause> {
        let columns = self.input.fields().len();
        let arguments = self.calls.iter().flat_map(|call| call.arguments.iter().chain(&call.filter));
        if let Some(column) = self.keys.iter().chain(arguments).find(|column| **column >= columns) {
            return Err(Cause::bug(format!("an aggregation names column {column} of {columns}")));
        }
        for call in &self.calls {
            let filter = call.filter.map(|filter| self.input.field(filter).data_type());
            if filter.is_some_and(|data_type| *data_type != DataType::Boolean) {
                return Err(Cause::bug(format!("the filter of {} is not a boolean", call.function.name())));
            }
        }
        Ok(())
    }
}
