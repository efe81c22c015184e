//! Stores that are read from other processes: the same rows as in their own, one version as long as it is kept, and named errors.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use tidemill_core::Cause;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use tidemill_store::remote::{
    Changes, Endpoint, FollowPosition, Moment, NoChanges, RemoteFollower, RemoteVersion, StoreDirectory,
    StoreServer, ViewFollower,
};
use tidemill_store::{Area, Follower, Selection, StoreConfig, StoreReader, StoreWriter, Version};

/// The store of the only view.
struct OneView(StoreReader);

impl StoreDirectory for OneView {
    fn versions(&self, views: &[String], moment: Moment) -> Vec<Result<Version, Cause>> {
        let version = |view: &String| match (view.as_str(), moment) {
            ("cars", Moment::Newest) => Ok(self.0.latest()),
            ("cars", Moment::Cycle(cycle)) => self.0.as_of_cycle(cycle),
            ("cars", Moment::Time(time)) => self.0.as_of_time(time),
            _ => Err(Cause::user(format!("there is no view {view}"))),
        };
        views.iter().map(version).collect()
    }

    fn follow(&self, view: &str, after: Option<FollowPosition>) -> Result<Box<dyn ViewFollower>, Cause> {
        if view != "cars" || after.is_some_and(|place| place.history != HISTORY) {
            return Err(Cause::user(format!("there is no view {view} of that history")));
        }
        let follower = match after {
            None => Follower::new(&self.0),
            Some(place) => Follower::after(&self.0, place.cycle),
        };
        Ok(Box::new(Followed(follower, Vec::new())))
    }
}

const HISTORY: u64 = 7;

/// Gives the rows that have come, a batch at a time.
struct Followed(Follower, Vec<RecordBatch>);

impl ViewFollower for Followed {
    fn next_changes(&mut self) -> Result<Changes, Cause> {
        if self.1.is_empty() {
            self.1 = self.0.next_change()?.map_or_else(Vec::new, |change| change.added);
        }
        let rows = (!self.1.is_empty()).then(|| self.1.remove(0));
        let is_whole = self.1.is_empty();
        let place = self.0.cycle().filter(|_| is_whole);
        let place = place.map(|cycle| FollowPosition { history: HISTORY, cycle });
        Ok(Changes { rows, place, is_over: false })
    }
}

/// A car's name, its number, the time and the place.
type Car = (Option<String>, i64, i64, f64, f64);

fn cars(cars: &[Car]) -> RecordBatch {
    let column =
        |value: fn(&Car) -> i64| Arc::new(Int64Array::from_iter_values(cars.iter().map(value))) as ArrayRef;
    let place =
        |value: fn(&Car) -> f64| Arc::new(Float64Array::from_iter_values(cars.iter().map(value))) as ArrayRef;
    let names = Arc::new(StringArray::from_iter(cars.iter().map(|car| car.0.clone()))) as ArrayRef;
    let columns = [
        ("vid", column(|car| car.1)),
        ("at", column(|car| car.2)),
        ("x", place(|car| car.3)),
        ("y", place(|car| car.4)),
    ];
    let nullable = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable.into_iter().chain([("name", names, true)])).unwrap()
}

fn served(folder: &Path) -> (StoreWriter, StoreServer, Arc<Endpoint>) {
    let config = StoreConfig {
        key: Some(vec![0]),
        time: Some(1),
        point: Some([2, 3]),
        ..StoreConfig::new(&cars(&[]).schema())
    };
    let (writer, reader) = StoreWriter::new(config).unwrap();
    let socket = folder.join("readers");
    let server = StoreServer::start(&socket, Arc::new(OneView(reader))).unwrap();
    let endpoint = Arc::new(Endpoint::new("gateway 'west'"));
    endpoint.is_at(&socket);
    (writer, server, endpoint)
}

fn pinned(endpoint: &Arc<Endpoint>, moment: Moment) -> Result<RemoteVersion, Cause> {
    endpoint.pin(&["cars"], moment, &mut |_| Ok(()))?.remove(0)
}

fn rows(version: &RemoteVersion, selection: &Selection) -> Vec<RecordBatch> {
    version.select(selection).unwrap().rows(&mut |_| Ok(())).unwrap().batches
}

fn car() -> impl Strategy<Value = Car> {
    let place = prop_oneof![4 => (0..50).prop_map(f64::from), 1 => Just(f64::NAN)];
    (proptest::option::of("[a-z]{0,9}"), 0..9_i64, 0..99_i64, place.clone(), place)
}

