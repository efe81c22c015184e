//! One query over several processes gives, byte for byte, what it gives over threads: with any plan, split, snapshot
//! and number of processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::oracle::{one_chunk, random_chunks, random_events, random_split};
use crate::fixture::processes::{
    TO_ALL, TO_NONE, assert_none_left, kill, living, mixed, plan, processes, token,
};
use crate::fixture::sink::{Given, Placed, Remember};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{Row, chunk, eventually, numbered, watched};
use tidemill_engine::{
    Chunk, Counter, Cut, CyclePolicy, Durability, DurableRun, DurableSource, Engine, Failure, FeedSettings,
    FlowError, Journal, Limits, ManualClock, MemoryCutLog, Running, Sink, Snapshot, SplitPlan,
    StreamSettings, SyncPolicy, WorkerProcesses,
};
use tidemill_testing::random::Random;

/// A program that does not ask whether it is one of several processes.
#[test]
fn forgetful() {
    if std::env::var_os("TIDEMILL_PROCESS").is_some() {
        let run = Engine::new()
            .processes(WorkerProcesses::new(2))
            .run(plan("forward"), Remember::default().boxed());
        let Err(FlowError::Settings(error)) = run else { panic!("it starts a query") };
        assert!(error.starts_with("this process was started as process 1 of a query"), "{error}");
        std::process::exit(9);
    }
}

/// Processes, and workers of each.
const LAYOUTS: [(usize, usize); 5] = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)];

fn engine((count, workers): (usize, usize), name: &str, token: &str) -> Engine {
    // Longer than what a pipe holds.
    let instructions = name.to_string() + &" ".repeat(100_000);
    Engine::new().workers(workers).processes(processes(count, &instructions, token))
}

/// Runs the plan of a name on chunks; gives the logged cuts and what each sink was given.
fn run(
    layout: (usize, usize),
    name: &str,
    chunks: &[Chunk],
    cycle: u32,
    change: impl Fn(usize, &Running) + Send + 'static,
) -> (Vec<Cut>, Vec<Vec<Given>>) {
    let (name, chunks) = (name.to_string(), chunks.to_vec());
    watched("several processes", move || {
        let (plan, token) = (plan(&name), token());
        let sinks: Vec<Remember> =
            plan.sinks.iter().map(|_| Remember { direct: layout.1 == 2, ..Remember::default() }).collect();
        let log = MemoryCutLog::new(1_000_000);
        let mut running = engine(layout, &name, &token)
            .cycles(CyclePolicy::fixed(cycle))
            .limits(Limits { cycles_in_flight_max: 3, ..Limits::default() })
            .cut_log(log.clone())
            .clock(Arc::new(ManualClock::default()))
            .run(plan, sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect())
            .unwrap();
        assert_eq!(living(&token).len(), layout.0 - 1);
        let gateway = running.gateway(0).unwrap();
        for (index, chunk) in chunks.into_iter().enumerate() {
            change(index, &running);
            gateway.push(chunk).unwrap();
        }
        drop(gateway);
        running.join().unwrap();
        assert!(living(&token).is_empty(), "all processes have ended with the query");
        sinks.iter().for_each(|sink| assert_eq!(sink.committed(), log.cuts().len() as u64));
        (log.cuts(), sinks.iter().map(Remember::given).collect())
    })
}

#[test]
fn random_plans_give_what_the_oracle_gives_over_any_processes() {
    let mut random = Random::new(5);
    for round in 0..6 {
        let seed = random.below(1_000_000);
        let spec = mixed(seed);
        let name = format!("{} {seed}", ["mixed", "split"][round % 2]);
        let (cycle, count) = [(40, 1000), (1500, 5000), (60_000, 5000)][round % 3];
        let events = random_events(&mut random, count);
        let chunks = random_chunks(&mut random, &events, true);
        for layout in LAYOUTS {
            let (cuts, given) = run(layout, &name, &chunks, cycle, |_, _| {});
            let expected = spec.expected(std::slice::from_ref(&events), &cuts);
            assert!(given == expected, "'{name}' over {layout:?} gives something else");
        }
    }
}

