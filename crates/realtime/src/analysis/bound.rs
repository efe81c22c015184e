//! How long an event waits for its answer at most.

use super::fixed_point::{LIMIT_NS, NoBound};
use super::{Completion, Demand, Processors, Release, Stream};

/// How many events in a row may keep the processors busy before that counts as for ever.
const BUSY_EVENTS_MAX: u64 = 50_000;

/// A bound on the time from an event's arrival to its answer, with what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The bound.
    pub latency_ns: u64,
    /// How long the event waits for its batch to be released. Less than the interval if it arrives while another batch is
    /// processed, or if bursts fill the buffer.
    pub wait_ns: u64,
    /// How many events are processed in the worst case, until it has its answer.
    pub events: u64,
    /// Their cost.
    pub events_ns: u64,
    /// The cost of their batches beside that.
    pub batches_ns: u64,
    /// How much of this other workers take over, or work in parallel.
    pub shared_ns: u64,
    /// What interrupts them, by name.
    pub interference_ns: Vec<(String, u64)>,
    /// How long the budget is empty meanwhile.
    pub budget_ns: u64,
    /// How long something of a lower priority is in the way.
    pub blocking_ns: u64,
    /// How much later than the first of these events it arrives.
    pub arrived_later_ns: u64,
}

/// The paper's bound: `interval + n * cost`, on one processor that does nothing else.
///
/// `n` is the most events in one interval. It holds if the batch before is done when the next is released.
pub fn papers_bound(interval_ns: u64, events: u64, cost_ns: u64) -> u64 {
    interval_ns.saturating_add(events.saturating_mul(cost_ns))
}

/// The paper's bound solved for the events: `(deadline - interval) / cost`, rounded down. A buffer of at most this many
/// events bounds the latency of bursts of any size.
pub fn elements_within(deadline_ns: u64, interval_ns: u64, cost_ns: u64) -> u64 {
    deadline_ns.saturating_sub(interval_ns).checked_div(cost_ns).unwrap_or(u64::MAX)
}

/// The largest of `interval - (i - 1) * gap + i * cost` for the first `events` events, which are at least `gap_ns` apart: what
/// the paper's bound becomes where each event has its answer when its own work is done. Who waits longest is processed
/// first.
pub fn spaced_bound(interval_ns: u64, gap_ns: u64, cost_ns: u64, events: u64) -> u64 {
    // A straight line has its largest value at one of its ends.
    let at = |event: u64| {
        let late_ns = interval_ns.saturating_add(event.saturating_mul(cost_ns));
        late_ns.saturating_sub((event - 1).saturating_mul(gap_ns))
    };
    if events == 0 { 0 } else { at(1).max(at(events)) }
}

/// The worst case of a stream under a release rule on these processors.
///
/// It goes through the longest time in which the processors can be busy with the stream, event by event. Let the first batch
/// be released at 0, and `w(k)` be the time by which `k` events are done at the latest. The events of the first batch have
/// arrived after `-interval`, all others after 0, and the `i`-th at `(its least distance to the first) - interval` at the
/// earliest. A batch takes what has arrived when it starts.
///
/// # Errors
/// If there is no bound, or none below an hour.
pub fn latency_bound(stream: &Stream, release: &Release, processors: &Processors) -> Result<Bound, NoBound> {
    latency_bound_below(stream, release, processors, u64::MAX)
}

/// The same, but gives up as soon as the bound is above this.
pub(crate) fn latency_bound_below(
    stream: &Stream,
    release: &Release,
    processors: &Processors,
    most_ns: u64,
) -> Result<Bound, NoBound> {
    if let Some(budget) = processors.budget {
        let unlimited = Processors { budget: None, ..processors.clone() };
        let bound = BusyTime::new(stream, release, &unlimited).and_then(|busy| busy.worst(most_ns));
        if let Ok(bound) = bound
            && demand_within(stream, &unlimited, budget.period_ns, bound.latency_ns) <= budget.capacity_ns
        {
            return Ok(bound);
        }
    }
    BusyTime::new(stream, release, processors)?.worst(most_ns)
}

/// The most that the stream, and what uses the same budget, work within a period, if no event waits for longer than that for its
/// answer: then all of it has arrived within the period and that time before. If that is not more than the budget, the
/// budget is never used up while there is work: before it is for the first time, nothing has waited for it.
fn demand_within(stream: &Stream, processors: &Processors, period_ns: u64, latency_ns: u64) -> u64 {
    let events = stream.arrivals.most_within(period_ns.saturating_add(latency_ns).saturating_add(1));
    // Each event may be a batch.
    let own_ns = events.saturating_mul(stream.event_cost_ns.saturating_add(stream.batch_cost_ns));
    // Who goes before the stream is done before it; who goes after it is done within its jitter.
    let mates = processors.pool_mates.iter().map(|mate| {
        let late_ns = mate.jitter_ns.saturating_add(latency_ns);
        mate.clone().with_jitter(late_ns).within(period_ns.saturating_add(1))
    });
    mates.fold(own_ns, u64::saturating_add)
}

