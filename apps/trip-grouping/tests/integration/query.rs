//! The query on the engine: the same bytes with any number of workers and any cuts, and the shares of each group as if it
//! were alone.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use tidemill_engine::{Chunk, Counter, CyclePolicy, Engine, ManualClock, Snapshot};
use tidemill_trip_grouping::criteria::{Criteria, Order};
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::grouping::Grouping;
use tidemill_trip_grouping::partitioner::{PARTITIONINGS, PartitionerPlan, Partitioning};
use tidemill_trip_grouping::query;
use tidemill_trip_grouping::request::{Place, Request};
use tidemill_trip_grouping::savings::Savings;
use tidemill_trip_grouping::schema;
use tidemill_trip_grouping::share::Share;
use tidemill_trip_grouping::share_file::{ShareFile, Tally};
use tidemill_trip_grouping::text::{SHARE_HEADER, write_share};

/// What a run consists of.
#[derive(Clone)]
struct Run<'a> {
    requests: &'a [Request],
    partitioner: PartitionerPlan,
    criteria: Criteria,
    workers: usize,
    cycles: CyclePolicy,
    state: Option<Arc<Snapshot>>,
}

/// The file's bytes, what was summed up, and the state at the end.
struct Written {
    text: String,
    savings: Savings,
    snapshot: Snapshot,
}

impl Run<'_> {
    /// Runs until the input ends, or stops before and keeps the state.
    fn run(&self, stops: bool) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let (path, tally) = (folder.path().join("shares.csv"), Tally::default());
        let sink = ShareFile::create(&path, tally.clone()).unwrap();
        let mut engine = Engine::new()
            .workers(self.workers)
            .cycles(self.cycles.clone())
            .clock(Arc::new(ManualClock::default()));
        if let Some(state) = &self.state {
            engine = engine.state(Arc::clone(state) as _);
        }
        let plan = query::plan(self.partitioner.clone(), self.criteria).unwrap();
        let mut running = engine.run(plan, vec![Box::new(sink)]).unwrap();
        let gateway = running.gateway(0).unwrap();
        for requests in self.requests.chunks(100) {
            let watermark = requests.last().map_or(0, |last| last.requested);
            let streams = vec![Some(schema::batch_of(requests).unwrap())];
            let events = requests.len() as u32;
            gateway.push(Chunk { streams, events, watermark, arrived_ns: None, idle: false }).unwrap();
        }
        let snapshot = running.snapshot().unwrap();
        if stops {
            while running.status().get(Counter::EventsCommitted) < self.requests.len() as u64 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let text = fs::read_to_string(&path).unwrap();
            running.abort();
            let _ = running.join();
            return Written { text, savings: total(&tally), snapshot };
        }
        drop(gateway);
        running.join().unwrap();
        Written { text: fs::read_to_string(&path).unwrap(), savings: total(&tally), snapshot }
    }
}

fn total(tally: &Tally) -> Savings {
    let mut total = Savings::default();
    tally.by_hour().iter().for_each(|(_, savings)| total.merge(savings));
    total
}

/// The shares of each group by itself, in the order of the file.
fn alone(run: &Run<'_>) -> Vec<Share> {
    let mut partitioner = run.partitioner.start();
    let mut groupings = vec![Grouping::new(run.criteria); run.partitioner.groups() as usize];
    for request in run.requests {
        groupings[partitioner.group(request) as usize].add(*request);
    }
    let mut shares = Vec::new();
    groupings.iter_mut().for_each(|grouping| grouping.advance(i64::MAX, &mut shares));
    shares.sort_by_key(|share| share.grouped);
    shares
}

fn text_of(shares: &[Share]) -> String {
    let mut lines = format!("{SHARE_HEADER}\n").into_bytes();
    shares.iter().for_each(|share| write_share(share, &mut lines));
    String::from_utf8(lines).unwrap()
}

fn history() -> Vec<Request> {
    GeneratorConfig { people: 3000, seed: 8, ..GeneratorConfig::default() }.day().unwrap().requests
}

fn cycles() -> [CyclePolicy; 4] {
    [CyclePolicy::default(), CyclePolicy::fixed(1), CyclePolicy::fixed(37), CyclePolicy::fixed(100_000)]
}