#[test]
fn splits_change_while_the_query_runs() {
    let mut random = Random::new(8);
    for seed in [3, 14] {
        let spec = mixed(seed);
        let operators: Vec<(String, usize, u32)> = spec
            .plan()
            .operators
            .iter()
            .map(|operator| (operator.name.clone(), operator.inputs.len(), operator.partitions))
            .collect();
        let events = random_events(&mut random, 3000);
        let chunks: Vec<Chunk> = events.chunks(50).map(one_chunk).collect();
        for layout in [(2, 1), (2, 2), (3, 1)] {
            let operators = operators.clone();
            let change = move |index: usize, running: &Running| {
                let mut random = Random::new(index as u64);
                let (name, inputs, partitions) = &operators[random.below(operators.len() as u64) as usize];
                let input = random.below(*inputs as u64) as usize;
                running.replan(name, input, random_split(&mut random, *partitions)).unwrap();
            };
            let (cuts, given) = run(layout, &format!("changeable {seed}"), &chunks, 50, change);
            assert!(given == spec.expected(std::slice::from_ref(&events), &cuts), "{seed} over {layout:?}");
        }
    }
}

#[test]
fn every_partition_gets_its_rows_in_order_however_they_are_split() {
    assert_ordered(5000, 700, 2000, 1, &LAYOUTS);
}

/// Batches that are the same for all partitions, alone and among others, short and long.
#[test]
fn rows_that_are_all_broadcast_stay_in_order() {
    assert_ordered(3000, 50, 300, 100, &LAYOUTS);
    assert_ordered(1500, 100, 200, 99, &LAYOUTS);
    assert_ordered(30_000, 30_000, 40_000, 100, &[(2, 1)]);
}

/// So many in a batch that partitions share them.
#[test]
fn rows_that_partitions_share_stay_in_order() {
    assert_ordered(3000, 1500, 2000, 30, &LAYOUTS);
    assert_ordered(2000, 1000, 1000, 90, &[(2, 2)]);
}

/// Parcels of a megabyte and more, there and back.
#[test]
fn rows_of_long_parcels_stay_in_order() {
    assert_ordered(120_000, 60_000, 200_000, 1, &[(2, 1), (2, 2)]);
}

/// Sends `count` rows in chunks and cycles of these sizes, `to_all` percent of them to all partitions, and has every
/// partition report what it received.
fn assert_ordered(count: u64, chunk_rows: usize, cycle: u32, to_all: u64, layouts: &[(usize, usize)]) {
    let mut random = Random::new(1);
    let row = |number| {
        let key = match random.below(100) {
            dice if dice < to_all => TO_ALL,
            dice if dice == to_all => TO_NONE,
            _ => random.below(64) as u32,
        };
        (key, number as i64, number)
    };
    let rows: Vec<Row> = (0..count).map(row).collect();
    let mut expected: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (key, _, value) in &rows {
        let receives = |partition: &u32| *key == TO_ALL || key == partition;
        (0..64).filter(receives).for_each(|partition| expected.entry(partition).or_default().push(*value));
    }
    let chunks: Vec<Chunk> = rows.chunks(chunk_rows).map(chunk).collect();
    let mut first = None;
    for split in ["none", "one", "tree", "lattice"] {
        for layout in layouts.iter().copied() {
            let (_, given) = run(layout, &format!("tell 64 {split}"), &chunks, cycle, |_, _| {});
            let mut streams: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            for (_, _, (partition, _, value)) in given[0].iter().flat_map(|given| &given.streams[0]) {
                streams.entry(*partition).or_default().push(*value);
            }
            assert!(streams == expected, "{split} over {layout:?}: the sub-streams are wrong");
            let first = first.get_or_insert_with(|| given.clone());
            assert!(given == *first, "{split} over {layout:?}: other output");
        }
    }
}

