//! The trace of a pool: which query ran when, and what kept it from running. It is what a missed deadline is explained with.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::identity::QueryIdentity;
use super::role::Role;
use crate::threads::{self, QueueClock};

/// How many activations are kept.
const ACTIVATIONS_MAX: usize = 1024;

/// How often the time that the host took is read at most: the file is long on a machine with many cores.
const STEAL_LOOK_NS: u64 = 1_000_000_000;

/// How many readings of it, and how many times without a budget, are kept.
const KEPT_MAX: usize = 64;

/// Of how many members it knows how long they waited for a processor, beside all workers: each takes an open file, and a source
/// may have hundreds of connections.
const QUEUES_MAX: usize = 32;

/// Shorter activations of a thread are noted together.
const NOTED_NS_MIN: u64 = 1_000_000;

/// Less processor time is that of looking for work.
const WORK_NS_MIN: u64 = 20_000;

/// What ran in a pool within a time, and what its threads waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhatRan {
    /// How far back this looks.
    pub window: Duration,
    /// The name of the query that asked.
    pub query: String,
    /// The processor time of that query.
    pub own: Duration,
    /// The processor time of other queries of the pool, the most first.
    pub others: Vec<(String, Duration)>,
    /// How long threads of the query were ready, and something else had the processor; all its threads together.
    pub queued: Duration,
    /// How long the budget was empty.
    pub without_budget: Duration,
    /// The most that the host of a virtual machine took from the pool's cores: read once a second at most, so it may have been
    /// before the window.
    pub stolen: Duration,
}

/// The activations of a pool's members, newest last.
#[derive(Debug, Default)]
pub(super) struct Trace {
    activations: VecDeque<Activation>,
    present: BTreeMap<u64, Present>,
    /// Times without a budget, from and to.
    without_budget: VecDeque<(u64, u64)>,
    /// When and how much the host had taken since the machine started.
    stolen: VecDeque<(u64, u64)>,
    /// The cores of the pool; empty: all.
    cores: Vec<usize>,
}

#[derive(Debug)]
struct Activation {
    query: Option<Arc<QueryIdentity>>,
    from_ns: u64,
    to_ns: u64,
    cpu_ns: u64,
    queued_ns: u64,
}

/// A member in its present activation.
#[derive(Debug)]
struct Present {
    query: Option<Arc<QueryIdentity>>,
    thread: i32,
    role: Role,
    queue: QueueClock,
    from_ns: u64,
    cpu_ns: u64,
    queued_ns: u64,
    /// Of the processor time of a thread that reads a source or writes to a sink: how much of it is counted as used.
    counted_ns: u64,
}

/// What members have used and waited for since that was last noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(super) struct Noted {
    /// The processor time of threads that read sources or write to sinks. Workers count theirs themselves.
    pub used_ns: u64,
    /// How long they were ready, and something else had the processor.
    pub queued_ns: u64,
}

impl Trace {
    pub fn of_cores(cores: &[usize]) -> Trace {
        Trace { cores: cores.to_vec(), ..Trace::default() }
    }

    pub fn joined(
        &mut self,
        member: u64,
        query: Option<&Arc<QueryIdentity>>,
        (thread, role): (i32, Role),
        now_ns: u64,
    ) {
        let is_asked = role != Role::Receiver || self.present.len() < QUEUES_MAX;
        let (query, queue) = (query.cloned(), QueueClock::of(thread, is_asked));
        let queued_ns = queue.read_ns().unwrap_or(0);
        let cpu_ns = threads::cpu_time_ns(thread).unwrap_or(0);
        let present =
            Present { query, thread, role, queue, from_ns: now_ns, cpu_ns, queued_ns, counted_ns: cpu_ns };
        self.present.insert(member, present);
        self.look_for_steal(now_ns);
    }

    /// An activation of a worker ends, and the next one begins.
    pub fn activation_ended(&mut self, member: u64, now_ns: u64, cpu_ns: u64) -> Noted {
        let Some(present) = self.present.get_mut(&member) else { return Noted::default() };
        if now_ns.saturating_sub(present.from_ns) < NOTED_NS_MIN {
            return Noted::default();
        }
        let noted = present.note(now_ns, cpu_ns, &mut self.activations);
        if self.look_for_steal(now_ns) { noted.and(self.note_receivers(now_ns)) } else { noted }
    }

