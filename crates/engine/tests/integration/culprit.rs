//! What a status says while something holds a query up: the one that holds it up, and not those that wait for it.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::fixture::forward::{Forward, plan, plan_of};
use crate::fixture::sink::Remember;
use crate::fixture::{Row, chunk, eventually, numbered, watched};
use tidemill_engine::{
    Cause, CyclePolicy, Engine, ManualClock, Operator, Output, Rows, Sink, SnapshotReader, SnapshotWriter,
};

const SECOND: u64 = 1_000_000_000;

/// Hands rows on, but only while it is open.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

struct Gated(Gate, Forward);

impl Operator for Gated {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (is_open, opened) = &*self.0.0;
        opened.wait_while(&mut is_open.lock(), |is_open| !*is_open);
        self.1.rows(input, rows, output)
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.1.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.1.restore(reader)
    }
}

#[test]
fn an_operator_in_a_long_cycle_is_seen_before_the_cycle_ends() {
    watched("a long cycle", || {
        let (clock, gate) = (Arc::new(ManualClock::default()), Gate::default());
        let sink = Remember::default();
        let closed = gate.clone();
        let plan = plan_of(move |_| Box::new(Gated(closed.clone(), Forward::default())));
        let engine = Engine::new().workers(3).cycles(CyclePolicy::fixed(10)).clock(clock.clone());
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        clock.advance_ns(SECOND);
        let gateway = running.gateway(0).unwrap();
        // One key: one partition has all rows.
        let rows: Vec<Row> = (0..10).map(|number| (7, number, 1)).collect();
        gateway.push(chunk(&rows)).unwrap();
        // The others have nothing to do, and are done at once.
        let working = || {
            clock.advance_ns(SECOND / 100);
            running.status().work[0].running_ns
        };
        eventually("a worker is in the cycle", || working() >= 5 * SECOND);
        let status = running.status();
        assert_eq!(status.workers, 3);
        assert_eq!((status.sinks[0].cycles_waiting, status.sinks[0].idle_ns), (0, 0), "the sink only waits");
        gate.open();
        eventually("the commit", || sink.committed() == 1);
        let work = running.status().work[0].clone();
        assert_eq!(work.running_ns, 0);
        assert_eq!(work.by_worker_ns.len(), 3);
        assert_eq!(work.by_worker_ns.iter().sum::<u64>(), work.time_ns);
        assert!(work.by_worker_ns.iter().any(|time_ns| *time_ns >= 5 * SECOND), "{work:?}");
        drop(gateway);
        running.join().unwrap();
    });
}

#[test]
fn a_sink_that_commits_nothing_is_told_from_one_that_has_nothing_to_commit() {
    watched("a held sink", || {
        let clock = Arc::new(ManualClock::default());
        let (quick, slow) = (Remember::default(), Remember::default());
        let mut plan = plan();
        let again = plan.sinks[0].inputs.clone();
        plan.sink("slow", again);
        slow.hold(true);
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(quick.clone()), Box::new(slow.clone())];
        let engine = Engine::new().workers(2).cycles(CyclePolicy::fixed(10)).clock(clock.clone());
        let mut running = engine.run(plan, sinks).unwrap();
        let gateway = running.gateway(0).unwrap();
        clock.advance_ns(9 * SECOND);
        gateway.push(chunk(&numbered(0..10))).unwrap();
        let waiting = |sink: usize| running.status().sinks[sink].cycles_waiting;
        eventually("the slow sink has the cycle", || {
            quick.committed() == 1 && (waiting(0), waiting(1)) == (0, 1)
        });
        clock.advance_ns(2 * SECOND);
        // A second one does not make the wait for the first one shorter.
        gateway.push(chunk(&numbered(10..20))).unwrap();
        eventually("the slow sink has the next one", || {
            quick.committed() == 2 && (waiting(0), waiting(1)) == (0, 2)
        });
        clock.advance_ns(SECOND);
        let idle_ns = || running.status().sinks.iter().map(|sink| sink.idle_ns).collect::<Vec<_>>();
        assert_eq!(idle_ns(), [0, 3 * SECOND]);
        slow.hold(false);
        eventually("the commits", || waiting(1) == 0);
        clock.advance_ns(SECOND);
        assert_eq!(idle_ns(), [0, 0], "nothing waits");
        drop(gateway);
        running.join().unwrap();
    });
}
