//! The output at the end of a query: how much, how fast, how much of the bound was met, and what was left out.

use std::time::Duration;

use tidemill_engine::{ChangedSinks, Counter, Faults, Recovered, ResponseTimes};
use tidemill_sql::QueryStatus;

use crate::{quantity, terminal};

/// The complete summary.
pub(crate) fn whole(status: &QueryStatus, bound: Option<Duration>) {
    let rows = status.rows_in();
    let elapsed = Duration::from_nanos(status.engine.elapsed_ns);
    let rate = rows as f64 / elapsed.as_secs_f64().max(1e-9);
    terminal::tell(&format!(
        "{} in, {} out in {}: {}/s",
        quantity::counted(rows, "row"),
        quantity::counted(status.engine.get(Counter::RowsOut), "row"),
        quantity::time(elapsed),
        quantity::counted_short(rate, "row"),
    ));
    let per_event = &status.engine.per_event;
    if per_event.count() > 0 {
        terminal::tell(&response(per_event));
        if let Some(bound) = bound {
            terminal::tell(&met(per_event.share_within(bound), bound));
        }
    }
    left_out(status);
}

/// Of fewer events, the largest of ten thousand is the maximum.
const EVENTS_FOR_LARGEST_OF_TEN_THOUSAND: u64 = 10_000;

fn response(per_event: &ResponseTimes) -> String {
    let quantile = |share| quantity::time(per_event.quantile(share));
    let mut text = format!("response p50 {}, p99 {}", quantile(0.5), quantile(0.99));
    if per_event.count() >= EVENTS_FOR_LARGEST_OF_TEN_THOUSAND {
        text.push_str(&format!(", p99.99 {}", quantile(0.9999)));
    }
    text + &format!(", max {}", quantity::time(per_event.max()))
}

fn met(share: f64, bound: Duration) -> String {
    let bound = quantity::time(bound);
    match share {
        share if share >= 1.0 => format!("every event was answered within max_latency ({bound})"),
        // Rounded down: 99.9999 % is not all of them.
        share => {
            let percent = (share * 100_000.0).floor() / 1000.0;
            format!("{percent:.3} % of the events were answered within max_latency ({bound})")
        }
    }
}

/// What was left out, and why.
pub(crate) fn left_out(status: &QueryStatus) {
    if status.late > 0 {
        terminal::tell(&format!(
            "{} came too late and {} excluded from every result, with or without windows; late(TABLE(source)) \
             returns them, and a longer INTERVAL in WATERMARK FOR waits for them",
            quantity::counted(status.late, "row"),
            were(status.late)
        ));
    }
    if status.skipped > 0 {
        let rows = quantity::counted(status.skipped, "row");
        terminal::tell(&format!(
            "{rows} {} skipped, as requested with `tidemill journal skip`",
            were(status.skipped)
        ));
    }
    undone(status).iter().for_each(|text| terminal::tell(text));
}

/// What could not be done as it was asked for, each with the first examples: rows that were left out, results that are
/// NULL, rows that a sink refused.
fn undone(status: &QueryStatus) -> Vec<String> {
    let kinds: [(&Faults, &dyn Fn(u64) -> String); 3] = [
        (&status.faults, &|count| format!("{} and {} skipped", unusable(&status.faults), were(count))),
        (&status.null_results, &|count| {
            format!("{} could not be computed and {} NULL", quantity::counted(count, "result"), is_now(count))
        }),
        (&status.refused, &|count| {
            format!(
                "{} {} refused by a sink and {} in its file of dead letters",
                quantity::counted(count, "row"),
                were(count),
                is_now(count)
            )
        }),
    ];
    let some = kinds.into_iter().filter(|(faults, _)| faults.count > 0);
    some.map(|(faults, what)| with_samples(&what(faults.count), faults)).collect()
}

/// Why a query has ended that is to do all or nothing.
pub(crate) fn refused(status: &QueryStatus) -> String {
    let mut texts = Vec::new();
    if status.faults.count > 0 {
        let what = format!("{}, which --strict does not allow", unusable(&status.faults));
        texts.push(with_samples(&what, &status.faults));
    }
    let left: &[(&Faults, &str, &str)] = &[
        (&status.null_results, "result", "could not be computed"),
        (&status.refused, "row", "refused by a sink"),
    ];
    for (faults, what, why) in left.iter().filter(|(faults, ..)| faults.count > 0) {
        let were = if *what == "row" { format!("{} ", were(faults.count)) } else { String::new() };
        let counted = quantity::counted(faults.count, what);
        texts.push(with_samples(&format!("{counted} {were}{why}, which --strict does not allow"), faults));
    }
    texts.join("\n")
}

fn unusable(faults: &Faults) -> String {
    format!("{} could not be used", quantity::counted(faults.count, "row"))
}

/// What happened, and the first rows that were affected.
fn with_samples(what: &str, faults: &Faults) -> String {
    let mut text = what.to_owned();
    if faults.samples.is_empty() {
        return text;
    }
    text.push(':');
    for sample in &faults.samples {
        text.push_str(&format!("\n  {sample}"));
    }
    let more = faults.count.saturating_sub(faults.samples.len() as u64);
    if more > 0 {
        text.push_str(&format!("\n  and {} more", quantity::count(more)));
    }
    text
}

fn is_now(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// What a durable pipeline found from earlier runs; nothing for its first run.
pub(crate) fn recovered(recovered: &Recovered) {
    let Recovered { snapshot, cycles, events, cuts_forgotten, skips, changed } = recovered;
    if let Some(changed) = changed {
        changed_sinks(changed);
    }
    if snapshot.is_none() && *cycles == 0 && *events == 0 {
        return;
    }
    let state = match snapshot {
        Some(cycle) => format!("from the state after cycle {cycle}"),
        None => "from the beginning".into(),
    };
    let (cycles, events) = (quantity::counted(*cycles, "cycle"), quantity::counted(*events, "event"));
    terminal::tell(&format!("resuming {state}: {events} in the journal after it, {cycles} to recompute"));
    if *cuts_forgotten > 0 {
        let cycles = quantity::counted(*cuts_forgotten, "cycle");
        terminal::tell(&format!("{cycles} had reached neither the disk nor a sink and will be recomputed"));
    }
    for (stream, positions) in skips {
        terminal::tell(&format!(
            "skipping {} of '{stream}', as requested with `tidemill journal skip`: position {positions}",
            quantity::counted(positions.count(), "row")
        ));
    }
}

/// Sinks that were added to a durable pipeline, or removed from it.
fn changed_sinks(ChangedSinks { added, removed, kept, dropped }: &ChangedSinks) {
    let kept = kept.join(", ");
    for sink in removed {
        terminal::tell(&format!("sink '{sink}' is gone from the script; what it has written stays"));
    }
    if !dropped.is_empty() {
        terminal::tell(&format!(
            "the state of what no sink needs any more is dropped: {}",
            dropped.join(", ")
        ));
    }
    for sink in added {
        let at = sink.begins.iter().map(|(stream, position)| format!("position {position} of '{stream}'"));
        let at = at.collect::<Vec<_>>().join(", ");
        terminal::tell(&format!("sink '{}' is new and begins with {at}, without the rows before", sink.name));
    }
    terminal::tell(&format!("unchanged, and continued: {kept}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_all_is_not_all() {
        let bound = Duration::from_millis(20);
        assert_eq!(met(1.0, bound), "every event was answered within max_latency (20.0 ms)");
        assert!(met(0.999_999_9, bound).starts_with("99.999 % of the events"));
    }
}