#[test]
fn all_processes_split_by_a_new_plan_from_its_cycle_on() {
    for layout in [(2, 1), (1, 2), (2, 2)] {
        watched("a change", move || {
            let sink = Remember::default();
            let engine = engine(layout, "chain", &token()).cycles(CyclePolicy::fixed(500));
            let mut running = engine.run(plan("chain"), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..500))).unwrap();
            eventually("the first cycle", || sink.committed() == 1);
            running.replan("second", 0, SplitPlan::fsplit(7)).unwrap();
            gateway.push(chunk(&numbered(500..3000))).unwrap();
            drop(gateway);
            let summary = running.join().unwrap();
            // The splitter gets every row, whichever process has written it.
            assert_eq!(summary.splits[1].stages[1].rows_in, 2500, "{layout:?}");
            assert_eq!(sink.rows(0).len(), 3000);
        });
    }
}

#[test]
fn timers_are_held_against_the_time_of_the_state() {
    for layout in LAYOUTS {
        watched("timers", move || {
            let sink = Remember::default();
            let watermarks = BTreeMap::from([("forward".to_string(), 100)]);
            let state = Snapshot { watermarks, ..Snapshot::default() };
            let engine = engine(layout, "alarm", &token()).cycles(CyclePolicy::fixed(1));
            let mut running = engine.state(Arc::new(state)).run(plan("alarm"), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            // The source itself is not as far as it was.
            gateway.push(chunk(&[(3, 50, 0)])).unwrap();
            eventually("the cycle", || sink.committed() == 1);
            let partitions: Vec<u32> = sink.rows(0).iter().map(|row| row.0).collect();
            assert_eq!(partitions, (0..7).collect::<Vec<_>>(), "{layout:?}");
            drop(gateway);
            running.join().unwrap();
        });
    }
}

fn start(layout: (usize, usize), seed: u64, state: Option<Snapshot>) -> (Running, Vec<Remember>) {
    let (spec, name) = (mixed(seed), format!("mixed {seed}"));
    let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
    let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
    let mut engine = engine(layout, &name, &token()).cycles(CyclePolicy::fixed(100));
    if let Some(state) = state {
        engine = engine.state(Arc::new(state));
    }
    (engine.run(plan(&name), boxed).unwrap(), sinks)
}

fn streams_of(sink: &Remember) -> Vec<Vec<Vec<Placed>>> {
    let given = sink.given().into_iter().map(|given| given.streams);
    given.filter(|streams| streams.iter().any(|stream| !stream.is_empty())).collect()
}

#[test]
fn a_snapshot_of_some_processes_is_restored_in_others() {
    let mut random = Random::new(23);
    let layouts = [((2, 1), (1, 1)), ((1, 2), (2, 2)), ((3, 1), (2, 1)), ((2, 2), (1, 3)), ((1, 1), (3, 2))];
    for (seed, (before, after)) in (40..).zip(layouts) {
        let events = random_events(&mut random, 1500);
        let chunks: Vec<Chunk> = events.chunks(100).map(one_chunk).collect();
        let at = 1 + random.below(13) as usize;
        watched("a snapshot", move || {
            let (mut whole, expected) = start((1, 2), seed, None);
            push_all(&mut whole, &chunks);
            whole.join().unwrap();

            let (mut first, _) = start(before, seed, None);
            let gateway = first.gateway(0).unwrap();
            chunks[..at].iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
            let snapshot = first.snapshot().unwrap();
            assert_eq!(snapshot.operators.len(), mixed(seed).operators());
            let partitions = snapshot.operators.iter().map(|(name, states)| (name.as_str(), states.len()));
            let planned = plan(&format!("mixed {seed}")).operators;
            let mut planned: Vec<_> = planned
                .iter()
                .map(|operator| (operator.name.as_str(), operator.partitions as usize))
                .collect();
            planned.sort();
            assert!(partitions.eq(planned), "every partition's state is there");
            first.abort();
            drop(gateway);
            assert!(matches!(first.join(), Err(FlowError::Failed(Failure::Aborted))));

            let (mut second, sinks) = start(after, seed, Some(snapshot));
            push_all(&mut second, &chunks[at..]);
            second.join().unwrap();
            for (expected, sink) in expected.iter().zip(&sinks) {
                let (whole, rest) = (streams_of(expected), streams_of(sink));
                assert!(whole.ends_with(&rest) && rest.len() + at >= whole.len(), "{before:?} -> {after:?}");
            }
        });
    }
}

fn push_all(running: &mut Running, chunks: &[Chunk]) {
    let gateway = running.gateway(0).unwrap();
    chunks.iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
}

#[test]
fn the_status_counts_the_work_of_all_processes() {
    for layout in LAYOUTS {
        watched("a status", move || {
            let sink = Remember::default();
            // What is not released again, once it was processed elsewhere, would hold the query up.
            let limits = Limits { uncommitted_bytes_max: 10_000, ..Limits::default() };
            let engine = engine(layout, "forward", &token()).limits(limits);
            let mut running = engine.run(plan("forward"), sink.boxed()).unwrap();
            running.wait_until_ready().unwrap();
            let gateway = running.gateway(0).unwrap();
            for number in 0..30 {
                gateway.push(chunk(&numbered(number * 100..number * 100 + 100))).unwrap();
            }
            eventually("all rows counted", || running.status().work[0].rows_in == 3000);
            drop(gateway);
            let summary = running.join().unwrap();
            let (work, splits) = (&summary.work[0], &summary.splits[0].stages[0]);
            assert_eq!((work.rows_in, work.rows_out), (3000, 3000), "{layout:?}");
            assert_eq!((splits.rows_in, splits.rows_out), (3000, 3000), "{layout:?}");
            assert_eq!(summary.get(Counter::EventsCommitted), 3000);
            assert_eq!(summary.get(Counter::UncommittedBytes), 0);
        });
    }
}

#[test]
fn what_another_process_has_not_processed_does_not_pile_up() {
    watched("a slow process", || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("open");
        let name = format!("gate {}", file.display());
        // A cycle of a hundred rows sends about 2 KB to the process that waits.
        let limits =
            Limits { cycles_in_flight_max: 1000, uncommitted_bytes_max: 50_000, ..Limits::default() };
        let engine = engine((2, 1), &name, &token()).cycles(CyclePolicy::fixed(100)).limits(limits);
        let mut running = engine.run(plan(&name), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let pusher = std::thread::spawn(move || {
            for number in 0..500 {
                let rows: Vec<Row> = (0..100).map(|row| (row % 2, i64::from(number), 0)).collect();
                gateway.push(chunk(&rows)).unwrap();
            }
        });
        eventually("no credit", || running.status().get(Counter::Stalls) > 0);
        std::thread::sleep(Duration::from_millis(50));
        let cut = running.status().get(Counter::CyclesCut);
        std::fs::write(file, "").unwrap();
        pusher.join().unwrap();
        let summary = running.join().unwrap();
        assert!((2..100).contains(&cut), "{cut} cycles were closed");
        assert_eq!(summary.get(Counter::EventsCommitted), 50_000);
    });
}

/// The failure of a run that does not start.
fn refused(processes: WorkerProcesses, name: &str) -> String {
    let name = name.to_string();
    watched("a refusal", move || {
        let engine = Engine::new().processes(processes);
        let Err(error) = engine.run(plan(&name), Remember::default().boxed()) else { panic!("it runs") };
        error.to_string()
    })
}

#[test]
fn processes_that_cannot_join_are_named_with_the_reason() {
    let token = token();
    let error = refused(processes(3, "nothing", &token), "forward");
    assert!(error.contains("process 1: its plan differs from the plan of process 0"), "{error}");
    let error = refused(processes(2, "no such plan", &token), "forward");
    assert!(error.contains("process 1: it ended before the query (exit status: 101)"), "{error}");
    let error = refused(processes(2, "forward", &token).program("/no/such/program"), "forward");
    assert!(error.contains("process 1: '/no/such/program' could not be started"), "{error}");
    let silent = processes(2, "forward", &token).program("/bin/sleep").arguments(["600"]);
    let error = refused(silent.join_time(Duration::from_millis(300)), "forward");
    assert!(error.contains("process 1: it did not join in time"), "{error}");
    let garbage = processes(2, "forward", &token).program("/bin/cat").arguments(["/dev/null"]);
    assert!(refused(garbage, "forward").contains("process 1: it ended before the query"));
    let forgetful =
        processes(2, "forward", &token).arguments(["--exact", "processes::forgetful", "--nocapture"]);
    assert!(refused(forgetful, "forward").contains("process 1: it ended before the query (exit status: 9)"));
    // More than a pipe holds, and nobody reads it.
    let long = "forward".to_string() + &" ".repeat(1 << 20);
    let silent = processes(2, &long, &token).program("/bin/sleep").arguments(["600"]);
    let error = refused(silent.join_time(Duration::from_millis(300)), "forward");
    assert!(error.contains("process 1: it did not join in time"), "{error}");
    let error = refused(WorkerProcesses::new(2).instructions(vec![b' '; (16 << 20) + 1]), "forward");
    assert!(error.contains("16777217 bytes of instructions for other processes"), "{error}");
    let error = refused(processes(65, "forward", &token), "forward");
    assert_eq!(error, "65 processes; choose 1 to 64");
    let error = refused(WorkerProcesses::new(0), "forward");
    assert_eq!(error, "0 processes; choose 1 to 64");
    assert_none_left(&token);
}

/// Numbers as requests, into a file of rows by transactions; from the journal in a folder, over these processes.
fn durable(
    layout: (usize, usize),
    folder: &Path,
    world: &Arc<Mutex<World>>,
    sender: Sender,
    token: &str,
) -> DurableRun {
    let source = DurableSource {
        source: Box::new(sender),
        feed: FeedSettings::default(),
        stream: StreamSettings::default(),
        sync: SyncPolicy::AtOnce,
    };
    let mut durability = Durability::new("forward");
    durability.snapshot_every = Duration::from_millis(5);
    let policy = CyclePolicy { events_max: 40, ..CyclePolicy::default() };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Transactions::new(world))];
    // Processes that other tests start at this moment hold our files, and with them the journal's lock, until they have
    // become other programs.
    let mut journal = None;
    eventually("the journal's lock", || {
        journal = Journal::open(&folder.join("journal")).ok();
        journal.is_some()
    });
    let engine = engine(layout, "forward", token).cycles(policy);
    engine.run_durable(plan("forward"), sinks, vec![source], journal.unwrap(), &durability).unwrap()
}

