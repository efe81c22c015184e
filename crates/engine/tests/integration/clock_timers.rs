//! Operators that wait for times of the clock: a cycle is closed for them, even if no row comes.

use std::time::Duration;

use tidemill_engine::arrow::array::types::{Int64Type, UInt32Type, UInt64Type};
use tidemill_engine::{
    Cause, Cut, CyclePolicy, Engine, MemoryCutLog, Operator, Output, Plan, Rows, SnapshotReader,
    SnapshotWriter,
};

use crate::fixture::forward::operator;
use crate::fixture::sink::Remember;
use crate::fixture::{Row, chunk, eventually, schema, watched};

/// Hands on each row so many milliseconds after the cycle in which it came as its value says.
#[derive(Default)]
struct Later {
    came: Vec<Row>,
    waiting: Vec<(u64, Row)>,
}

impl Operator for Later {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let (keys, times) = (rows.column::<UInt32Type>(0), rows.column::<Int64Type>(1));
        let values = rows.column::<UInt64Type>(2);
        self.came.extend((0..rows.len()).map(|row| (keys[row], times[row], values[row])));
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let closed_ns = cut.closed_at_ns;
        let due = self.came.drain(..).map(|row| (closed_ns + row.2 * 1_000_000, row));
        self.waiting.extend(due);
        let position = output.end_position();
        self.waiting.retain(|(due_ns, row)| {
            if *due_ns <= closed_ns {
                output.port(0).push(position, *row);
            }
            *due_ns > closed_ns
        });
        Ok(())
    }

    fn next_clock_timer(&self) -> Option<u64> {
        self.waiting.iter().map(|(due_ns, _)| *due_ns).min()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(1);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(1)
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new("later");
    let input = plan.source("input", [schema()]);
    let output = plan.operator(operator("later", input[0], |_| Box::new(Later::default())).clock_timers());
    plan.sink("output", output);
    plan
}

#[test]
fn a_cycle_is_closed_for_each_time_that_comes() {
    for workers in [1, 2, 5] {
        watched("clock timers", move || {
            let (sink, log) = (Remember::default(), MemoryCutLog::new(1000));
            let cycles = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
            let engine = Engine::new().workers(workers).cycles(cycles).cut_log(log.clone());
            let mut running = engine.run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&[(1, 1, 30), (2, 2, 0), (3, 3, 60)])).unwrap();
            eventually("all rows", || sink.rows(0).len() == 3);
            let numbers: Vec<u32> = sink.rows(0).iter().map(|row| row.0).collect();
            assert_eq!(numbers, [2, 1, 3], "each at its time");
            // Nobody waits any more, so no cycle is closed.
            std::thread::sleep(Duration::from_millis(50));
            let cuts = log.cuts();
            assert_eq!(cuts.len(), 3, "a cycle for each time, and no more");
            assert_eq!(cuts[2].positions, cuts[0].positions);
            let after_ns = |cut: usize| cuts[cut].closed_at_ns - cuts[0].closed_at_ns;
            assert!(after_ns(1) >= 30_000_000 && after_ns(2) >= 60_000_000);
            drop(gateway);
            running.join().unwrap();
        });
    }
}

#[test]
fn rows_do_not_wait_for_a_time_and_a_time_not_for_rows() {
    watched("rows and times", || {
        let sink = Remember::default();
        let engine = Engine::new().cycles(CyclePolicy { wait_max: None, ..CyclePolicy::default() });
        let mut running = engine.run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&[(1, 1, 600_000)])).unwrap();
        for number in 2..30 {
            gateway.push(chunk(&[(number, i64::from(number), 1)])).unwrap();
            eventually("a row", || sink.rows(0).len() == number as usize - 1);
        }
        drop(gateway);
        running.join().unwrap();
        assert_eq!(sink.rows(0).len(), 28, "the end waits for nobody");
    });
}
