//! Runs of ride sharing over files: each group as the slow reference serves it by itself, the same bytes with any number of
//! workers, and bad lines counted and left out.

use crate::reference::rides;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rides::{CYCLE, reference};
use tidemill_trip_grouping::generator::{DayWithOffers, GeneratorConfig};
use tidemill_trip_grouping::partitioner::{PARTITIONINGS, PartitionerPlan, Partitioning};
use tidemill_trip_grouping::request::Request;
use tidemill_trip_grouping::ride_run::{RideRunOptions, RideRunSummary, run_rides};
use tidemill_trip_grouping::ride_sharing::Offer;
use tidemill_trip_grouping::text::{HEADER, OFFER_HEADER, write_offer, write_request};

fn options(folder: &Path, workers: usize, partitioner: PartitionerPlan) -> RideRunOptions {
    RideRunOptions {
        requests: folder.join("requests.csv"),
        offers: folder.join("offers.csv"),
        out: Some(folder.join("rides.csv")),
        pictures: None,
        workers,
        partitioner,
        cycle_s: CYCLE,
    }
}

fn run(options: &RideRunOptions) -> Result<RideRunSummary, String> {
    run_rides(options, &AtomicBool::new(false), |_, _| {}).map_err(|error| error.to_string())
}

fn write(folder: &Path, day: &DayWithOffers) {
    let mut text = format!("{HEADER}\n").into_bytes();
    day.requests.iter().for_each(|request| write_request(request, &mut text));
    fs::write(folder.join("requests.csv"), text).unwrap();
    let mut text = format!("{OFFER_HEADER}\n").into_bytes();
    day.offers.iter().for_each(|offer| write_offer(offer, &mut text));
    fs::write(folder.join("offers.csv"), text).unwrap();
}

/// When somebody left or gave up, with whom, in a car of how many, and who it is: as the file has it.
type Line = (i64, Option<i64>, usize, i64);

fn lines_of(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let members = fields[2].parse().unwrap_or(0);
        (fields[0].parse().unwrap(), fields[1].parse().ok(), members, fields[3].parse().unwrap())
    };
    text.lines().skip(1).map(line).collect()
}

/// The reference for each group, with what the partitioner says of the trips in the order of their times.
fn expected(day: &DayWithOffers, plan: &PartitionerPlan) -> Vec<Line> {
    let requests = day.requests.iter().map(|request| (request.requested, 0, *request, None));
    let offers = day.offers.iter().map(|offer| (offer.trip.requested, 1, offer.trip, Some(*offer)));
    let mut trips: Vec<(i64, i32, Request, Option<Offer>)> = requests.chain(offers).collect();
    trips.sort_by_key(|(time, side, ..)| (*time, *side));
    let mut groups = vec![(Vec::new(), Vec::new()); plan.groups() as usize];
    let mut partitioner = plan.start();
    for (_, _, trip, offer) in trips {
        let group = &mut groups[partitioner.group(&trip) as usize];
        match offer {
            Some(offer) => group.1.push(offer),
            None => group.0.push(trip),
        }
    }
    let (mut rides, mut unserved) = (Vec::new(), Vec::new());
    for (requests, offers) in groups {
        let outcome = reference(&requests, &offers);
        for (end, members) in outcome.0 {
            rides.extend(members.iter().map(|id| (end, Some(members[0]), members.len(), *id)));
        }
        unserved.extend(outcome.1.into_iter().map(|(end, id)| (end, None, 0, id)));
    }
    rides.extend(unserved);
    rides.sort_by_key(|line| line.0);
    rides
}

#[test]
fn rides_are_those_of_the_reference_with_any_workers_and_partitioning() {
    let city = GeneratorConfig { people: 20_000, ..GeneratorConfig::default() };
    let mut day = city.day_with_offers(30).unwrap();
    // Half an hour of the morning: the reference is slow.
    day.requests.retain(|request| (28_800..30_600).contains(&request.requested));
    day.offers.retain(|offer| (28_800..30_600).contains(&offer.trip.requested));
    let history = GeneratorConfig { seed: 8, ..city }.day().unwrap().requests;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &day);
    for (name, partitioning) in PARTITIONINGS {
        let groups = partitioning.groups_max().min(4);
        let plan = PartitionerPlan::new(partitioning, groups, 600, &history).unwrap();
        let expected = expected(&day, &plan);
        assert!(expected.iter().filter(|line| line.2 > 1).count() > 20, "{name}");
        assert!(expected.iter().filter(|line| line.1.is_none()).count() > 20, "{name}");
        let mut first = None;
        for workers in [1, 2, 5] {
            let summary = run(&options(folder.path(), workers, plan.clone())).unwrap();
            let text = fs::read_to_string(folder.path().join("rides.csv")).unwrap();
            assert_eq!(lines_of(&text), expected, "{name}, {workers} workers");
            let text = first.get_or_insert(text.clone()) == &text;
            assert!(text, "{name}, {workers} workers: other bytes");
            let total = summary.total();
            assert_eq!(
                (summary.requests, summary.offers),
                (day.requests.len() as u64, day.offers.len() as u64)
            );
            assert_eq!(total.people.requests + total.unserved, summary.requests + summary.offers);
            let cars = expected.iter().filter(|line| line.1 == Some(line.3)).count() as u64;
            assert_eq!((total.cars(), summary.left_cars()), (cars, summary.offers - cars));
        }
    }
}

