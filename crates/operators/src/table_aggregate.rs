//! Aggregates without a window: a table with one row per group, which is never closed.

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::AggregateSpec;
use crate::failed_results::{FailedResults, Results};
use crate::grouped::{Grouped, Layout, StateTypes};
use crate::state_rows::batch;
use crate::window_aggregate::write_rows;

/// At the end of each cycle, emits the new row of every group that had rows in it, in the order of their first rows.
///
/// The output has the keys and the results; a row replaces the previous one with the same keys. Without keys, the table
/// has one row from the first cycle on, whether rows have come or not: counts are 0 then, and other results NULL.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::{AggregateCall, AggregateSpec, TableAggregate, aggregate::Count};
///
/// let campaigns = Arc::new(StringArray::from(vec!["b", "a", "b"])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("campaign", campaigns)]).unwrap();
/// let spec = AggregateSpec {
///     keys: vec![0],
///     calls: vec![AggregateCall { function: Arc::new(Count::rows()), arguments: vec![], filter: None }],
///     names: vec!["campaign".into(), "clicks".into()],
///     input: rows.schema(),
///     partial_input: false,
///     groups_max: 1000,
/// };
/// let mut output = Output::new(&[TableAggregate::output_schema(&spec).unwrap()]);
/// let mut table = TableAggregate::new(&spec).unwrap();
/// table.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// table.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// let clicks = output.finish(0).unwrap().rows;
/// assert_eq!(clicks.column(1).as_primitive::<Int64Type>().values(), &[2, 1]);
/// ```
pub struct TableAggregate {
    layout: Layout,
    types: StateTypes,
    results: Results,
    schema: SchemaRef,
    state: Grouped,
    /// The groups that had rows in this cycle, and for each group whether it had.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    ids: Vec<u32>,
    /// Whether there are only keys. Then a row can change only by being new.
    keys_only: bool,
    /// The number of groups at the end of the last cycle.
    groups_before: usize,
}

const SNAPSHOT_VERSION: u8 = 1;

impl TableAggregate {
    /// An empty table.
    ///
    /// # Errors
    /// If the specification names columns that do not exist, or a type that cannot be a key.
    pub fn new(spec: &AggregateSpec) -> Result<Self, Cause> {
        Ok(TableAggregate {
            layout: Layout::new(spec, None)?,
            types: StateTypes::new(spec),
            results: Results::new(spec),
            schema: Self::output_schema(spec)?,
            state: Grouped::new(spec, spec.groups_max)?,
            touched: Vec::new(),
            is_touched: Vec::new(),
            ids: Vec::new(),
            keys_only: spec.calls.is_empty(),
            groups_before: 0,
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.results.failed = failed;
        self
    }

    /// The columns of its output: keys, results.
    ///
    /// # Errors
    /// If the number of names is wrong.
    pub fn output_schema(spec: &AggregateSpec) -> Result<SchemaRef, Cause> {
        spec.results_schema(&[])
    }

    /// Whether it is a table of one row that has not been written yet.
    fn lacks_its_row(&self) -> bool {
        self.types.keys.is_empty() && self.state.groups.is_empty()
    }
}

impl Operator for TableAggregate {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        self.state.add(&self.layout, batch.columns(), rows.len(), &mut self.ids)?;
        self.is_touched.resize(self.state.groups.len(), false);
        for id in &self.ids {
            let is_touched = &mut self.is_touched[*id as usize];
            if !*is_touched && (!self.keys_only || *id as usize >= self.groups_before) {
                *is_touched = true;
                self.touched.push(*id);
            }
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        if self.lacks_its_row() {
            self.state.make_only_group()?;
            self.is_touched.resize(1, false);
            self.touched.push(0);
        }
        if self.touched.is_empty() {
            return Ok(());
        }
        self.groups_before = self.state.groups.len();
        let mut columns = self.state.groups.keys(&self.touched)?;
        let results = self.state.results(&self.results, &self.touched, &columns, cut.cycle)?;
        columns.extend(results);
        write_rows(columns, self.touched.len(), &self.schema, output)?;
        self.touched.iter().for_each(|id| self.is_touched[*id as usize] = false);
        self.touched.clear();
        Ok(())
    }

    fn next_timer(&self) -> Option<i64> {
        // Due in the first cycle.
        self.lacks_its_row().then_some(i64::MIN)
    }

    fn state_bytes(&self) -> usize {
        // Beside the groups: which of them were touched in the cycle.
        self.state.bytes() + self.is_touched.capacity() + 4 * self.touched.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        self.state.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        self.state.restore(reader, &self.types)?;
        self.is_touched.resize(self.state.groups.len(), false);
        self.groups_before = self.state.groups.len();
        Ok(())
    }

    /// All groups with their results.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let ids = self.state.all();
        let mut columns = self.state.groups.keys(&ids)?;
        let results = self.state.results(&self.results.or_null(), &ids, &columns, 0)?;
        columns.extend(results);
        Ok(Some(vec![StateRows { kind: "groups", rows: batch(&self.schema, columns, ids.len())? }]))
    }
}