fn selection() -> impl Strategy<Value = Selection> {
    let key = proptest::option::of(
        (0..9_i64).prop_map(|vid| vec![Arc::new(Int64Array::from(vec![vid])) as ArrayRef]),
    );
    let area = (0.0..50.0, 0.0..50.0, 0.0..40.0).prop_map(|(x, y, far)| Area::around(x, y, far));
    let time = proptest::option::of((0..99_i64, 0..99_i64));
    let columns = proptest::option::of(proptest::sample::subsequence(vec![0, 1, 2, 3, 4], 1..=5));
    (key, time, proptest::option::of(area), columns).prop_map(|(key, time, area, columns)| Selection {
        key,
        time,
        area,
        columns,
        ..Selection::default()
    })
}

#[test]
fn rows_of_another_process_are_those_of_its_store() {
    let cycles = proptest::collection::vec(proptest::collection::vec(car(), 1..40), 1..8);
    let questions = proptest::collection::vec((selection(), 0.0..50.0, 0.0..50.0, 1..20_usize), 1..12);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    runner
        .run(&(cycles, questions), |(cycles, questions)| {
            let folder = TempDir::new().unwrap();
            let (mut writer, _server, endpoint) = served(folder.path());
            for (cycle, rows) in cycles.iter().enumerate() {
                writer.append(cycle as u64, &[cars(rows)]).unwrap();
            }
            let newest = cycles.len() as u64 - 1;
            for cycle in [0, newest] {
                let here = writer.reader().as_of_cycle(cycle).unwrap();
                let there = pinned(&endpoint, Moment::Cycle(cycle)).unwrap();
                prop_assert_eq!(there.cycle(), Some(cycle));
                for (selection, x, y, rows_max) in &questions {
                    let found = here.select(selection).unwrap();
                    let answer = there.select(selection).unwrap().rows(&mut |_| Ok(())).unwrap();
                    // Debug shows NaN as equal to itself.
                    prop_assert_eq!(format!("{:?}", found.batches), format!("{:?}", answer.batches));
                    prop_assert_eq!(found.work, answer.work);
                    let found = here.nearest((*x, *y), *rows_max, selection).unwrap();
                    let nearest = there.nearest((*x, *y), *rows_max, selection).unwrap();
                    let nearest = nearest.rows(&mut |_| Ok(())).unwrap();
                    prop_assert_eq!(format!("{:?}", found.batches), format!("{:?}", nearest.batches));
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_version_stays_as_it_was_taken_while_more_rows_come() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _server, endpoint) = served(folder.path());
    assert_eq!(pinned(&endpoint, Moment::Newest).unwrap().cycle(), None);
    let one = |n: i64| cars(&[(None, n, n, 0.0, 0.0)]);
    writer.append(0, &[one(7)]).unwrap();
    let before = pinned(&endpoint, Moment::Newest).unwrap();
    // More cycles than the store keeps versions of.
    for cycle in 1..1500 {
        writer.append(cycle, &[one(cycle as i64)]).unwrap();
    }
    assert_eq!(rows(&before, &Selection::default()), [one(7)]);
    let refused = pinned(&endpoint, Moment::Cycle(0)).map(|_| ()).unwrap_err();
    assert!(refused.message.contains("is no longer kept"), "{refused}");
    let unknown = endpoint.pin(&["cars", "trucks"], Moment::Newest, &mut |_| Ok(())).unwrap();
    assert!(unknown[0].is_ok());
    let unknown = unknown[1].as_ref().map(|_| ()).unwrap_err();
    assert_eq!(unknown, &Cause::user("there is no view trucks"));
}

#[test]
fn a_process_that_is_away_is_named_and_found_again() {
    let folder = TempDir::new().unwrap();
    let never = Arc::new(Endpoint::new("gateway 'east'"));
    let away =
        |endpoint: &Arc<Endpoint>| pinned(endpoint, Moment::Newest).map(|_| ()).unwrap_err().to_string();
    assert!(away(&never).contains("gateway 'east' does not answer: it is being started"), "{}", away(&never));

    let (mut writer, server, endpoint) = served(folder.path());
    writer.append(0, &[cars(&[(Some("a".into()), 7, 7, 0.0, 0.0)])]).unwrap();
    let version = pinned(&endpoint, Moment::Newest).unwrap();
    drop(pinned(&endpoint, Moment::Newest).unwrap());
    drop((server, writer));
    assert!(away(&endpoint).contains("gateway 'west' does not answer"), "{}", away(&endpoint));
    // Another process is at the same place, and has other rows.
    let (mut writer, _server, _) = served(folder.path());
    writer.append(0, &[cars(&[(None, 8, 8, 0.0, 0.0)])]).unwrap();
    let found = pinned(&endpoint, Moment::Newest).unwrap();
    assert_eq!(rows(&found, &Selection::default()), [cars(&[(None, 8, 8, 0.0, 0.0)])]);
    drop(version);
}

#[test]
fn a_reader_that_does_not_wait_any_longer_leaves_and_others_go_on() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _server, endpoint) = served(folder.path());
    writer.append(0, &[cars(&[(None, 7, 7, 0.0, 0.0)])]).unwrap();
    // A message that is not a question ends its connection, and nothing else.
    let mut stranger = UnixStream::connect(folder.path().join("readers")).unwrap();
    stranger.write_all(&[3, 0, 0, 0, 99, 99, 99]).unwrap();
    let mut huge = UnixStream::connect(folder.path().join("readers")).unwrap();
    huge.write_all(&[255; 64]).unwrap();
    // Somebody who listens and never answers.
    let silent = folder.path().join("silent");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let hanging = Arc::new(Endpoint::new("gateway 'north'"));
    hanging.is_at(&silent);
    let mut looks = 0;
    let cancelled = &mut |_| {
        looks += 1;
        if looks > 3 { Err(Cause::operation("it was cancelled")) } else { Ok(()) }
    };
    let refused = hanging.pin(&["cars"], Moment::Newest, cancelled).map(|_| ()).unwrap_err();
    assert_eq!(refused, Cause::operation("it was cancelled"));
    let found = pinned(&endpoint, Moment::Newest).unwrap();
    assert_eq!(rows(&found, &Selection::default()).len(), 1);
}

/// The numbers of the cars in the next changes; `None`: there were none.
fn next_cars(follower: &mut RemoteFollower) -> Result<Option<Vec<i64>>, NoChanges> {
    follower.ask()?;
    let changes = loop {
        if let Some(changes) = follower.answer(Duration::from_millis(20), &mut |_| Ok(()))? {
            break changes;
        }
    };
    let numbers = |rows: RecordBatch| rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    Ok(changes.rows.map(numbers))
}

#[test]
fn a_follower_continues_where_it_was_in_the_next_process() {
    let folder = TempDir::new().unwrap();
    let (mut writer, server, endpoint) = served(folder.path());
    let one = |n: i64| cars(&[(None, n, n, 0.0, 0.0)]);
    let mut follower = RemoteFollower::new(&endpoint, "cars");
    let mut late = RemoteFollower::new(&endpoint, "cars");
    assert_eq!(next_cars(&mut late), Ok(None));
    writer.append(0, &[one(7)]).unwrap();
    assert_eq!(next_cars(&mut follower), Ok(Some(vec![7])));
    writer.append(1, &[one(9)]).unwrap();
    assert_eq!(next_cars(&mut follower), Ok(Some(vec![9])));
    assert_eq!(follower.place(), Some(FollowPosition { history: HISTORY, cycle: 1 }));
    assert_eq!(next_cars(&mut follower), Ok(None));
    writer.append(2, &[one(10)]).unwrap();
    // It was asked for, and is lost with the process.
    follower.ask().unwrap();
    drop((server, writer));
    let away =
        std::iter::from_fn(|| Some(next_cars(&mut follower))).find(|next| !matches!(next, Ok(Some(_))));
    assert!(matches!(away, Some(Err(NoChanges::Away(_)))), "{away:?}");
    let given = follower.place().expect("something was given");

    // The next process first has fewer cycles than were given, and never gives those again.
    let (mut writer, _server, _) = served(folder.path());
    for (cycle, n) in [(0, 7), (1, 9), (2, 10)] {
        writer.append(cycle, &[one(n)]).unwrap();
        if cycle < given.cycle {
            assert_eq!(next_cars(&mut follower), Ok(None), "cycle {cycle}");
        }
    }
    let rest = if given.cycle == 2 { Ok(None) } else { Ok(Some(vec![10])) };
    assert_eq!(next_cars(&mut follower), rest);
    assert_eq!(next_cars(&mut late).map_err(|_| ()), Err(()), "its connection has ended");
    let mut first = Vec::new();
    while first.len() < 3 {
        first.extend(next_cars(&mut late).expect("it is there").expect("rows are left"));
    }
    assert_eq!(first, [7, 9, 10], "it was given nothing yet");
    let mut other = RemoteFollower::new(&endpoint, "trucks");
    assert!(
        matches!(next_cars(&mut other), Err(NoChanges::Ended(cause)) if cause.message.contains("trucks"))
    );
}

#[test]
fn a_process_that_says_nothing_does_not_hold_up_its_follower() {
    let folder = TempDir::new().unwrap();
    let silent = folder.path().join("silent");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let hanging = Arc::new(Endpoint::new("gateway 'north'"));
    hanging.is_at(&silent);
    let mut follower = RemoteFollower::new(&hanging, "cars");
    for _ in 0..5 {
        follower.ask().unwrap();
        assert_eq!(follower.answer(Duration::from_millis(1), &mut |_| Ok(())), Ok(None));
    }
    hanging.is_away("it was ended");
    drop(follower);
    let away = RemoteFollower::new(&hanging, "cars").ask();
    let Err(NoChanges::Away(cause)) = away else { panic!("{away:?}") };
    assert!(cause.message.contains("gateway 'north' does not answer: it was ended"), "{cause}");
}