#[test]
fn bad_lines_of_both_files_are_counted_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let requests = "2,10,610,100,0,5100,0\n1,30,630,0,0,5000,0\nx\n";
    let offers = format!(
        "{OFFER_HEADER}\n1,20,620,0,0,5000,0,false,0.1,3\n3,20,620,0,0,5000,0,maybe,0.1,3\n\
         4,20,620,0,0,5000,0,true,0.1,9\n5,10,620,0,0,5000,0,true,0.1,2\n"
    );
    fs::write(folder.path().join("requests.csv"), requests).unwrap();
    fs::write(folder.path().join("offers.csv"), offers).unwrap();
    let plan = PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap();
    let summary = run(&options(folder.path(), 2, plan)).unwrap();
    let text = fs::read_to_string(folder.path().join("rides.csv")).unwrap();
    assert_eq!(lines_of(&text), [(60, Some(1), 2, 1), (60, Some(1), 2, 2)]);
    assert_eq!(summary.bad_lines.count, 5, "{:?}", summary.bad_lines);
    let told = summary.bad_lines.examples.join("\n");
    for part in [
        "requests.csv, line 3: it has 1 fields; a request has 7",
        "requests.csv, line 2: somebody who waits has the id 1; give every trip an id of its own",
        "offers.csv, line 3: `leaves_car` is neither true nor false",
        "offers.csv, line 4: the offer has 9 seats",
        "offers.csv, line 5: its time is 10, but an earlier line has the time 20",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn one_file_may_be_empty_but_not_both() {
    let folder = tempfile::tempdir().unwrap();
    let plan = PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap();
    let options = options(folder.path(), 1, plan);
    let (request, offer) = ("2,10,610,100,0,5100,0\n", "1,20,620,0,0,5000,0,false,0.1,3\n");
    let with = |requests: &str, offers: &str| {
        fs::write(&options.requests, requests).unwrap();
        fs::write(&options.offers, offers).unwrap();
        run(&options).map(|_| lines_of(&fs::read_to_string(folder.path().join("rides.csv")).unwrap()))
    };
    assert_eq!(with(request, ""), Ok(vec![(600, None, 0, 2)]));
    assert_eq!(with("", offer), Ok(vec![(600, Some(1), 1, 1)]));
    let error = with("x\n", "").unwrap_err();
    assert!(
        error.contains("requests.csv has no requests; ") && error.contains("offers.csv has no offers"),
        "{error}"
    );
    // The rides of an earlier run are still there.
    assert_eq!(lines_of(&fs::read_to_string(folder.path().join("rides.csv")).unwrap()).len(), 1);
}

#[test]
fn inputs_are_not_replaced_and_must_be_two() {
    let folder = tempfile::tempdir().unwrap();
    let plan = PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap();
    let usual = options(folder.path(), 1, plan);
    let offer = "1,20,620,0,0,5000,0,false,0.1,3\n";
    fs::write(&usual.requests, "2,10,610,100,0,5100,0\n").unwrap();
    fs::write(&usual.offers, offer).unwrap();
    let out = Some(folder.path().join(".").join("offers.csv"));
    let error = run(&RideRunOptions { out, ..usual.clone() }).unwrap_err();
    assert!(error.contains("is an input, and the output would overwrite it"), "{error}");
    assert_eq!(fs::read_to_string(&usual.offers).unwrap(), offer);
    let error = run(&RideRunOptions { offers: usual.requests.clone(), ..usual.clone() }).unwrap_err();
    assert!(error.contains("both as requests and as offers; name two files"), "{error}");
    let offers = folder.path().join("none.csv");
    let error = run(&RideRunOptions { offers, ..usual }).unwrap_err();
    assert!(error.contains("none.csv: no such file"), "{error}");
}
