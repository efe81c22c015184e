//! Partitioners: even where they promise it, adjacent groups, nothing but the past decides.

use std::sync::LazyLock;

use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::partitioner::{PARTITIONINGS, PartitionerError, PartitionerPlan, Partitioning};
use tidemill_trip_grouping::request::Request;

static DAY: LazyLock<Vec<Request>> = LazyLock::new(|| day(7));
static OTHER_DAY: LazyLock<Vec<Request>> = LazyLock::new(|| day(8));

fn day(seed: u64) -> Vec<Request> {
    GeneratorConfig { people: 60_000, seed, ..GeneratorConfig::default() }.day().unwrap().requests
}

/// The group of each request of the day.
fn groups(partitioning: Partitioning, groups: u32) -> Vec<u32> {
    let mut partitioner = PartitionerPlan::new(partitioning, groups, 600, &OTHER_DAY).unwrap().start();
    DAY.iter().map(|request| partitioner.group(request)).collect()
}

fn counts(assigned: &[u32], groups: u32) -> Vec<usize> {
    (0..groups).map(|group| assigned.iter().filter(|other| **other == group).count()).collect()
}

#[test]
fn names_are_read_as_they_are_written() {
    for (name, partitioning) in PARTITIONINGS {
        assert_eq!(name.parse(), Ok(partitioning));
        assert_eq!(partitioning.to_string(), name);
    }
    assert_eq!("kd".parse::<Partitioning>(), Err(PartitionerError::Name { given: "kd".to_owned() }));
}

#[test]
fn every_group_gets_requests_and_trees_are_more_even_than_quads() {
    for (name, partitioning) in &PARTITIONINGS[1..] {
        for number in [2, 3, 4, 8, 16] {
            let counts = counts(&groups(*partitioning, number), number);
            assert!(counts.iter().all(|count| *count > 0), "{name} {number} {counts:?}");
        }
    }
    let largest = |partitioning| counts(&groups(partitioning, 16), 16).into_iter().max().unwrap();
    let fair = DAY.len() / 16;
    assert!(largest(Partitioning::RoundRobin) <= fair + 1);
    assert!(largest(Partitioning::StaticKdTree) < largest(Partitioning::StaticPointQuad));
    let of_quad = largest(Partitioning::StaticPointQuad);
    assert!(of_quad > fair * 5 / 4, "the dimensions depend on each other: {of_quad} of {fair}");
}

#[test]
fn fewer_groups_are_unions_of_the_regions() {
    for partitioning in
        [Partitioning::StaticPointQuad, Partitioning::AdaptiveKdTree, Partitioning::AdaptivePointQuad]
    {
        let regions = groups(partitioning, 16);
        for number in [1, 2, 4, 8] {
            let united = groups(partitioning, number);
            assert!(united.iter().zip(&regions).all(|(group, region)| *group == region * number / 16));
        }
    }
}

#[test]
fn two_groups_divide_by_where_trips_begin() {
    for partitioning in [Partitioning::StaticPointQuad, Partitioning::StaticKdTree] {
        let assigned = groups(partitioning, 2);
        let easternmost = |group: u32| {
            let of_group = DAY.iter().zip(&assigned).filter(|(_, assigned)| **assigned == group);
            of_group.map(|(request, _)| request.origin.x_m).fold(f64::MIN, f64::max)
        };
        assert!(easternmost(0) < easternmost(1));
    }
}

#[test]
fn adaptive_groups_are_even_in_each_period() {
    let assigned = groups(Partitioning::AdaptiveKdTree, 16);
    let rush = |request: &Request| (27_600..30_000).contains(&request.requested);
    let of_rush: Vec<u32> =
        DAY.iter().zip(&assigned).filter(|(request, _)| rush(request)).map(|(_, group)| *group).collect();
    let counts = counts(&of_rush, 16);
    let (fair, largest) = (of_rush.len() / 16, counts.iter().max().unwrap());
    assert!(*largest < 2 * fair, "{counts:?}");
}

#[test]
fn impossible_partitionings_are_refused() {
    let plan =
        |partitioning, groups, history: &[Request]| PartitionerPlan::new(partitioning, groups, 600, history);
    let refused = |given, max| Err(PartitionerError::Groups { given, max });
    assert_eq!(plan(Partitioning::RoundRobin, 0, &[]), refused(0, 1024));
    assert_eq!(plan(Partitioning::Unpartitioned, 2, &[]), refused(2, 1));
    assert_eq!(plan(Partitioning::AdaptivePointQuad, 17, &[]), refused(17, 16));
    let partitioning = Partitioning::StaticKdTree;
    assert_eq!(plan(partitioning, 16, &[]), Err(PartitionerError::NoHistory { partitioning }));
}
