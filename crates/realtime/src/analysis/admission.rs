//! Admission: the release rule that keeps a deadline, or what breaks it.

use thiserror::Error;

use super::bound::latency_bound_below;
use super::{Bound, Processors, Release, Stream};

/// A stream that keeps its deadline, under the model of [`latency_bound`](super::latency_bound).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The chosen interval and buffer.
    pub release: Release,
    /// The bound under it, not above the deadline.
    pub bound: Bound,
}

/// Why a stream cannot keep its deadline. The term that is too large is named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// More work arrives than can be done.
    #[error(
        "there is more work than the processors or the budget can do: events need \
         {events_percent}% of a processor and work of higher priority {others_percent}%, but \
         {available_percent}% are available"
    )]
    Overload {
        /// What events need, in percent of one processor, rounded up.
        events_percent: u64,
        /// What goes first needs.
        others_percent: u64,
        /// What there is.
        available_percent: u64,
    },
    /// Even if every batch is released at once, the answer is late.
    #[error(
        "the deadline of {deadline_ns} ns is too short: {term} needs {term_ns} ns of at least {latency_ns} ns"
    )]
    TooLate {
        /// The deadline.
        deadline_ns: u64,
        /// The bound with the best release rule that was found.
        latency_ns: u64,
        /// The largest term of it.
        term: String,
        /// Its size.
        term_ns: u64,
    },
}

/// How many intervals are tried if halving finds none.
const TRIED: u64 = 64;
const HALVINGS_MAX: u32 = 44;

/// How many intervals' events fit into the larger buffer that is tried.
const ROOM: u64 = 4;

/// How many times the deadline a bound may be, and its terms are still explained.
const EXPLAINED: u64 = 16;

/// Chooses the longest interval that keeps the deadline, with a buffer of the most events that arrive within it, or
/// some times as many. The longer the interval, the fewer the batches. If bursts have an exact size and an interval
/// for them would be shorter than the gap between them, a buffer of that size releases each burst at once instead,
/// and nothing is released in vain.
///
/// The bound of what is chosen has been computed, so it is kept. Where batches have a cost, a longer interval might keep the
/// deadline, too.
///
/// # Errors
/// A [`Refusal`] that names the term that is too large.
pub fn admit(stream: &Stream, processors: &Processors, deadline_ns: u64) -> Result<Admission, Refusal> {
    if stream.arrivals.exact && stream.arrivals.burst > 1 {
        let release = Release { interval_ns: stream.arrivals.gap_ns, buffer_max: stream.arrivals.burst };
        if let Some(admission) = try_release(stream, release, processors, deadline_ns) {
            return Ok(admission);
        }
    }
    let at = |interval_ns| {
        let mut releases = releases(stream, interval_ns).into_iter();
        releases.find_map(|release| try_release(stream, release, processors, deadline_ns))
    };
    let longest_ns = deadline_ns.saturating_sub(stream.event_cost_ns);
    let found = longest(longest_ns, at).or_else(|| {
        let tried = (0..TRIED).rev().map(|part| longest_ns / TRIED * part);
        tried.map(at).find_map(|admission| admission)
    });
    found.ok_or_else(|| refusal(stream, processors, deadline_ns))
}

/// An interval with a buffer of the most events that arrive within it, and with room for what comes during a batch: several
/// workers share a larger batch better.
fn releases(stream: &Stream, interval_ns: u64) -> [Release; 2] {
    let most = stream.arrivals.most_within(interval_ns);
    [most, most.saturating_mul(ROOM)].map(|buffer_max| Release { interval_ns, buffer_max })
}

fn try_release(
    stream: &Stream,
    release: Release,
    processors: &Processors,
    deadline_ns: u64,
) -> Option<Admission> {
    let bound = latency_bound_below(stream, &release, processors, deadline_ns).ok()?;
    (bound.latency_ns <= deadline_ns).then_some(Admission { release, bound })
}

/// The longest interval with an admission, if admissions end at some interval. Otherwise one of those with an admission.
fn longest(longest_ns: u64, at: impl Fn(u64) -> Option<Admission>) -> Option<Admission> {
    if let Some(admission) = at(longest_ns) {
        return Some(admission);
    }
    let mut best = at(0)?;
    let (mut kept_ns, mut late_ns) = (0, longest_ns);
    for _ in 0..HALVINGS_MAX {
        if late_ns - kept_ns <= 1 {
            break;
        }
        let middle_ns = kept_ns + (late_ns - kept_ns) / 2;
        match at(middle_ns) {
            Some(admission) => (best, kept_ns) = (admission, middle_ns),
            None => late_ns = middle_ns,
        }
    }
    Some(best)
}

fn refusal(stream: &Stream, processors: &Processors, deadline_ns: u64) -> Refusal {
    let intervals = (0..TRIED).map(|part| deadline_ns / TRIED * part);
    let explained_ns = deadline_ns.saturating_mul(EXPLAINED);
    let releases = intervals.flat_map(|interval_ns| releases(stream, interval_ns));
    let bounds =
        releases.filter_map(|release| latency_bound_below(stream, &release, processors, explained_ns).ok());
    match bounds.min_by_key(|bound| bound.latency_ns) {
        Some(bound) => {
            let (term, term_ns) = largest_term(&bound);
            Refusal::TooLate { deadline_ns, latency_ns: bound.latency_ns, term, term_ns }
        }
        None => overload(stream, processors),
    }
}

fn largest_term(bound: &Bound) -> (String, u64) {
    let own = [
        (
            format!("the cost of {} event{}", bound.events, if bound.events == 1 { "" } else { "s" }),
            bound.events_ns,
        ),
        ("the cost of batches".to_owned(), bound.batches_ns),
        ("waiting for the budget to be refilled".to_owned(), bound.budget_ns),
        ("blocking by work of lower priority".to_owned(), bound.blocking_ns),
        ("waiting for the release".to_owned(), bound.wait_ns),
    ];
    let others = bound
        .interference_ns
        .iter()
        .map(|(name, time_ns)| (format!("'{name}', which has a higher priority,"), *time_ns));
    own.into_iter().chain(others).max_by_key(|(_, time_ns)| *time_ns).unwrap_or_default()
}

fn overload(stream: &Stream, processors: &Processors) -> Refusal {
    let percent = |part_ns: u64, whole_ns: u64| {
        let percent = (u128::from(part_ns) * 100).div_ceil(u128::from(whole_ns.max(1)));
        u64::try_from(percent).unwrap_or(u64::MAX)
    };
    let per_burst_ns = stream.event_cost_ns.saturating_mul(stream.arrivals.burst);
    let others = processors.higher.iter().chain(&processors.pool_mates);
    let whole_percent = processors.workers.saturating_mul(100);
    let budget_percent = processors.budget.map(|budget| {
        u64::try_from(u128::from(budget.capacity_ns) * 100 / u128::from(budget.period_ns.max(1)))
            .unwrap_or(u64::MAX)
    });
    Refusal::Overload {
        events_percent: percent(per_burst_ns, stream.arrivals.gap_ns),
        others_percent: others.map(|other| percent(other.cost_ns, other.period_ns)).sum(),
        available_percent: budget_percent.unwrap_or(whole_percent).min(whole_percent),
    }
}