#[test]
fn a_durable_query_goes_on_over_other_processes() {
    watched("a durable query", || {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(Mutex::new(World::default()));
        // Each run is broken off somewhere, and the next one has other processes.
        for (round, layout) in (1..).zip([(2, 1), (1, 2), (3, 1), (2, 2)]) {
            let token = token();
            // However quick the query is, there are rows left for the runs to come.
            let sender = Sender::new(&world, round * 700).staying();
            let run = durable(layout, folder.path(), &world, sender, &token);
            let before = world.lock().lines.len();
            eventually("some more rows", || world.lock().lines.len() > before + 200);
            let snapshots = folder.path().join("journal/snapshots");
            eventually("a snapshot", || std::fs::read_dir(&snapshots).unwrap().count() > 0);
            match living(&token).first() {
                Some(process) => kill(*process),
                None => run.running.abort(),
            }
            eventually("the failure", || run.running.has_failed());
            drop((run.feeds, run.running.join(), run.maintenance));
        }
        let sender = Sender::new(&world, 3000);
        let run = durable((2, 1), folder.path(), &world, sender, &token());
        assert!(run.recovered.snapshot.is_some(), "it goes on from a state");
        run.running.join().unwrap();
        drop((run.feeds, run.maintenance));
        let lines = world.lock().lines.clone();
        assert_eq!(by_partition(lines.iter().map(String::as_str)), expected(3000));
    });
}
