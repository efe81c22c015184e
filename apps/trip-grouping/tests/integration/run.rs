//! Runs over files: bad lines are counted and left out, and what is written is what is summed up.

use std::fs;
use std::sync::atomic::AtomicBool;

use tidemill_trip_grouping::criteria::Criteria;
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};
use tidemill_trip_grouping::run::{RunOptions, run};
use tidemill_trip_grouping::text::{HEADER, write_request};
use tidemill_trip_grouping::trip_file::read_all;

fn options(folder: &std::path::Path) -> RunOptions {
    RunOptions {
        input: folder.join("requests.csv"),
        out: Some(folder.join("shares.csv")),
        pictures: None,
        workers: 2,
        partitioner: PartitionerPlan::new(Partitioning::AdaptiveKdTree, 16, 600, &[]).unwrap(),
        criteria: Criteria::default(),
    }
}

#[test]
fn a_file_is_grouped_and_its_bad_lines_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let day = GeneratorConfig { people: 5000, ..GeneratorConfig::default() }.day().unwrap();
    let mut text = format!("{HEADER}\n1,2,3\n").into_bytes();
    day.requests.iter().for_each(|request| write_request(request, &mut text));
    text.extend_from_slice(b"99,5,605,0,0,9,9\n");
    fs::write(&options.input, text).unwrap();

    assert_eq!(read_all(&options.input).unwrap().0, day.requests);
    let mut hours = Vec::new();
    let summary = run(&options, &AtomicBool::new(false), |hour, _| hours.push(hour)).unwrap();
    let total = summary.total();
    assert_eq!(total.requests, day.requests.len() as u64);
    assert_eq!(hours, summary.by_hour.iter().map(|(hour, _)| *hour).collect::<Vec<_>>());
    assert!(total.per_request() > 0.05 && total.waited_max <= 600);
    assert_eq!(summary.bad_lines.count, 2);
    assert!(summary.bad_lines.examples[0].contains("requests.csv, line 2: it has 3 fields"));
    assert!(summary.bad_lines.examples[1].contains("sort the file by requested_s"));

    let shares = fs::read_to_string(options.out.unwrap()).unwrap();
    let mut served: Vec<i64> =
        shares.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
    served.sort_unstable();
    assert_eq!(served, (0..day.requests.len() as i64).collect::<Vec<_>>());
}

#[test]
fn the_input_is_not_replaced_by_its_shares() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    fs::write(&options.input, "7,60,660,0,0,5000,0\n").unwrap();
    options.out = Some(folder.path().join(".").join("requests.csv"));
    let error = run(&options, &AtomicBool::new(false), |_, _| {}).err().unwrap().to_string();
    assert!(error.contains("is an input, and the output would overwrite it"), "{error}");
    assert_eq!(fs::read_to_string(&options.input).unwrap(), "7,60,660,0,0,5000,0\n");
}

#[test]
fn a_file_without_requests_does_not_replace_shares() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    fs::write(options.out.as_ref().unwrap(), "earlier").unwrap();
    let error =
        |options: &RunOptions| run(options, &AtomicBool::new(false), |_, _| {}).err().unwrap().to_string();
    assert!(error(&options).contains("requests.csv: no such file"), "{}", error(&options));
    fs::write(&options.input, "a,b\n").unwrap();
    assert!(error(&options).contains("has no requests"), "{}", error(&options));
    assert_eq!(fs::read_to_string(options.out.unwrap()).unwrap(), "earlier");
}
