//! One of the sub-streams of a split stream: its rows, each with the number of the sub-stream.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::arrow_bug::arrow_bug;

const VERSION: u8 = 1;

/// Emits every row at its position, with the number of the partition as the last column, a 64-bit integer.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Operator, Output};
/// use tidemill_operators::sub_stream::SubStream;
///
/// let column = || Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("v", column())]).unwrap();
/// let output = RecordBatch::try_from_iter([("v", column()), ("sub-stream", column())]).unwrap().schema();
/// let mut third = SubStream::new(output.clone(), 2);
/// let mut given = Output::new(&[output]);
/// third.rows(0, Batch::from_source(rows, vec![0, 1].into()).as_rows(), &mut given).unwrap();
/// assert_eq!(given.finish(0).unwrap().rows.column(1).as_primitive::<Int64Type>().values(), &[2, 2]);
/// ```
#[derive(Debug)]
pub struct SubStream {
    output: SchemaRef,
    number: i64,
}

impl SubStream {
    /// The instance of a partition. The output has the columns of the input, and one for the number.
    pub fn new(output: SchemaRef, partition: u32) -> Self {
        SubStream { output, number: i64::from(partition) }
    }
}

impl Operator for SubStream {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(Int64Array::from_value(self.number, batch.num_rows())));
        let numbered = RecordBatch::try_new(Arc::clone(&self.output), columns);
        output.port(0).push_batch(numbered.map_err(arrow_bug("numbering a sub-stream"))?, rows.positions())
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
