//! Pools, bounds and refusals in words.

use std::fmt::Write;

use tidemill_engine::analysis::{Admission, DeferrableServer, Refusal};
use tidemill_engine::{Affinity, Policy, PoolSettings};

use crate::text::duration::display_ns;

/// A length of time; what is longer than a millisecond is rounded up to microseconds.
pub(crate) fn time(length_ns: u64) -> String {
    let length_ns = match length_ns {
        1_000_000.. => length_ns.div_ceil(1000).saturating_mul(1000),
        _ => length_ns,
    };
    display_ns(i64::try_from(length_ns).unwrap_or(i64::MAX))
}

pub(crate) fn pool_text(settings: &PoolSettings) -> String {
    let mut text = format!("policy {}", settings.policy_name());
    if let Policy::Fifo { priority } | Policy::RoundRobin { priority } = settings.policy {
        let _ = write!(text, ", priority {priority}");
    }
    if !settings.cores.is_empty() {
        let cores: Vec<String> = settings.cores.iter().map(usize::to_string).collect();
        let affinity = match settings.affinity {
            Affinity::Global => "",
            Affinity::Partitioned => " (partitioned)",
            Affinity::Semi => " (semi-partitioned)",
        };
        let _ = write!(text, ", cores {}{affinity}", cores.join(", "));
    }
    if let Some(DeferrableServer { capacity_ns, period_ns }) = settings.budget {
        let _ = write!(text, ", budget {} in each {}", time(capacity_ns), time(period_ns));
    }
    text
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

fn cost_of(count: u64) -> String {
    format!("the cost of {}", events(count))
}

/// Which term is too large.
pub(crate) fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::TooLate { latency_ns, term, term_ns, .. } => {
            let term = term.trim_end_matches(',');
            format!("the bound is {}, of which {} are {term}", time(*latency_ns), time(*term_ns))
        }
        Refusal::Overload { .. } => refusal.to_string(),
    }
}

pub(crate) fn admission_text(admission: &Admission, is_periodic: bool) -> String {
    let Admission { release, bound } = admission;
    let mut terms = vec![
        (cost_of(bound.events), bound.events_ns),
        ("their cycles".to_owned(), bound.batches_ns),
        ("the release".to_owned(), bound.wait_ns),
        ("the budget".to_owned(), bound.budget_ns),
        ("blocking by lower priorities".to_owned(), bound.blocking_ns),
    ];
    terms.extend(bound.interference_ns.iter().map(|(name, time_ns)| (format!("'{name}'"), *time_ns)));
    let terms = terms.into_iter().filter(|(_, time_ns)| *time_ns > 0);
    let terms: Vec<String> = terms.map(|(name, time_ns)| format!("{} for {name}", time(time_ns))).collect();
    let earlier = match bound.arrived_later_ns {
        0 => String::new(),
        later_ns => format!(", less {} by which it arrives later", time(later_ns)),
    };
    format!(
        "released {} {}, or with {}; bound {}: {}{earlier}; on one worker, as all keys may fall to one",
        if is_periodic { "every" } else { "after" },
        time(release.interval_ns),
        events(release.buffer_max),
        time(bound.latency_ns),
        terms.join(", ")
    )
}
