//! The query of ride sharing on the engine: it continues from a snapshot as if it had not stopped, whatever the cuts are.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::{Chunk, Counter, CyclePolicy, Engine, ManualClock, Snapshot};
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::hour_tally::HourTally;
use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};
use tidemill_trip_grouping::query;
use tidemill_trip_grouping::ride_file::RideFile;
use tidemill_trip_grouping::ride_sharing::Trip;
use tidemill_trip_grouping::schema;
use tidemill_trip_grouping::text::SHARE_HEADER;

/// The trips of a day, requests before offers of the same time.
fn trips() -> Vec<Trip> {
    let city = GeneratorConfig { people: 4000, ..GeneratorConfig::default() };
    let day = city.day_with_offers(40).unwrap();
    let requests = day.requests.into_iter().map(Trip::Request);
    let mut trips: Vec<Trip> = requests.chain(day.offers.into_iter().map(Trip::Offer)).collect();
    trips.sort_by_key(|trip| trip.request().requested);
    trips
}

/// The file's text and the state at the end of a run over these trips, from a state. With `stops` nothing ends: who waits
/// is part of the state.
fn run(
    trips: &[Trip],
    (workers, cycles): (usize, CyclePolicy),
    state: Option<Arc<Snapshot>>,
    stops: bool,
) -> (String, Snapshot) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rides.csv");
    let partitioner = PartitionerPlan::new(Partitioning::AdaptiveKdTree, 5, 600, &[]).unwrap();
    let sink = RideFile::new(Some(&path), HourTally::default()).unwrap();
    let mut engine = Engine::new().workers(workers).cycles(cycles).clock(Arc::new(ManualClock::default()));
    if let Some(state) = state {
        engine = engine.state(state as _);
    }
    let mut running = engine.run(query::rides_plan(partitioner, 60).unwrap(), vec![Box::new(sink)]).unwrap();
    let gateway = running.gateway(0).unwrap();
    for trips in trips.chunks(100) {
        let streams = vec![Some(schema::trips_batch(trips).unwrap())];
        let (events, watermark) = (trips.len() as u32, trips[trips.len() - 1].request().requested);
        gateway.push(Chunk { streams, events, watermark, arrived_ns: None, idle: false }).unwrap();
    }
    let snapshot = running.snapshot().unwrap();
    if stops {
        while running.status().get(Counter::EventsCommitted) < trips.len() as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = fs::read_to_string(&path).unwrap();
        running.abort();
        let _ = running.join();
        return (text, snapshot);
    }
    drop(gateway);
    running.join().unwrap();
    (fs::read_to_string(&path).unwrap(), snapshot)
}

#[test]
fn a_run_that_is_restored_goes_on_as_if_it_had_not_stopped() {
    let trips = trips();
    let (whole, _) = run(&trips, (2, CyclePolicy::default()), None, false);
    assert!(whole.lines().filter(|line| line.contains(",2,")).count() > 20, "people share");
    assert!(whole.lines().filter(|line| line.contains(",,,")).count() > 20, "some are not served");
    for part in [1, 2, 4] {
        let (first, second) = trips.split_at(trips.len() * part / 5);
        let (before, snapshot) = run(first, (2, CyclePolicy::fixed(37)), None, true);
        let (after, _) = run(second, (5, CyclePolicy::default()), Some(Arc::new(snapshot)), false);
        let after = after.strip_prefix(SHARE_HEADER).and_then(|text| text.strip_prefix('\n')).unwrap();
        assert!(before + after == whole, "stopped after {part} of 5 parts");
    }
}

#[test]
fn cuts_and_workers_change_nothing() {
    let trips = trips();
    let (expected, _) = run(&trips, (1, CyclePolicy::default()), None, false);
    for (workers, cycle_events) in [(1, 1), (2, 37), (5, 100_000)] {
        let (text, _) = run(&trips, (workers, CyclePolicy::fixed(cycle_events)), None, false);
        assert!(text == expected, "{workers} workers, cycles of {cycle_events}");
    }
}

#[test]
fn an_impossible_cycle_is_refused_before_the_run() {
    let partitioner = PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap();
    let error = query::rides_plan(partitioner, 0).err().unwrap().to_string();
    assert!(error.starts_with("share_rides: the grouping cycle is 0"), "{error}");
}
