//! Aggregates over groups whose rows are all in one cycle.

use tidemill_core::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use arrow_schema::SchemaRef;

use crate::AggregateSpec;
use crate::failed_results::{FailedResults, Results};
use crate::grouped::{Grouped, Layout};
use crate::window_aggregate::write_rows;

const VERSION: u8 = 1;

/// Emits one row per group at the end of each cycle, and keeps nothing for the next: no group has rows in two cycles.
/// The output has the keys and the results; groups come in the order in which they first occurred.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::{AggregateCall, AggregateSpec, CycleAggregate, aggregate::Count};
///
/// let windows = Arc::new(Int64Array::from(vec![0, 0, 2])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("window", windows)]).unwrap();
/// let spec = AggregateSpec {
///     keys: vec![0],
///     calls: vec![AggregateCall { function: Arc::new(Count::rows()), arguments: vec![], filter: None }],
///     names: vec!["window".into(), "rows".into()],
///     input: rows.schema(),
///     partial_input: false,
///     groups_max: 1000,
/// };
/// let mut output = Output::new(&[CycleAggregate::output_schema(&spec).unwrap()]);
/// let mut operator = CycleAggregate::new(&spec).unwrap();
/// operator.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// operator.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().rows.column(1).as_primitive::<Int64Type>().values(), &[2, 1]);
/// ```
pub struct CycleAggregate {
    layout: Layout,
    results: Results,
    schema: SchemaRef,
    state: Grouped,
    ids: Vec<u32>,
}

impl CycleAggregate {
    /// No groups.
    ///
    /// # Errors
    /// If the specification names columns that do not exist, or a type that cannot be a key.
    pub fn new(spec: &AggregateSpec) -> Result<Self, Cause> {
        Ok(CycleAggregate {
            layout: Layout::new(spec, None)?,
            results: Results::new(spec),
            schema: Self::output_schema(spec)?,
            state: Grouped::new(spec, spec.groups_max)?,
            ids: Vec::new(),
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.results.failed = failed;
        self
    }

    /// The columns of its output: keys and results.
    ///
    /// # Errors
    /// If the number of names is wrong.
    pub fn output_schema(spec: &AggregateSpec) -> Result<SchemaRef, Cause> {
        spec.results_schema(&[])
    }
}

impl Operator for CycleAggregate {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        self.state.add(&self.layout, batch.columns(), batch.num_rows(), &mut self.ids)
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let ids = self.state.all();
        if ids.is_empty() {
            return Ok(());
        }
        let mut columns = self.state.groups.keys(&ids)?;
        let results = self.state.results(&self.results, &ids, &columns, cut.cycle)?;
        columns.extend(results);
        write_rows(columns, ids.len(), &self.schema, output)?;
        self.state.clear();
        Ok(())
    }

    fn state_bytes(&self) -> usize {
        self.state.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)
    }

    /// Nothing is kept from one cycle to the next.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(Vec::new()))
    }
}
