//! `tidemill trips run --offers`.

use std::time::Duration;

use tidemill_trip_grouping::ride_file::RideSavings;
use tidemill_trip_grouping::ride_run::{RideRunOptions, RideRunSummary, run_rides};

use super::bad_lines::bad_lines;
use super::shown_table::ShownTable;
use crate::exit::Exit;
use crate::quantity::{count, counted, short, time};
use crate::{interrupt, terminal};

/// Runs it, and shows each hour once its cars have left.
pub(super) fn run(options: RideRunOptions) -> anyhow::Result<Exit> {
    let stop = interrupt::flag()?;
    let mut table = ShownTable::new(row(HEADINGS));
    let show = |hour, savings: &RideSavings| table.show(&hour_row(&format!("{hour}:00"), savings));
    let summary = run_rides(&options, &stop, show)?;
    table.finish()?;
    terminal::show(&text(&summary, &options))?;
    Ok(if summary.stopped { Exit::Interrupted } else { Exit::Done })
}

const HEADINGS: [&str; 8] = ["hour", "cars", "alone", "riders", "unserved", "served", "saved", "waited"];

fn row(cells: [&str; 8]) -> String {
    let [hour, cars, alone, riders, unserved, served, saved, waited] = cells;
    format!("{hour:>7} {cars:>8} {alone:>8} {riders:>8} {unserved:>9} {served:>8} {saved:>8} {waited:>8}")
}

fn hour_row(hour: &str, savings: &RideSavings) -> String {
    row([
        hour,
        &count(savings.cars()),
        &count(savings.people.alone),
        &count(savings.riders()),
        &count(savings.unserved),
        &percent(savings.riders(), savings.riders() + savings.unserved),
        &format!("{:.1} %", 100.0 * savings.people.of_distance()),
        &format!("{:.0} s", savings.people.waited_mean()),
    ])
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

fn text(summary: &RideRunSummary, options: &RideRunOptions) -> String {
    let total = summary.total();
    let elapsed = Duration::from_nanos(summary.status.elapsed_ns);
    let trips = (summary.requests + summary.offers) as f64;
    let mut text = hour_row("all", &total);
    text += &format!(
        "\n\n{}: {} and {} in {}, {} trips/s; {} left, {} of them with others; {} stayed at home, because \
         somebody else took the owner along; {} found no ride",
        if summary.stopped { "stopped" } else { "done" },
        counted(summary.requests, "request"),
        counted(summary.offers, "offer"),
        time(elapsed),
        short(trips / elapsed.as_secs_f64().max(1e-9)),
        counted(total.cars(), "car"),
        count(total.people.shares),
        count(summary.left_cars()),
        counted(total.unserved, "request"),
    );
    text += &bad_lines(&summary.bad_lines);
    if let Some(out) = &options.out {
        text += &format!("\nrides are in {}", out.display());
    }
    if let Some(folder) = &options.pictures {
        text += &format!("\npictures are in {}", folder.display());
    }
    text
}
