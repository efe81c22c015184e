//! Rows dealt to sub-streams one after the other.

use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::{Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use crate::arrow_bug::arrow_bug;
use crate::state::damaged;

const VERSION: u8 = 1;

/// Who gets the rows.
#[derive(Clone, Debug)]
pub struct RoundRobinSpec {
    /// The columns of the input.
    pub schema: SchemaRef,
    /// The number of sub-streams, above 0.
    pub sub_streams: u32,
    /// A Boolean column: a row for which it is true goes to all of them, and it is nobody's turn.
    pub broadcast: Option<usize>,
}

/// The columns of the output: those of the input, and the number of the sub-stream.
pub fn output_schema(spec: &RoundRobinSpec) -> SchemaRef {
    let turn = Arc::new(Field::new("turn", DataType::Int64, true));
    Arc::new(Schema::new(spec.schema.fields().iter().cloned().chain([turn]).collect::<Vec<_>>()))
}

/// Emits each row at its position with the number of the sub-stream whose turn it is: 0, 1, ... and then 0 again. It has one
/// partition, which sees all rows in their order.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Operator, Output};
/// use tidemill_operators::round_robin::{RoundRobin, RoundRobinSpec, output_schema};
///
/// let values = Arc::new(Int64Array::from(vec![5, 6, 7])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("value", values)]).unwrap();
/// let spec = RoundRobinSpec { schema: rows.schema(), sub_streams: 2, broadcast: None };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// let mut operator = RoundRobin::new(spec);
/// operator.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().rows.column(1).as_primitive::<Int64Type>().values(), &[0, 1, 0]);
/// ```
#[derive(Debug)]
pub struct RoundRobin {
    output: SchemaRef,
    sub_streams: i64,
    broadcast: Option<usize>,
    next: i64,
}

impl RoundRobin {
    /// The first row goes to sub-stream 0.
    pub fn new(spec: RoundRobinSpec) -> Self {
        RoundRobin {
            output: output_schema(&spec),
            sub_streams: i64::from(spec.sub_streams.max(1)),
            broadcast: spec.broadcast,
            next: 0,
        }
    }
}

impl Operator for RoundRobin {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let marks = self.broadcast.map(|column| batch.column(column).as_boolean());
        let mut turns = Int64Builder::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            if marks.is_some_and(|marks| marks.is_valid(row) && marks.value(row)) {
                turns.append_null();
                continue;
            }
            turns.append_value(self.next);
            self.next = (self.next + 1) % self.sub_streams;
        }
        let columns = batch.columns().iter().cloned().chain([Arc::new(turns.finish()) as _]).collect();
        let dealt = RecordBatch::try_new(Arc::clone(&self.output), columns);
        output.port(0).push_batch(dealt.map_err(arrow_bug("dealing rows"))?, rows.positions())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        writer.i64(self.next);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.next = reader.i64()?;
        if (0..self.sub_streams).contains(&self.next) {
            Ok(())
        } else {
            Err(damaged("it is the turn of a sub-stream that does not exist"))
        }
    }
}