    /// What threads that read sources or write to sinks have done: they have no activations, so whoever looks divides their time.
    pub fn note_receivers(&mut self, now_ns: u64) -> Noted {
        let receivers = self.present.values_mut().filter(|present| present.role == Role::Receiver);
        receivers.fold(Noted::default(), |noted, present| {
            let cpu_ns = threads::cpu_time_ns(present.thread).unwrap_or(present.cpu_ns);
            noted.and(present.note(now_ns, cpu_ns, &mut self.activations))
        })
    }

    /// A member has left. Its thread still runs.
    pub fn left(&mut self, member: u64, now_ns: u64) -> Noted {
        let Some(mut present) = self.present.remove(&member) else { return Noted::default() };
        let cpu_ns = threads::cpu_time_ns(present.thread).unwrap_or(present.cpu_ns);
        present.note(now_ns, cpu_ns, &mut self.activations)
    }

    pub fn had_no_budget(&mut self, from_ns: u64, to_ns: u64) {
        keep(&mut self.without_budget, (from_ns, to_ns), KEPT_MAX);
    }

    /// Looks at most once a second; whether it did.
    fn look_for_steal(&mut self, now_ns: u64) -> bool {
        let is_due = self.stolen.back().is_none_or(|(last_ns, _)| now_ns - last_ns >= STEAL_LOOK_NS);
        if is_due && let Some(stolen_ns) = threads::stolen_ns(&self.cores) {
            keep(&mut self.stolen, (now_ns, stolen_ns), KEPT_MAX);
        }
        is_due
    }

    pub fn what_ran(&self, query: &Arc<QueryIdentity>, now_ns: u64, window: Duration) -> WhatRan {
        let from_ns = now_ns.saturating_sub(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
        let mut found = WhatRan { window, query: query.name.clone(), ..WhatRan::default() };
        let present: Vec<Activation> = self.present.values().map(|present| present.now(now_ns)).collect();
        for activation in self.activations.iter().chain(&present) {
            let (cpu, queued) = activation.within(from_ns);
            match &activation.query {
                Some(other) if Arc::ptr_eq(other, query) => {
                    found.own += cpu;
                    found.queued += queued;
                }
                _ if cpu.is_zero() => {}
                other => found.add_other(other.as_deref(), cpu),
            }
        }
        found.others.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        for (empty_ns, full_ns) in &self.without_budget {
            found.without_budget += Duration::from_nanos(full_ns.saturating_sub((*empty_ns).max(from_ns)));
        }
        let before = self.stolen.iter().rfind(|(at_ns, _)| *at_ns <= from_ns).or(self.stolen.front());
        if let (Some((_, before_ns)), Some(now_ns)) = (before, threads::stolen_ns(&self.cores)) {
            found.stolen = Duration::from_nanos(now_ns.saturating_sub(*before_ns));
        }
        found
    }
}

fn keep<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(new);
}

impl Noted {
    fn and(self, other: Noted) -> Noted {
        Noted { used_ns: self.used_ns + other.used_ns, queued_ns: self.queued_ns + other.queued_ns }
    }
}

impl Present {
    /// Its activation ends. Little work is added to the next one.
    fn note(&mut self, now_ns: u64, cpu_ns: u64, activations: &mut VecDeque<Activation>) -> Noted {
        let mut noted = Noted::default();
        if self.role == Role::Receiver {
            noted.used_ns = cpu_ns.saturating_sub(self.counted_ns);
            self.counted_ns = cpu_ns;
        }
        if cpu_ns.saturating_sub(self.cpu_ns) >= WORK_NS_MIN {
            let activation = self.until(now_ns, cpu_ns);
            noted.queued_ns = activation.queued_ns;
            (self.cpu_ns, self.queued_ns) = (cpu_ns, self.queued_ns + noted.queued_ns);
            keep(activations, activation, ACTIVATIONS_MAX);
        }
        self.from_ns = now_ns;
        noted
    }