#[test]
fn a_citys_day_is_the_same_with_any_workers_cuts_and_partitionings() {
    let day = GeneratorConfig { people: 4000, ..GeneratorConfig::default() }.day().unwrap();
    for (name, partitioning) in PARTITIONINGS {
        let groups = partitioning.groups_max().min(16);
        let partitioner = PartitionerPlan::new(partitioning, groups, 600, &history()).unwrap();
        let mut run = Run {
            requests: &day.requests,
            partitioner,
            criteria: Criteria::default(),
            workers: 1,
            cycles: CyclePolicy::default(),
            state: None,
        };
        let expected = alone(&run);
        let mut savings = Savings::default();
        expected.iter().for_each(|share| savings.add(share));
        assert_eq!(savings.requests, day.requests.len() as u64);
        let text = text_of(&expected);
        for (workers, cycles) in [1, 2, 5, 2].into_iter().zip(cycles()) {
            (run.workers, run.cycles) = (workers, cycles);
            let written = run.run(false);
            assert!(written.text == text, "{name}, {workers} workers, {:?}", run.cycles);
            assert_eq!(
                (written.savings.requests, written.savings.shares),
                (savings.requests, savings.shares)
            );
            assert!((written.savings.of_distance() - savings.of_distance()).abs() < 1e-9);
        }
    }
}

#[test]
fn a_run_that_is_restored_goes_on_as_if_it_had_not_stopped() {
    let day = GeneratorConfig { people: 4000, ..GeneratorConfig::default() }.day().unwrap();
    for partitioning in
        [Partitioning::RoundRobin, Partitioning::AdaptivePointQuad, Partitioning::AdaptiveKdTree]
    {
        let run = Run {
            requests: &day.requests,
            partitioner: PartitionerPlan::new(partitioning, 5, 600, &[]).unwrap(),
            criteria: Criteria { order: Order::CheapestFirst, ..Criteria::default() },
            workers: 2,
            cycles: CyclePolicy::default(),
            state: None,
        };
        let whole = run.run(false);
        let (first, second) = day.requests.split_at(day.requests.len() * 2 / 5);
        let before = Run { requests: first, ..run.clone() }.run(true);
        let state = Some(Arc::new(before.snapshot));
        let after = Run { requests: second, workers: 5, state, ..run.clone() }.run(false);
        let after = after.text.strip_prefix(SHARE_HEADER).and_then(|text| text.strip_prefix('\n')).unwrap();
        assert!(before.text.lines().count() > 100);
        assert!(before.text.clone() + after == whole.text, "{partitioning}");
    }
}

#[test]
fn impossible_criteria_are_refused_before_the_run() {
    let partitioner = PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap();
    let error = query::plan(partitioner, Criteria { max_share: 1, ..Criteria::default() }).err().unwrap();
    assert_eq!(error.to_string(), "group_trips: max_share is 1; a share has 2 to 8 people");
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let place =
        || (0..40, 0..40).prop_map(|(x, y)| Place { x_m: 250.0 * f64::from(x), y_m: 250.0 * f64::from(y) });
    let request = (0..3000i64, 0..1000i64, place(), place());
    prop::collection::vec(request, 1..300).prop_map(|mut requests| {
        requests.sort_by_key(|request| request.0);
        let request = |(id, (requested, wait, origin, destination))| Request {
            id,
            requested,
            expires: requested + wait,
            origin,
            destination,
        };
        (0i64..).zip(requests).map(request).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_requests_give_the_same_bytes_with_any_workers_and_cuts(
        requests in requests(),
        (name, partitioning) in prop::sample::select(PARTITIONINGS.to_vec()),
        groups in 1..20u32,
        order in prop_oneof![Just(Order::Arrival), Just(Order::CheapestFirst)],
        cycle_events in 1..200u32,
    ) {
        let groups = groups.min(partitioning.groups_max());
        let run = Run {
            requests: &requests,
            partitioner: PartitionerPlan::new(partitioning, groups, 600, &history()).unwrap(),
            criteria: Criteria { order, ..Criteria::default() },
            workers: 1,
            cycles: CyclePolicy::fixed(cycle_events),
            state: None,
        };
        let text = text_of(&alone(&run));
        for workers in [1, 2, 5] {
            prop_assert_eq!(&Run { workers, ..run.clone() }.run(false).text, &text, "{} {}", name, workers);
        }
        let other = Run { workers: 2, cycles: CyclePolicy::default(), ..run.clone() }.run(false);
        prop_assert_eq!(&other.text, &text);
    }
}
