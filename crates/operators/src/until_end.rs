//! Holds rows until all input has ended.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::state_rows::state_rows;
use crate::stored_rows::{check_limit, kernel_error, read_rows, with_schema, write_rows};
use crate::watermark::{Watermark, WatermarkSpec};

const VERSION: u8 = 1;

/// What to hold.
#[derive(Clone, Debug)]
pub struct UntilEndSpec {
    /// The columns of the rows.
    pub schema: SchemaRef,
    /// The gateways whose end is waited for.
    pub watermark: WatermarkSpec,
    /// The largest number of rows that a partition holds.
    pub rows_max: usize,
}

/// Holds a stream's rows until the sources have ended, and then emits them in the order of arrival. An operator that
/// joins them with a table then sees the table's last rows, wherever cycles were cut.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::until_end::{UntilEnd, UntilEndSpec};
///
/// let column = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("value", column)]).unwrap();
/// let spec = UntilEndSpec { schema: rows.schema(), watermark: vec![0].into(), rows_max: 1000 };
/// let mut operator = UntilEnd::new(spec);
/// let mut output = Output::new(&[rows.schema()]);
/// operator.rows(0, Batch::from_source(rows, vec![0, 1].into()).as_rows(), &mut output).unwrap();
/// operator.end_of_cycle(&Cut { watermarks: vec![99], ..Cut::first() }, &mut output).unwrap();
/// assert!(output.finish(0).is_none());
/// operator.end_of_cycle(&Cut { watermarks: vec![i64::MAX], ..Cut::first() }, &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().len(), 2);
/// ```
#[derive(Debug)]
pub struct UntilEnd {
    schema: SchemaRef,
    watermark: Watermark,
    rows_max: usize,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl UntilEnd {
    /// An empty instance.
    pub fn new(spec: UntilEndSpec) -> Self {
        UntilEnd {
            schema: spec.schema,
            watermark: Watermark::new(spec.watermark),
            rows_max: spec.rows_max,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    fn hold(&mut self, rows: RecordBatch) -> Result<(), Cause> {
        self.rows += rows.num_rows();
        self.bytes += bytes_of_rows(&rows);
        self.batches.push(with_schema(&self.schema, rows)?);
        check_limit("a join that waits for the end of its input", self.rows, self.rows_max)
    }
}

impl Operator for UntilEnd {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.hold(rows.to_batch())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        if self.watermark.advance(cut) < i64::MAX || self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        for rows in std::mem::take(&mut self.batches) {
            let positions = vec![output.end_position(); rows.num_rows()];
            output.port(0).push_batch(rows, &positions)?;
        }
        Ok(())
    }

    fn next_timer(&self) -> Option<i64> {
        (self.rows > 0).then_some(i64::MAX)
    }

    fn state_bytes(&self) -> usize {
        self.bytes
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        write_rows(writer, concat_batches(&self.schema, &self.batches).map_err(kernel_error).ok());
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        let rows = read_rows(reader, &self.schema)?;
        match rows.num_rows() {
            0 => Ok(()),
            _ => self.hold(rows),
        }
    }

    /// All rows so far.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![state_rows("waiting", &self.schema, &self.batches)?]))
    }
}
