//! The output at the end of a run.

use std::fmt::Write;
use std::time::Duration;

use tidemill_engine::{Counter, ResponseTimes, Status};
use tidemill_linear_road::answers::tally::Counts;
use tidemill_linear_road::answers::{KINDS, TOLLS};
use tidemill_linear_road::run::{FailedRun, RunError, RunOptions, RunSummary};

use super::deadline;
use crate::quantity::{clock, count, counted, percent, short, time};

/// The names of the kinds of answers, in the order of their numbers.
const NAMES: [&str; KINDS] =
    ["0 toll notifications", "1 accident notices", "2 balances", "3 daily expenditures"];

/// The summary of a run that ended normally.
pub(crate) fn text(summary: &RunSummary, options: &RunOptions) -> String {
    let headline = if summary.stopped { "stopped" } else { "done" };
    format!("{headline}: {}", body(summary, options))
}

/// The summary of a run that failed.
pub(crate) fn of_failed(failed: &FailedRun, options: &RunOptions) -> String {
    let mut text = format!("failed: {}", body(&failed.summary, options));
    // Whatever else ends a run, everything taken in before is answered.
    if matches!(failed.error, RunError::Query(_)) {
        text += "\n                the last ones may be missing there";
    }
    text
}

fn body(summary: &RunSummary, options: &RunOptions) -> String {
    let mut text = overview(summary);
    text += "\n\n";
    text += &answers(&summary.answers, &summary.status, options.deadline);
    text += &options.deadline.map(|deadline| deadline::text(deadline, &summary.status)).unwrap_or_default();
    text += &cycles(&summary.status);
    text += &shares(&summary.status, options.workers);
    text += &bad_lines(summary);
    let _ = write!(text, "answers are in  {}: type0.csv ... type3.csv", options.out.display());
    text
}

fn overview(summary: &RunSummary) -> String {
    let status = &summary.status;
    let events = status.get(Counter::EventsCommitted);
    let elapsed_s = status.elapsed_ns as f64 / 1e9;
    let simulated_s = summary.simulated_s.map_or(0, |second| second + 1);
    format!(
        "{} up to {} of the simulated run in {}: {} events/s, {} times real time",
        counted(events, "event"),
        clock(simulated_s),
        time(Duration::from_nanos(status.elapsed_ns)),
        short(events as f64 / elapsed_s.max(1e-9)),
        short(f64::from(simulated_s) / elapsed_s.max(1e-9)),
    )
}

fn answers(counts: &Counts, status: &Status, deadline: Option<Duration>) -> String {
    let mut text = format!(
        "{:<24}{:>14}{:>12}{:>10}{:>10}{:>10}{:>10}\n",
        "response times", "count", "p50", "p99", "p99.99", "max", "late"
    );
    for (kind, name) in NAMES.iter().enumerate() {
        let tally = &counts.kinds[kind];
        text += &row(name, tally.answers, &tally.response_times, &count(tally.late));
        if kind == TOLLS {
            let _ = writeln!(text, "{:<24}{:>14}", "    with a toll above 0", count(counts.tolls_above_zero));
        }
    }
    let late = deadline.map(|_| count(status.get(Counter::DeadlineMisses))).unwrap_or_default();
    text += &row("events, to commit", status.per_event.count(), &status.per_event, &late);
    text += &row("cycles, cut to commit", status.per_cycle.count(), &status.per_cycle, "");
    text.push('\n');
    text
}

fn row(name: &str, number: u64, times: &ResponseTimes, late: &str) -> String {
    let shown = |duration: Duration| if number == 0 { "-".to_owned() } else { time(duration) };
    let row = format!(
        "{name:<24}{:>14}{:>12}{:>10}{:>10}{:>10}{late:>10}",
        count(number),
        shown(times.quantile(0.5)),
        shown(times.quantile(0.99)),
        shown(times.quantile(0.9999)),
        shown(times.max()),
    );
    format!("{}\n", row.trim_end())
}

fn cycles(status: &Status) -> String {
    let cycles = status.get(Counter::CyclesCut);
    let [full, waited, idle] =
        [Counter::CutsBySize, Counter::CutsByWait, Counter::CutsByIdle].map(|counter| status.get(counter));
    let others = cycles.saturating_sub(full + waited + idle);
    let largest_mean = status.largest_mean_of_1000;
    let largest_mean = largest_mean.map(|mean| format!("; largest mean of 1,000 in a row {}", time(mean)));
    let events_each = status.get(Counter::EventsCommitted) as f64 / (cycles.max(1)) as f64;
    format!(
        "cycles          {} of {} events on average; closed because full {}, event waited {}, workers idle {}, \
         end {others}\n                {} each on average{}\n",
        count(cycles),
        short(events_each),
        count(full),
        count(waited),
        count(idle),
        time(status.per_cycle.mean()),
        largest_mean.unwrap_or_default(),
    )
}

fn shares(status: &Status, workers: usize) -> String {
    let parts = [
        ("splitting", Counter::SplitTime),
        ("operators", Counter::OperatorTime),
        ("output", Counter::OutputTime),
        ("writing", Counter::CommitTime),
    ];
    let seconds = |counter| status.get(counter) as f64 / 1e9;
    let whole: f64 = parts.iter().map(|(_, counter)| seconds(*counter)).sum();
    let shares = parts.map(|(name, counter)| format!("{name} {}", percent(seconds(counter), whole)));
    let busy_s = seconds(Counter::SplitTime) + seconds(Counter::OperatorTime);
    let available_s = status.elapsed_ns as f64 / 1e9 * workers as f64;
    format!(
        "time            {} of {} in all; workers busy {}\n",
        shares.join(", "),
        time(Duration::from_secs_f64(whole)),
        percent(busy_s, available_s)
    )
}

fn bad_lines(summary: &RunSummary) -> String {
    match summary.bad_lines.total() {
        0 => "bad lines       none\n".to_owned(),
        _ => format!("{}\n", summary.bad_lines),
    }
}