/// Where an event is in the busy time when the bound is reached.
#[derive(Clone, Copy)]
struct Worst {
    latency_ns: u64,
    /// How many events are done.
    events: u64,
    done_ns: u64,
    batches: u64,
    wait_ns: u64,
    arrived_later_ns: u64,
}

struct BusyTime<'a> {
    stream: &'a Stream,
    processors: &'a Processors,
    interval_ns: u64,
    buffer: u64,
    /// The most events of a first batch that the interval releases; 0 if it never does.
    partial: u64,
    /// The most events of a first batch that is full, and how long they have waited; 0 if none can be.
    full: u64,
    full_wait_ns: u64,
}

impl<'a> BusyTime<'a> {
    fn new(stream: &'a Stream, release: &Release, processors: &'a Processors) -> Result<Self, NoBound> {
        check_load(stream, processors)?;
        let (arrivals, interval_ns) = (stream.arrivals, release.interval_ns);
        if interval_ns > LIMIT_NS {
            return Err(NoBound);
        }
        let mut busy = BusyTime {
            stream,
            processors,
            interval_ns,
            buffer: release.buffer_max.max(1),
            partial: 0,
            full: 0,
            full_wait_ns: 0,
        };
        let buffer = busy.buffer;
        // Until the batch starts, which what interrupts the workers may delay.
        let window_ns = interval_ns.saturating_add(busy.start_ns(0, 0)?);
        let most = arrivals.most_within(window_ns);
        let always_full = buffer == 1 || (arrivals.exact && arrivals.burst.is_multiple_of(buffer));
        let fills_at_once = always_full || (buffer <= arrivals.burst && arrivals.gap_ns >= window_ns);
        (busy.partial, busy.full) = if buffer > most { (most, 0) } else { (buffer - 1, buffer) };
        if always_full {
            busy.partial = 0;
        }
        if !fills_at_once {
            busy.full_wait_ns = interval_ns;
        }
        Ok(busy)
    }

    fn worst(&self, most_ns: u64) -> Result<Bound, NoBound> {
        let first = self.partial.max(self.full);
        let longest_wait_ns = if self.partial > 0 { self.interval_ns } else { self.full_wait_ns };
        let mut worst = self.worst_of_first_batch()?;
        let mut done_ns = 0;
        for event in 1..=BUSY_EVENTS_MAX {
            if worst.is_some_and(|worst| worst.latency_ns > most_ns) {
                return Err(NoBound);
            }
            done_ns = self.done_ns(event, done_ns)?;
            // How long after the release of the first batch the next event has come, unless it belongs to that batch.
            let later_ns = self.span_ns(event + 1).saturating_sub(longest_wait_ns);
            if event >= first && later_ns >= done_ns {
                return self.explain(&worst.ok_or(NoBound)?);
            }
            let last = match self.stream.completion {
                Completion::Event => event + 1,
                Completion::Batch => self.last_of_batch_after(event, done_ns, longest_wait_ns)?,
            };
            let end_ns = self.done_ns(last, done_ns)?;
            keep(&mut worst, self.at(last, end_ns, self.batches(last, end_ns), 0, later_ns));
        }
        Err(NoBound)
    }

    /// The first batch, as released by the interval and as released because it is full. If it is answered as a whole, the
    /// event that has waited longest counts.
    fn worst_of_first_batch(&self) -> Result<Option<Worst>, NoBound> {
        let mut worst = None;
        for (events, wait_ns) in [(self.partial, self.interval_ns), (self.full, self.full_wait_ns)] {
            if self.stream.completion == Completion::Batch && events > 0 {
                keep(&mut worst, self.at(events, self.first_done_ns(events)?, 1, wait_ns, 0));
            }
            // On several workers, the order in which events of a batch are done is not known: the last of them counts.
            if self.stream.completion == Completion::Event {
                for event in 1..=events.min(BUSY_EVENTS_MAX) {
                    let done = if self.processors.workers == 1 { event } else { events };
                    let later_ns = self.span_ns(event).min(wait_ns);
                    keep(&mut worst, self.at(done, self.first_done_ns(done)?, 1, wait_ns, later_ns));
                }
            }
        }
        Ok(worst)
    }

    fn at(&self, events: u64, done_ns: u64, batches: u64, wait_ns: u64, arrived_later_ns: u64) -> Worst {
        let latency_ns = done_ns.saturating_add(wait_ns).saturating_sub(arrived_later_ns);
        Worst { latency_ns, events, done_ns, batches, wait_ns, arrived_later_ns }
    }

    /// The last event that may belong to the batch that starts when this many events are done.
    fn last_of_batch_after(&self, events: u64, done_ns: u64, wait_ns: u64) -> Result<u64, NoBound> {
        let arrivals = self.stream.arrivals;
        // From the arrival of the first event to the start of the batch, this moment included.
        let window_ns = self.start_ns(events, done_ns)?.saturating_add(wait_ns);
        let arrived = (window_ns / arrivals.gap_ns).saturating_add(1).saturating_mul(arrivals.burst);
        Ok(arrived.min(events.saturating_add(self.buffer)).max(events + 1))
    }