    /// What it has done since its activation began.
    fn now(&self, now_ns: u64) -> Activation {
        self.until(now_ns, threads::cpu_time_ns(self.thread).unwrap_or(self.cpu_ns))
    }

    fn until(&self, now_ns: u64, cpu_ns: u64) -> Activation {
        let cpu_ns = cpu_ns.saturating_sub(self.cpu_ns);
        let queued_ns = self.queue.read_ns().unwrap_or(0).saturating_sub(self.queued_ns);
        Activation { query: self.query.clone(), from_ns: self.from_ns, to_ns: now_ns, cpu_ns, queued_ns }
    }
}

impl Activation {
    /// Processor time and time in the queue since a moment, as if both were spread evenly.
    fn within(&self, from_ns: u64) -> (Duration, Duration) {
        let length_ns = self.to_ns.saturating_sub(self.from_ns);
        let inside_ns = self.to_ns.saturating_sub(self.from_ns.max(from_ns));
        let part = |time_ns: u64| {
            let part_ns = u128::from(time_ns) * u128::from(inside_ns) / u128::from(length_ns.max(1));
            Duration::from_nanos(u64::try_from(part_ns).unwrap_or(u64::MAX))
        };
        (part(self.cpu_ns), part(self.queued_ns))
    }
}

impl WhatRan {
    fn add_other(&mut self, other: Option<&QueryIdentity>, time: Duration) {
        let name = other.map_or("a thread of no query", |other| &other.name);
        match self.others.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += time,
            None => self.others.push((name.to_owned(), time)),
        }
    }
}

impl fmt::Display for WhatRan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        write!(formatter, "in {}, '{}' ran {}", ms(self.window), self.query, ms(self.own))?;
        for (name, time) in &self.others {
            write!(formatter, ", '{name}' of the same pool {}", ms(*time))?;
        }
        if self.others.is_empty() {
            write!(formatter, ", and nothing else of the pool")?;
        }
        write!(formatter, "; its threads waited {} for a processor", ms(self.queued))?;
        if !self.without_budget.is_zero() {
            write!(formatter, "; the budget was empty for {}", ms(self.without_budget))?;
        }
        if self.stolen.is_zero() {
            write!(formatter, "; the host took nothing")
        } else {
            write!(formatter, "; the host took up to {}", ms(self.stolen))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str) -> Arc<QueryIdentity> {
        Arc::new(QueryIdentity { name: name.into(), deadline: None })
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_counts_what_overlaps_it() {
        let (own, other) = (query("alarms"), query("totals"));
        let mut trace = Trace::default();
        let mut ran = |of: &Arc<QueryIdentity>, from_ms: u64, to_ms: u64, cpu_ms: u64| {
            trace.activations.push_back(Activation {
                query: Some(Arc::clone(of)),
                from_ns: from_ms * MS,
                to_ns: to_ms * MS,
                cpu_ns: cpu_ms * MS,
                queued_ns: (to_ms - from_ms - cpu_ms) * MS,
            });
        };
        ran(&own, 0, 10, 10);
        ran(&other, 10, 30, 10);
        ran(&own, 90, 100, 4);
        trace.had_no_budget(15 * MS, 40 * MS);
        let found = trace.what_ran(&own, 100 * MS, Duration::from_millis(80));
        let ms = Duration::from_millis;
        assert_eq!((found.own, found.queued, found.without_budget), (ms(4), ms(6), ms(20)));
        assert_eq!(found.others, [("totals".to_owned(), ms(5))]);
        let text = found.to_string();
        assert!(
            text.starts_with("in 80.0 ms, 'alarms' ran 4.0 ms, 'totals' of the same pool 5.0 ms"),
            "{text}"
        );
    }

    #[test]
    fn the_trace_is_bounded() {
        let mut trace = Trace::default();
        for number in 0..10_000 {
            let activation =
                Activation { query: None, from_ns: number, to_ns: number + 1, cpu_ns: 1, queued_ns: 0 };
            keep(&mut trace.activations, activation, ACTIVATIONS_MAX);
            trace.had_no_budget(number, number);
        }
        assert_eq!((trace.activations.len(), trace.without_budget.len()), (ACTIVATIONS_MAX, KEPT_MAX));
    }
}
