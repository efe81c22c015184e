//! Pictures of hours: the same bytes with any number of workers, every hour with shares, and what they show.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tidemill_trip_grouping::criteria::Criteria;
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::partitioner::{PARTITIONINGS, PartitionerPlan, Partitioning};
use tidemill_trip_grouping::ride_run::{RideRunOptions, run_rides};
use tidemill_trip_grouping::run::{RunOptions, run};
use tidemill_trip_grouping::text::{write_offer, write_request};

type Pictures = BTreeMap<String, String>;

fn pictures_in(folder: &Path) -> Pictures {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let picture = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(picture).collect()
}

fn draw(folder: &Path, partitioning: Partitioning, groups: u32, workers: usize) -> (Pictures, Vec<i64>) {
    let history = GeneratorConfig { people: 3000, seed: 8, ..GeneratorConfig::default() }.day().unwrap();
    let pictures = folder.join(format!("{partitioning}-{groups}-{workers}"));
    let options = RunOptions {
        input: folder.join("requests.csv"),
        out: None,
        pictures: Some(pictures.clone()),
        workers,
        partitioner: PartitionerPlan::new(partitioning, groups, 600, &history.requests).unwrap(),
        criteria: Criteria::default(),
    };
    let summary = run(&options, &AtomicBool::new(false), |_, _| {}).unwrap();
    (pictures_in(&pictures), summary.by_hour.iter().map(|(hour, _)| *hour).collect())
}

/// Tags are opened and closed in turn, and no number is missing.
fn is_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1).map(|part| part.split('>').next().unwrap()) {
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) => assert_eq!(open.pop(), Some(name)),
            (None, true) => {}
            (None, false) => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty() && !svg.contains("NaN") && !svg.contains("inf\""), "{open:?}");
}

#[test]
fn each_hour_has_its_picture_with_any_workers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let day = GeneratorConfig { people: 6000, ..GeneratorConfig::default() }.day().unwrap();
    let mut text = Vec::new();
    day.requests.iter().for_each(|request| write_request(request, &mut text));
    fs::write(folder.join("requests.csv"), text).unwrap();
    for (name, partitioning) in PARTITIONINGS {
        let groups = partitioning.groups_max().min(16);
        let (pictures, hours) = draw(folder, partitioning, groups, 1);
        assert_eq!(pictures.len(), hours.len(), "{name}");
        assert!(hours.iter().all(|hour| pictures.contains_key(&format!("{hour:02}.svg"))), "{name}");
        pictures.values().for_each(|svg| is_well_formed(svg));
        assert!(draw(folder, partitioning, groups, 5).0 == pictures, "{name}: other bytes with 5 workers");
        let morning = &pictures["08.svg"];
        assert!(morning.contains("Shared rides from 8:00 to 9:00") && morning.contains(" km</text>"));
        // One square for each part of two dimensions: of origins in a k-d tree 4, of destinations 16.
        let borders = morning.matches("class=\"border\"").count();
        let expected = match partitioning {
            Partitioning::Unpartitioned | Partitioning::RoundRobin => 0,
            Partitioning::StaticPointQuad | Partitioning::AdaptivePointQuad => 4 + 4,
            _ => 4 + 16,
        };
        assert_eq!(borders, expected, "{name}");
    }
}

/// What a picture shows is what the requests say: two who share, one alone, in a map of 10.6 km.
#[test]
fn a_picture_shows_who_shares_and_who_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let requests = "1,60,660,0,0,10000,0\n2,70,670,0,100,10000,100\n3,80,680,10000,10000,0,10000\n";
    fs::write(folder.path().join("requests.csv"), requests).unwrap();
    let (pictures, hours) = draw(folder.path(), Partitioning::Unpartitioned, 1, 2);
    assert_eq!((hours, pictures.len()), (vec![0], 1));
    let svg = &pictures["00.svg"];
    assert!(svg.contains("3 people: 1 ride of two or more, 1 alone; "), "{svg}");
    assert!(svg.contains(">rides, grey: alone<") && svg.contains("One group; no regions"));
    // The lead's trip: 790 units are 10.6 km, with 300 m at each side; and the detour of 100 m.
    let at = |metres: f64| format!("{:.1}", 30.0 + (metres + 300.0) / 10_600.0 * 790.0);
    let lead = format!(
        "<line x1=\"{}\" y1=\"837.6\" x2=\"{}\" y2=\"837.6\" stroke-width=\"1.6\"/>",
        at(0.0),
        at(10_000.0)
    );
    assert_eq!(svg.matches(&lead).count(), 1, "{lead} {svg}");
    assert_eq!(svg.matches("stroke-width=\"0.8\"/>\n<line").count(), 1, "two detours follow each other");
    assert_eq!(svg.matches("<g class=\"alone\"").count(), 1);
    assert_eq!(svg.matches("r=\"1.6\"").count(), 2 * 3);
}

#[test]
fn rides_and_those_who_found_none_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let day = GeneratorConfig { people: 6000, ..GeneratorConfig::default() }.day_with_offers(20).unwrap();
    let mut text = Vec::new();
    day.requests.iter().for_each(|request| write_request(request, &mut text));
    fs::write(folder.join("requests.csv"), text).unwrap();
    let mut text = Vec::new();
    day.offers.iter().for_each(|offer| write_offer(offer, &mut text));
    fs::write(folder.join("offers.csv"), text).unwrap();
    let draw = |workers: usize| {
        let options = RideRunOptions {
            requests: folder.join("requests.csv"),
            offers: folder.join("offers.csv"),
            out: None,
            pictures: Some(folder.join(workers.to_string())),
            workers,
            partitioner: PartitionerPlan::new(Partitioning::AdaptiveKdTree, 4, 600, &[]).unwrap(),
            cycle_s: 60,
        };
        let summary = run_rides(&options, &AtomicBool::new(false), |_, _| {}).unwrap();
        (pictures_in(&folder.join(workers.to_string())), summary)
    };
    let (pictures, summary) = draw(1);
    assert_eq!(pictures.len(), summary.by_hour.len());
    assert!(draw(5).0 == pictures);
    let (_, morning) = summary.by_hour.iter().find(|(hour, _)| *hour == 8).unwrap();
    let svg = &pictures["08.svg"];
    is_well_formed(svg);
    assert!(morning.unserved > 20 && svg.contains(&format!("{} not served", morning.unserved)), "{svg}");
    let drawn = svg.matches("<path class=\"alone\"").count() - 1;
    let every = morning.unserved.div_ceil(120).next_power_of_two();
    assert_eq!(drawn as u64, morning.unserved.div_ceil(every), "and one in the legend");
    assert_eq!(svg.contains("not served (1 of"), every > 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("requests.csv"), "1,60,660,0,0,10000,0\n").unwrap();
    let file = folder.path().join("requests.csv").join("pictures");
    let options = RunOptions {
        input: folder.path().join("requests.csv"),
        out: None,
        pictures: Some(file),
        workers: 1,
        partitioner: PartitionerPlan::new(Partitioning::Unpartitioned, 1, 600, &[]).unwrap(),
        criteria: Criteria::default(),
    };
    let error = run(&options, &AtomicBool::new(false), |_, _| {}).err().unwrap().to_string();
    assert!(error.contains("cannot write") && error.contains("choose another folder"), "{error}");
}
