//! The time and the rows of each transform and operator, over all workers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::topology::{Edge, EdgeKind, Topology};

/// A part of the plan that works on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Transform(usize),
    Operator(usize),
    /// The writers of an edge, then each level of its splitters.
    Split {
        edge: usize,
        stage: usize,
    },
}

/// The work of one transform or operator so far, on all workers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Its name in the plan.
    pub name: String,
    /// Worker time, without the splitting of its output.
    pub time_ns: u64,
    /// Rows that it received.
    pub rows_in: u64,
    /// Rows that it wrote.
    pub rows_out: u64,
    /// About how many bytes of memory its state takes, see [`Operator::state_bytes`](tidemill_core::Operator::state_bytes).
    pub state_bytes: u64,
    /// The part of `time_ns` that each worker of this process has spent; empty for transforms.
    pub by_worker_ns: Vec<u64>,
    /// How long a worker has been working on the cycle that it has not finished, the longest of them; 0 if none works. It is not
    /// in `time_ns` yet.
    pub running_ns: u64,
}

/// The work of all parts. Written per batch, never per row.
pub(crate) struct WorkTable {
    transforms: Vec<Entry>,
    operators: Vec<Entry>,
    /// By edge and stage.
    splits: Vec<Vec<Entry>>,
}

struct Entry {
    name: String,
    time_ns: AtomicU64,
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    state_bytes: AtomicU64,
    /// Of an operator: its workers in this process.
    workers: Vec<WorkerTime>,
}

#[derive(Default)]
struct WorkerTime {
    time_ns: AtomicU64,
    /// When it began with the cycle on which it works; 0: it works on none.
    begun_ns: AtomicU64,
}

impl WorkTable {
    pub fn new(topology: &Topology) -> Self {
        let plan = &topology.plan;
        let stages = |edge: &Edge| match &edge.kind {
            EdgeKind::Split(split) => (0..=split.levels).map(|_| Entry::new("")).collect(),
            EdgeKind::Whole { .. } | EdgeKind::Empty => Vec::new(),
        };
        WorkTable {
            transforms: plan.transforms.iter().map(|transform| Entry::new(&transform.name)).collect(),
            operators: plan
                .operators
                .iter()
                .map(|operator| Entry {
                    workers: (0..topology.layout.workers).map(|_| WorkerTime::default()).collect(),
                    ..Entry::new(&operator.name)
                })
                .collect(),
            splits: topology.edges.iter().map(stages).collect(),
        }
    }

    fn entry(&self, part: Part) -> &Entry {
        match part {
            Part::Transform(index) => &self.transforms[index],
            Part::Operator(index) => &self.operators[index],
            Part::Split { edge, stage } => &self.splits[edge][stage],
        }
    }

    pub fn add(&self, part: Part, time_ns: u64, rows_in: u64, rows_out: u64) {
        let entry = self.entry(part);
        // Figures for people: no other memory depends on them.
        entry.time_ns.fetch_add(time_ns, Ordering::Relaxed);
        entry.rows_in.fetch_add(rows_in, Ordering::Relaxed);
        entry.rows_out.fetch_add(rows_out, Ordering::Relaxed);
    }

    /// A worker begins with a cycle of an operator.
    pub fn begin(&self, operator: usize, worker: u32, now_ns: u64) {
        if let Some(worker) = self.operators[operator].worker(worker) {
            worker.begun_ns.store(now_ns.max(1), Ordering::Relaxed);
        }
    }

    /// A worker is done with a cycle of an operator.
    pub fn end(&self, operator: usize, worker: u32, time_ns: u64, (rows_in, rows_out): (u64, u64)) {
        self.add(Part::Operator(operator), time_ns, rows_in, rows_out);
        if let Some(worker) = self.operators[operator].worker(worker) {
            worker.time_ns.fetch_add(time_ns, Ordering::Relaxed);
            worker.begun_ns.store(0, Ordering::Relaxed);
        }
    }

    /// The state of an operator on one worker has changed from this many bytes to this many; returns the bytes of all workers
    /// of this process.
    pub fn change_state(&self, operator: usize, from: u64, to: u64) -> u64 {
        // A difference that wraps counts down.
        let change = to.wrapping_sub(from);
        self.operators[operator].state_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// The work of a part.
    pub fn read(&self, part: Part) -> Work {
        self.entry(part).read()
    }

    /// Resets the work of the splits of an edge.
    pub fn forget_splits(&self, edge: usize) {
        for entry in &self.splits[edge] {
            for count in [&entry.time_ns, &entry.rows_in, &entry.rows_out] {
                count.store(0, Ordering::Relaxed);
            }
        }
    }

    fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        let entries = self.transforms.iter().chain(&self.operators).chain(self.splits.iter().flatten());
        entries.flat_map(|entry| [&entry.time_ns, &entry.rows_in, &entry.rows_out, &entry.state_bytes])
    }

    /// All counts, for another process.
    pub fn values(&self) -> Vec<u64> {
        self.counts().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Adds the counts of another process; `false` if they do not match this plan.
    pub fn add_values(&self, values: &[u64]) -> bool {
        if values.len() != self.counts().count() {
            return false;
        }
        self.counts().zip(values).for_each(|(count, value)| {
            count.fetch_add(*value, Ordering::Relaxed);
        });
        true
    }

    /// The transforms, then the operators, each in the plan's order.
    pub fn list(&self, now_ns: u64) -> Vec<Work> {
        let running_ns = |entry: &Entry| {
            let begun = entry.workers.iter().map(|worker| worker.begun_ns.load(Ordering::Relaxed));
            begun.filter(|begun_ns| *begun_ns > 0).min().map_or(0, |begun_ns| now_ns.saturating_sub(begun_ns))
        };
        let all = self.transforms.iter().chain(&self.operators);
        all.map(|entry| Work { running_ns: running_ns(entry), ..entry.read() }).collect()
    }
}

impl Entry {
    fn new(name: &str) -> Self {
        let zero = || AtomicU64::new(0);
        Entry {
            name: name.to_string(),
            time_ns: zero(),
            rows_in: zero(),
            rows_out: zero(),
            state_bytes: zero(),
            workers: Vec::new(),
        }
    }

    /// A worker by its number among those of all processes; each process has as many.
    fn worker(&self, worker: u32) -> Option<&WorkerTime> {
        self.workers.get(worker as usize % self.workers.len().max(1))
    }

    fn read(&self) -> Work {
        Work {
            name: self.name.clone(),
            time_ns: self.time_ns.load(Ordering::Relaxed),
            rows_in: self.rows_in.load(Ordering::Relaxed),
            rows_out: self.rows_out.load(Ordering::Relaxed),
            state_bytes: self.state_bytes.load(Ordering::Relaxed),
            by_worker_ns: self.workers.iter().map(|worker| worker.time_ns.load(Ordering::Relaxed)).collect(),
            running_ns: 0,
        }
    }
}
