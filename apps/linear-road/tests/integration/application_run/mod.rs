//! Runs the application on events in memory and collects what its sink gets.

// Each test program compiles this module for itself and uses its own part of it.
#![allow(dead_code)]

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::arrow::array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::{Cause, CycleOutput, CyclePolicy, Engine, ManualClock, Sink};
use tidemill_linear_road::answers::{ACCIDENTS, BALANCES, EXPENDITURES, KINDS, TOLLS, encode};
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::expenditures::history::History;
use tidemill_linear_road::intake::EventColumns;
use tidemill_linear_road::query::{self, Partitions};

/// The answers of a run, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// (time, vid, lav, toll)
    pub tolls: Vec<(u16, u32, i8, u64)>,
    /// (time, vid, seg)
    pub accidents: Vec<(u16, u32, u8)>,
    /// (qid, time, balance)
    pub balances: Vec<(u64, u16, u64)>,
    /// (qid, time, toll)
    pub expenditures: Vec<(u64, u16, u64)>,
    /// The files' bytes.
    pub text: [Vec<u8>; KINDS],
}

impl Collected {
    /// The same answers in a fixed order, without the text.
    pub fn sorted(mut self) -> Self {
        self.tolls.sort();
        self.accidents.sort();
        self.balances.sort();
        self.expenditures.sort();
        self.text = Default::default();
        self
    }
}

#[derive(Clone, Default)]
struct CollectingSink(Arc<Mutex<Collected>>);

impl Sink for CollectingSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut collected = self.0.lock();
        for (kind, batch) in output.streams.iter().enumerate() {
            let Some(batch) = batch else { continue };
            encode::lines(kind, batch, &output.arrivals, output.clock.now_ns(), &mut collected.text[kind]);
            let rows = batch.as_rows();
            for row in 0..rows.len() {
                match kind {
                    TOLLS => collected.tolls.push((
                        rows.column::<UInt16Type>(1)[row],
                        rows.column::<UInt32Type>(0)[row],
                        rows.column::<Int8Type>(2)[row],
                        rows.column::<UInt64Type>(3)[row],
                    )),
                    ACCIDENTS => collected.accidents.push((
                        rows.column::<UInt16Type>(0)[row],
                        rows.column::<UInt32Type>(1)[row],
                        rows.column::<UInt8Type>(2)[row],
                    )),
                    BALANCES | EXPENDITURES => {
                        let answer = (
                            rows.column::<UInt64Type>(1)[row],
                            rows.column::<UInt16Type>(0)[row],
                            rows.column::<UInt64Type>(2)[row],
                        );
                        match kind {
                            BALANCES => collected.balances.push(answer),
                            _ => collected.expenditures.push(answer),
                        }
                    }
                    _ => unreachable!("the sink has four inputs"),
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Runs the application in cycles of exactly `cycle_events`, on a clock that stands still.
pub fn run(
    events: &[Event],
    history: &[HistoryRow],
    workers: usize,
    cycle_events: u32,
    partitions: Partitions,
) -> Collected {
    let sink = CollectingSink::default();
    let history = Arc::new(History::new(history.iter().copied()));
    let engine = Engine::new()
        .workers(workers)
        .cycles(CyclePolicy::fixed(cycle_events))
        .clock(Arc::new(ManualClock::default()));
    let mut running = engine.run(query::plan(partitions, history), vec![Box::new(sink.clone())]).unwrap();
    let gateway = running.gateway(0).unwrap();
    let mut columns = EventColumns::default();
    for chunk in events.chunks(1000) {
        chunk.iter().for_each(|event| columns.push(event));
        gateway.push(columns.take()).unwrap();
    }
    drop(gateway);
    let summary = running.join().unwrap();
    assert_eq!(summary.per_event.count(), events.len() as u64);
    let collected = sink.0.lock();
    collected.clone()
}
