//! The query: each element costs its time, and its answer is its number.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::UInt64Type;
use tidemill_engine::arrow::array::{RecordBatch, UInt64Array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, Clock, CycleOutput, Operator, OperatorPlan, Output, Plan, Rows, Sink,
    SnapshotReader, SnapshotWriter, route_by_key,
};

use crate::burn::burn;

/// Logical partitions: elements take turns, so that several workers share a batch evenly.
const PARTITIONS: u32 = 16;

fn elements() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, false)]))
}

/// The plan.
pub fn plan(cost: Duration) -> Plan {
    let mut plan = Plan::new("elements");
    let source = plan.source("elements", [elements()]);
    let work = OperatorPlan::new("work", PARTITIONS, move |_| Box::new(Work { cost }))
        .input(source[0], &["number"], route_by_key::<UInt64Type>(0, PARTITIONS))
        .output(elements());
    let answers = plan.operator(work);
    plan.sink("answers", answers);
    plan
}

/// An element that arrived at a moment of the engine's clock.
pub fn element(number: u64, arrived_ns: u64) -> Chunk {
    let numbers = Arc::new(UInt64Array::from(vec![number]));
    let rows = RecordBatch::try_new(elements(), vec![numbers]).expect("the column is the schema's");
    let batch = Batch::from_source(rows, vec![0].into());
    let (events, arrived_ns) = (1, Some(arrived_ns));
    Chunk { streams: vec![Some(batch)], events, watermark: i64::MIN, arrived_ns, idle: false }
}

struct Work {
    cost: Duration,
}

impl Operator for Work {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let numbers = rows.column::<UInt64Type>(0);
        let mut answers = output.port(0).writer();
        for (number, position) in numbers.iter().zip(rows.positions()) {
            burn(self.cost);
            answers.push(*position, (*number,));
        }
        Ok(())
    }

    fn snapshot(&self, _writer: &mut SnapshotWriter) {}

    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// An answer: the element's number, its cycle, when it was committed on the engine's clock, and how long the host had taken the cores
/// away until then.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub number: u64,
    pub cycle: u64,
    pub committed_ns: u64,
    pub stolen: Duration,
}

/// Records answers.
pub struct Recorder {
    pub clock: Arc<dyn Clock>,
    pub cores: Vec<usize>,
    pub answers: Arc<Mutex<Vec<Answer>>>,
    pub prepared: Vec<u64>,
}

impl Sink for Recorder {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.into_iter().flatten() {
            self.prepared.extend_from_slice(batch.rows.column(0).as_primitive::<UInt64Type>().values());
        }
        Ok(())
    }

    fn may_block(&self) -> bool {
        false
    }

    /// One cycle at a time: the query has no more in flight.
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let cycle = *cycles.end();
        let committed_ns = self.clock.now_ns();
        let stolen = tidemill_realtime::stolen(&self.cores).unwrap_or_default();
        let mut answers = self.answers.lock();
        answers.extend(self.prepared.drain(..).map(|number| Answer { number, cycle, committed_ns, stolen }));
        Ok(())
    }
}
