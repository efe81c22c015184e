//! What was measured, as Markdown tables and as curves.

use std::fmt::Write;
use std::time::Duration;

use tidemill_charts::{Chart, Curve, Scale};

use super::answers::AnswerTimes;
use super::measure::{Measured, Serial};
use super::{GROUPS, LOADS, Results, compared};
use crate::partitioner::Partitioning;

/// Table 1: one group at five loads.
pub fn serial_table(title: &str, serial: &[Serial]) -> String {
    let mut text =
        heading(title, "load", &["requests", "time, ms", "of distance", "per request", "true", "too short"]);
    for serial in serial {
        let savings = &serial.savings;
        row(
            &mut text,
            &format!("1/{}", serial.every),
            [
                savings.requests.to_string(),
                milliseconds(serial.time),
                format!("{:.3}", savings.of_distance()),
                format!("{:.3}", savings.per_request()),
                format!("{:.3}", serial.true_savings),
                format!("{:.1} %", 100.0 * serial.underestimated),
            ],
        );
    }
    text
}

/// Figures 8a, 9a and 10: the full load by the number of groups.
pub fn by_groups_tables(results: &Results) -> String {
    let columns: Vec<String> = GROUPS.iter().map(|groups| format!("{groups} groups")).collect();
    let measured = |partitioning| GROUPS.iter().map(move |groups| results.groups(partitioning, *groups));
    let round_robin = || measured(Partitioning::RoundRobin);
    let ratio = |(measured, turns): (Option<&Measured>, Option<&Measured>)| match (measured, turns) {
        (Some(measured), Some(turns)) => {
            format!("{:.2}", measured.time().as_secs_f64() / turns.time().as_secs_f64())
        }
        _ => String::new(),
    };
    let mut text = table(
        "Time, ms: partitioner and slowest group, full load",
        "partitioning",
        &columns,
        |partitioning| {
            measured(partitioning)
                .map(|measured| of(measured, |measured| milliseconds(measured.time())))
                .collect()
        },
    );
    text += &table("Time / time of round robin", "partitioning", &columns, |partitioning| {
        measured(partitioning).zip(round_robin()).map(ratio).collect()
    });
    text += &table("Savings of distance, full load", "partitioning", &columns, |partitioning| {
        measured(partitioning).map(|measured| of(measured, savings)).collect()
    });
    text += &table("Savings / savings of one group", "partitioning", &columns, |partitioning| {
        measured(partitioning).map(|measured| of(measured, |measured| of_serial(results, measured))).collect()
    });
    text += &table("Largest group / equal groups", "partitioning", &columns, |partitioning| {
        measured(partitioning)
            .map(|measured| of(measured, |measured| format!("{:.2}", measured.largest)))
            .collect()
    });
    text
}

/// Figures 8b and 9b: sixteen groups by load.
pub fn by_load_tables(results: &Results) -> String {
    let columns: Vec<String> = LOADS.iter().map(|every| format!("1/{every}")).collect();
    let measured = |partitioning| LOADS.iter().map(move |every| results.load(partitioning, *every));
    let mut text = table(
        "Time, ms: partitioner and slowest of 16 groups, by load",
        "partitioning",
        &columns,
        |partitioning| {
            measured(partitioning)
                .map(|measured| of(measured, |measured| milliseconds(measured.time())))
                .collect()
        },
    );
    text += &table("Savings of distance, 16 groups, by load", "partitioning", &columns, |partitioning| {
        measured(partitioning).map(|measured| of(measured, savings)).collect()
    });
    text += &table(
        "Savings / savings of one group, 16 groups, by load",
        "partitioning",
        &columns,
        |partitioning| {
            measured(partitioning)
                .map(|measured| of(measured, |measured| of_serial(results, measured)))
                .collect()
        },
    );
    text
}

/// The whole query on the engine.
pub fn answers_table(answers: &[AnswerTimes]) -> String {
    let columns =
        ["day, ms", "cycles", "median, ms", "99 %, ms", "longest, ms", "waiting at most", "of distance"];
    let mut text = heading("The query: a day at once, then cycle by cycle", "workers", &columns);
    for answer in answers {
        let quantile = |part| milliseconds(answer.quantile(part));
        row(
            &mut text,
            &answer.workers.to_string(),
            [
                milliseconds(answer.day),
                answer.cycles.len().to_string(),
                quantile(0.5),
                quantile(0.99),
                quantile(1.0),
                answer.waiting_max.to_string(),
                format!("{:.3}", answer.savings.of_distance()),
            ],
        );
    }
    text
}

/// Seconds by the number of groups, as SVG.
pub fn time_chart(results: &Results) -> String {
    let chart = Chart::new("Time by number of groups, full load, s", "groups").y(Scale::Logarithmic);
    chart.svg(&curves(results, |measured| measured.time().as_secs_f64()))
}

/// Savings of distance by the number of groups, as SVG.
pub fn savings_chart(results: &Results) -> String {
    let chart = Chart::new("Savings by number of groups, full load", "groups");
    chart.svg(&curves(results, |measured| measured.savings.of_distance()))
}

fn curves(results: &Results, value: impl Fn(&Measured) -> f64) -> Vec<Curve> {
    let points = |partitioning| {
        let measured = GROUPS.iter().filter_map(move |groups| results.groups(partitioning, *groups));
        measured.map(|measured| (f64::from(measured.groups), value(measured))).collect()
    };
    compared().map(|partitioning| Curve::new(partitioning.to_string(), points(partitioning))).collect()
}

fn of(measured: Option<&Measured>, show: impl Fn(&Measured) -> String) -> String {
    measured.map(show).unwrap_or_default()
}

fn savings(measured: &Measured) -> String {
    format!("{:.3}", measured.savings.of_distance())
}

fn of_serial(results: &Results, measured: &Measured) -> String {
    let serial = results.serial(measured.every).map_or(f64::NAN, |serial| serial.savings.of_distance());
    format!("{:.3}", measured.savings.of_distance() / serial)
}

fn table(
    title: &str,
    corner: &str,
    columns: &[String],
    cells: impl Fn(Partitioning) -> Vec<String>,
) -> String {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut text = heading(title, corner, &columns);
    compared().for_each(|partitioning| row(&mut text, &partitioning.to_string(), cells(partitioning)));
    text
}

fn heading(title: &str, corner: &str, columns: &[&str]) -> String {
    format!("\n## {title}\n\n| {corner} | {} |\n|---|{}\n", columns.join(" | "), "---|".repeat(columns.len()))
}

fn row(text: &mut String, name: &str, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
