//! What was measured, as curves: the figures of the paper.

use tidemill_charts::{Chart, Curve, Scale};

use super::measure::{Measured, Serial};
use super::{GROUPS, LOADS, Results, compared};
use crate::partitioner::Partitioning;

/// All pictures, as SVG, with the names of their files.
pub fn charts(results: &Results) -> [(&'static str, String); 6] {
    let seconds = |measured: &Measured| measured.time().as_secs_f64();
    let saved = |measured: &Measured| measured.savings.of_distance();
    let by_groups = |title: &str| Chart::new(format!("{title}, full load"), "groups");
    let by_load = |title: &str| Chart::new(format!("{title}, 16 groups and one (none)"), "part of the load");
    let turns = |measured: &Measured| {
        let of_turns = results.groups(Partitioning::RoundRobin, measured.groups);
        seconds(measured) / of_turns.map_or(f64::NAN, seconds)
    };
    let cost = |measured: &Measured| 1e6 * measured.used.processor_s / measured.savings.requests as f64;
    let logarithmic = Scale::Logarithmic;
    [
        ("time.svg", by_groups("Time, s").y(logarithmic).svg(&of_groups(results, seconds))),
        ("time-by-load.svg", {
            let one = |serial: &Serial| serial.time.as_secs_f64();
            by_load("Time, s").y(logarithmic).svg(&of_loads(results, seconds, one))
        }),
        ("savings.svg", by_groups("Savings of distance").svg(&of_groups(results, saved))),
        ("savings-by-load.svg", {
            let one = |serial: &Serial| serial.savings.of_distance();
            by_load("Savings of distance").svg(&of_loads(results, saved, one))
        }),
        ("time-to-round-robin.svg", {
            by_groups("Time / time of round robin").y(logarithmic).svg(&of_groups(results, turns))
        }),
        ("cost.svg", {
            let title = "Processor ms of 1,000 requests: partitioner and all groups";
            by_groups(title).y(logarithmic).svg(&of_groups(results, cost))
        }),
    ]
}

fn of_groups(results: &Results, value: impl Fn(&Measured) -> f64) -> Vec<Curve> {
    let points = |partitioning| {
        let measured = GROUPS.iter().filter_map(move |groups| results.groups(partitioning, *groups));
        measured.map(|measured| (f64::from(measured.groups), value(measured))).collect()
    };
    compared().map(|partitioning| Curve::new(partitioning.to_string(), points(partitioning))).collect()
}

fn of_loads(
    results: &Results,
    value: impl Fn(&Measured) -> f64,
    of_one: impl Fn(&Serial) -> f64,
) -> Vec<Curve> {
    let load = |every: usize| 1.0 / every as f64;
    let points = |partitioning| {
        let measured = LOADS.iter().filter_map(move |every| results.load(partitioning, *every));
        measured.map(|measured| (load(measured.every), value(measured))).collect()
    };
    let one = results.serial.iter().map(|serial| (load(serial.every), of_one(serial))).collect();
    let curves = compared().map(|partitioning| Curve::new(partitioning.to_string(), points(partitioning)));
    curves.chain([Curve::new(Partitioning::Unpartitioned.to_string(), one)]).collect()
}
