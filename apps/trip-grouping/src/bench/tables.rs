//! What was measured, as Markdown tables.

use std::fmt::Write;
use std::time::Duration;

use super::answers::AnswerTimes;
use super::measure::{Measured, Serial};
use super::{GROUPS, HISTORIES_S, LOADS, PERIODS_S, Results, compared};
use crate::partitioner::Partitioning;

/// Joules, or if the machine does not count energy, processor time.
const COST: &str = "1,000 requests cost";

/// Table 1: one group at five loads.
pub fn serial_table(title: &str, serial: &[Serial]) -> String {
    let columns = ["requests", "time, ms", COST, "of distance", "per request", "true", "too short"];
    let mut text = heading(title, "load", &columns);
    for serial in serial {
        let savings = &serial.savings;
        row(
            &mut text,
            &format!("1/{}", serial.every),
            [
                savings.requests.to_string(),
                milliseconds(serial.time),
                serial.used.cost_of_thousand(savings.requests as f64),
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
    text += &table(
        &format!("{COST}: partitioner and all groups, full load"),
        "partitioning",
        &columns,
        |partitioning| measured(partitioning).map(|measured| of(measured, cost)).collect(),
    );
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
    let title = "Largest group / equal groups, in the busiest hour";
    text += &table(title, "partitioning", &columns, |partitioning| {
        let largest = |measured: &Measured| format!("{:.2}", measured.largest_in_busiest_hour);
        measured(partitioning).map(|measured| of(measured, largest)).collect()
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
    text += &table(
        &format!("{COST}: partitioner and all of 16 groups, by load"),
        "partitioning",
        &columns,
        |partitioning| measured(partitioning).map(|measured| of(measured, cost)).collect(),
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

/// How long a history and how frequent a renewal should be (III 7).
pub fn by_history_tables(results: &Results) -> String {
    let columns: Vec<String> = PERIODS_S.iter().map(|period_s| format!("every {period_s} s")).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut text = String::new();
    let mut add = |title: &str, show: &dyn Fn(&Measured) -> String| {
        text += &heading(title, "history, s", &columns);
        for history_s in HISTORIES_S {
            let measured = PERIODS_S.map(|period_s| of(results.history(history_s, period_s), show));
            row(&mut text, &history_s.to_string(), measured);
        }
    };
    add("Savings / savings of one group, akd, 16 groups, by history and renewal of borders", &|measured| {
        of_serial(results, measured)
    });
    add("Largest group / equal groups", &|measured| format!("{:.2}", measured.largest));
    add(&format!("{COST}: partitioner and all groups"), &cost);
    text
}

/// The whole query on the engine.
pub fn answers_table(answers: &[AnswerTimes]) -> String {
    let columns = [
        "day, ms",
        COST,
        "cycles",
        "median, ms",
        "99 %, ms",
        "longest, ms",
        "waiting at most",
        "of distance",
    ];
    let mut text = heading("The query: a day at once, then cycle by cycle", "workers", &columns);
    for answer in answers {
        let quantile = |part| milliseconds(answer.quantile(part));
        row(
            &mut text,
            &answer.workers.to_string(),
            [
                milliseconds(answer.day),
                answer.used.cost_of_thousand(answer.savings.requests as f64),
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

fn of(measured: Option<&Measured>, show: impl Fn(&Measured) -> String) -> String {
    measured.map(show).unwrap_or_default()
}

fn cost(measured: &Measured) -> String {
    measured.used.cost_of_thousand(measured.savings.requests as f64)
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