    /// When a batch starts at the latest that is due when this many events are done: work of one nanosecond would be done
    /// one later.
    fn start_ns(&self, events: u64, from_ns: u64) -> Result<u64, NoBound> {
        let done_ns = self.processors.completion_ns(from_ns, |window_ns| {
            let Demand { total_ns, path_ns } = self.demand(events, self.batches(events, window_ns));
            Demand { total_ns: total_ns.saturating_add(1), path_ns: path_ns.saturating_add(1) }
        })?;
        Ok(done_ns.saturating_sub(1))
    }

    fn span_ns(&self, events: u64) -> u64 {
        self.stream.arrivals.least_span_ns(events)
    }

    /// `w(k)`: when this many events are done.
    fn done_ns(&self, events: u64, from_ns: u64) -> Result<u64, NoBound> {
        self.processors
            .completion_ns(from_ns, |window_ns| self.demand(events, self.batches(events, window_ns)))
    }

    /// When these events are done if they are in the first batch.
    fn first_done_ns(&self, events: u64) -> Result<u64, NoBound> {
        self.processors.completion_ns(0, |_| self.demand(events, 1))
    }

    /// The work of the first events, in this many batches.
    fn demand(&self, events: u64, batches: u64) -> Demand {
        let stream = self.stream;
        let batches_ns = batches.saturating_mul(stream.batch_cost_ns);
        let events_ns = events.saturating_mul(stream.event_cost_ns);
        // Each batch has a longest path: what belongs to no event, and one event.
        let path_ns = batches.saturating_mul(stream.event_cost_ns).saturating_add(batches_ns);
        let total_ns = events_ns.saturating_add(batches_ns);
        Demand { total_ns, path_ns: path_ns.min(total_ns) }
    }

    /// In how many batches this many events are processed at most. Batches that are not full start at least an interval
    /// apart, and each begins with an event of another burst.
    fn batches(&self, events: u64, window_ns: u64) -> u64 {
        if self.partial == 0 {
            return events.div_ceil(self.buffer);
        }
        let by_interval = window_ns.checked_div(self.interval_ns).unwrap_or(u64::MAX).saturating_add(1);
        let by_burst = window_ns.saturating_add(self.interval_ns) / self.stream.arrivals.gap_ns + 1;
        let partial = by_interval.min(by_burst).min(events);
        partial + (events - partial) / self.buffer
    }

    fn explain(&self, worst: &Worst) -> Result<Bound, NoBound> {
        let processors = self.processors;
        let window_ns = worst.done_ns;
        let own = self.demand(worst.events, worst.batches);
        let events_ns = worst.events.saturating_mul(self.stream.event_cost_ns);
        let named = |of: &super::Interference| {
            let share_ns = processors.share_within(of, window_ns).div_ceil(processors.workers);
            (of.name.clone(), share_ns)
        };
        let interference_ns: Vec<_> =
            processors.pool_mates.iter().chain(&processors.higher).map(named).collect();
        let mates_ns: u64 =
            processors.pool_mates.iter().map(|mate| processors.share_within(mate, window_ns)).sum();
        let budget_ns = processors
            .budget
            .map_or(0, |budget| budget.held_up_ns(own.total_ns.saturating_add(mates_ns), processors.workers));
        let others_ns: u64 = interference_ns.iter().map(|(_, time_ns)| time_ns).sum();
        let rest_ns = budget_ns.saturating_add(others_ns).saturating_add(processors.blocking_ns);
        Ok(Bound {
            latency_ns: worst.latency_ns,
            wait_ns: worst.wait_ns,
            events: worst.events,
            events_ns,
            batches_ns: own.total_ns - events_ns,
            shared_ns: own.total_ns.saturating_add(rest_ns).saturating_sub(window_ns),
            interference_ns,
            budget_ns,
            blocking_ns: processors.blocking_ns,
            arrived_later_ns: worst.arrived_later_ns,
        })
    }
}

fn keep(worst: &mut Option<Worst>, found: Worst) {
    if worst.is_none_or(|worst| worst.latency_ns < found.latency_ns) {
        *worst = Some(found);
    }
}

/// Refuses what can never be kept up with: more work than the processors, or the budget, can do.
fn check_load(stream: &Stream, processors: &Processors) -> Result<(), NoBound> {
    let per_burst_ns = stream.event_cost_ns.saturating_mul(stream.arrivals.burst);
    let own_ppm = (u128::from(per_burst_ns) * 1_000_000).div_ceil(u128::from(stream.arrivals.gap_ns));
    let sum =
        |all: &[super::Interference]| all.iter().map(super::Interference::utilisation_ppm).sum::<u128>();
    let (mates_ppm, higher_ppm) = (sum(&processors.pool_mates), sum(&processors.higher));
    let all_ppm = u128::from(processors.workers) * 1_000_000;
    let within_budget = processors.budget.is_none_or(|budget| {
        let budget_ppm = u128::from(budget.capacity_ns) * 1_000_000 / u128::from(budget.period_ns.max(1));
        own_ppm + mates_ppm <= budget_ppm
    });
    if own_ppm + mates_ppm + higher_ppm <= all_ppm && within_budget { Ok(()) } else { Err(NoBound) }
}
