//! The input that a query with a final LIMIT keeps: only the first rows of an order.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use datafusion::arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::SortExpr;
use parking_lot::Mutex;
use tidemill_engine::{Cause, Cut, CycleOutput, MemoryAccount, Sink, bytes_of_rows};

use crate::expressions::compiled::{Compiled, plain};

/// Rows are pruned when this many more than wanted are kept, so that pruning costs little per row.
const SPARE_ROWS: usize = 1 << 16;

/// Which rows are wanted: the first `count` in this order; rows that are equal in it come in the order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct FirstRowsSpec {
    /// Empty: only the order of arrival.
    order: Vec<(Compiled, SortOptions)>,
    count: usize,
}

impl FirstRowsSpec {
    /// The order is over rows with this schema.
    pub fn new(order: &[SortExpr], count: usize, schema: &DFSchema) -> Result<FirstRowsSpec> {
        let compile = |by: &SortExpr| {
            let options = SortOptions { descending: !by.asc, nulls_first: by.nulls_first };
            Ok((Compiled::new(&crate::logical::as_key(by.expr.clone(), schema), schema)?, options))
        };
        Ok(FirstRowsSpec { order: order.iter().map(compile).collect::<Result<_>>()?, count })
    }

    /// The wanted ones among these rows, in their current order.
    fn of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        if self.order.is_empty() {
            return Ok(rows.slice(0, self.count.min(rows.num_rows())));
        }
        let column = |(by, options): &(Compiled, SortOptions)| {
            Ok(SortColumn { values: by.values(rows, &Cut::first())?, options: Some(*options) })
        };
        let mut columns = self.order.iter().map(column).collect::<Result<Vec<_>>>()?;
        let arrival: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows.num_rows() as u64));
        columns.push(SortColumn { values: arrival, options: None });
        let mut first = lexsort_to_indices(&columns, Some(self.count))?.values().to_vec();
        first.sort_unstable();
        Ok(take_record_batch(rows, &UInt32Array::from(first))?)
    }
}

#[derive(Default)]
struct CollectedRows {
    batches: Vec<RecordBatch>,
    rows: usize,
    account: MemoryAccount,
}

/// Keeps the first of the rows that come. See [`FirstRows`].
pub(crate) struct FirstRowsSink {
    schema: SchemaRef,
    first: FirstRowsSpec,
    rows_max: usize,
    shared: Arc<Mutex<CollectedRows>>,
}

/// Reads the rows that a [`FirstRowsSink`] has kept, when the query has ended.
#[derive(Clone)]
pub(crate) struct FirstRows {
    schema: SchemaRef,
    first: FirstRowsSpec,
    shared: Arc<Mutex<CollectedRows>>,
}

impl FirstRowsSink {
    /// A sink for rows of this schema that never holds more than the wanted number plus `rows_max`.
    pub fn new(schema: &SchemaRef, first: FirstRowsSpec, rows_max: usize) -> (FirstRowsSink, FirstRows) {
        let shared = Arc::<Mutex<CollectedRows>>::default();
        let rows = FirstRows { schema: schema.clone(), first: first.clone(), shared: shared.clone() };
        (FirstRowsSink { schema: schema.clone(), first, rows_max, shared }, rows)
    }
}

impl FirstRowsSink {
    /// The memory that its rows count against.
    pub fn memory(self, account: MemoryAccount) -> FirstRowsSink {
        self.shared.lock().account = account;
        self
    }
}

impl FirstRows {
    /// The first rows of all that came, in the order of arrival.
    pub fn read(&self) -> std::result::Result<RecordBatch, Cause> {
        pruned(&self.shared.lock().batches, &self.schema, &self.first)
    }
}

fn pruned(
    batches: &[RecordBatch],
    schema: &SchemaRef,
    first: &FirstRowsSpec,
) -> std::result::Result<RecordBatch, Cause> {
    let too_large = |error| {
        Cause::resource(format!("the first rows in order do not fit into one batch: {error}"))
            .with_source(error)
    };
    let rows = concat_batches(schema, batches).map_err(too_large)?;
    first.of(&rows).map_err(|error| Cause::user(plain(&error)).with_source(error))
}

impl Sink for FirstRowsSink {
    fn prepare(&mut self, output: CycleOutput) -> std::result::Result<(), Cause> {
        let mut shared = self.shared.lock();
        for batch in output.streams.into_iter().flatten() {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
            let columns = batch.rows.columns().to_vec();
            let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
            let rows = rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            shared.rows += rows.num_rows();
            shared.account.grow("the first rows of the result", bytes_of_rows(&rows) as u64)?;
            shared.batches.push(rows);
        }
        if shared.rows > self.first.count.saturating_mul(2).saturating_add(SPARE_ROWS) {
            let rows = pruned(&shared.batches, &self.schema, &self.first)?;
            shared.rows = rows.num_rows();
            shared.account.set(bytes_of_rows(&rows) as u64);
            shared.batches = vec![rows];
        }
        let kept = shared.rows.min(self.first.count);
        if kept <= self.rows_max {
            Ok(())
        } else {
            Err(Cause::resource(format!(
                "LIMIT {} keeps more than {} rows in memory; raise max_result_rows, or write to a file",
                self.first.count, self.rows_max
            )))
        }
    }

    /// The rows are read when the query has ended, so all cycles are committed.
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> std::result::Result<(), Cause> {
        Ok(())
    }
}
