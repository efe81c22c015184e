//! A sink that calls a function of the program.

use std::ops::RangeInclusive;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Sink};

use crate::pending::PendingRows;

/// Calls a function with the rows of each committed cycle. An error stops the query.
///
/// ```
/// use tidemill_connect::memory::CallbackSink;
/// use tidemill_core::Sink;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let mut sink = CallbackSink::new(&schema, |rows| {
///     println!("{} rows", rows.num_rows());
///     Ok(())
/// });
/// assert!(sink.may_block());
/// sink.finish().unwrap();
/// ```
pub struct CallbackSink<F> {
    schema: SchemaRef,
    function: F,
    pending: PendingRows,
}

impl<F: FnMut(&RecordBatch) -> Result<(), Cause> + Send> CallbackSink<F> {
    /// A sink for rows with these columns.
    pub fn new(schema: &SchemaRef, function: F) -> Self {
        CallbackSink { schema: schema.clone(), function, pending: PendingRows::default() }
    }
}

impl<F: FnMut(&RecordBatch) -> Result<(), Cause> + Send> Sink for CallbackSink<F> {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.pending.take(*cycles.end()).iter().try_for_each(&mut self.function)
    }
}
