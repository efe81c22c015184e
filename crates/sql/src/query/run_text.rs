//! What a query and its pool have done, for people.

use std::fmt::Write;

use tidemill_engine::{Counter, DeadlineMiss, PoolStatus, Status};

use super::costs_text::costs_text;

/// Below a plan: how fast its query answers, which answers were late, and what ran instead.
pub(crate) fn run_text(engine: &Status) -> String {
    let answered = engine.get(Counter::EventsCommitted);
    let mut text = format!("events answered: {answered}");
    if engine.per_event.count() > 0 {
        let at = |share| format!("{:.1?}", engine.per_event.quantile(share));
        let (middle, most, nearly_all) = (at(0.5), at(0.99), at(0.9999));
        let longest = engine.per_event.max();
        let _ = write!(text, "; p50 {middle}, p99 {most}, p99.99 {nearly_all}, max {longest:.1?}");
    }
    text.push('\n');
    let late = engine.get(Counter::DeadlineMisses);
    if late > 0 {
        let _ = writeln!(text, "late answers: {late}; the last of them:");
        engine.misses.iter().for_each(|miss| text.push_str(&miss_text(miss)));
    }
    text.push_str(&costs_text(&engine.costs));
    if let Some(pool) = &engine.pool {
        let [threads, used, longest, queued, emptied, late] = pool_figures(Some(pool));
        let _ = writeln!(
            text,
            "its pool: {threads} threads; used {used}, the longest activation {longest}, waited {queued} for \
             processors; budget empty {emptied} times, {:.1?} too much at most; {late} late answers",
            pool.overrun
        );
        for missing in &pool.missing {
            let _ = writeln!(text, "its pool runs without what it asked for: {missing}");
        }
    }
    text
}

fn miss_text(miss: &DeadlineMiss) -> String {
    let DeadlineMiss { cycle, late, latency, what_ran } = miss;
    let what_ran = what_ran.as_ref().map_or(String::new(), |what_ran| format!(": {what_ran}"));
    format!("  cycle {cycle}: {late}, up to {latency:.1?}{what_ran}\n")
}

/// Threads, processor time, longest activation, time in queues, how often the budget was empty, late answers. Nothing for a
/// pool that has not run.
pub(crate) fn pool_figures(status: Option<&PoolStatus>) -> [String; 6] {
    let Some(status) = status else { return std::array::from_fn(|_| String::new()) };
    [
        status.members.to_string(),
        format!("{:.1?}", status.used),
        format!("{:.1?}", status.longest_activation),
        format!("{:.1?}", status.queued),
        status.emptied.to_string(),
        status.deadline_misses.to_string(),
    ]
}
