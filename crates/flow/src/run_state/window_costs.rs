//! What cycles cost the busiest worker, for edges whose window is being searched. Each worker writes to a list of its own, per
//! batch and never per row; only the split optimizer reads the lists, once in a while.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::topology::{EdgeKind, Topology};

/// The most cycles that a list has.
const CYCLES_MAX: usize = 256;

pub(crate) struct WindowCosts {
    /// By edge; `None`: its window is never searched.
    edges: Vec<Option<EdgeCosts>>,
}

struct EdgeCosts {
    is_measured: AtomicBool,
    batch_rows: AtomicU32,
    workers: Vec<Mutex<BTreeMap<u64, CycleCost>>>,
}

/// What a cycle has cost a worker, and the rows that it has dealt.
#[derive(Clone, Copy, Default)]
struct CycleCost {
    time_ns: u64,
    rows: u64,
}

impl WindowCosts {
    pub fn new(topology: &Topology) -> WindowCosts {
        let costs_of = |kind: &EdgeKind| match kind {
            EdgeKind::Split(split) if split.searches_window(topology.layout) => Some(EdgeCosts {
                is_measured: AtomicBool::new(false),
                batch_rows: AtomicU32::new(0),
                workers: (0..topology.workers).map(|_| Mutex::default()).collect(),
            }),
            _ => None,
        };
        WindowCosts { edges: topology.edges.iter().map(|edge| costs_of(&edge.kind)).collect() }
    }

    /// Begins to measure an edge, or stops and forgets.
    pub fn measure(&self, edge: usize, is_measured: bool) {
        let Some(costs) = &self.edges[edge] else { return };
        costs.is_measured.store(is_measured, Ordering::Relaxed);
        costs.workers.iter().for_each(|worker| worker.lock().clear());
    }

    pub fn is_measured(&self, edge: usize) -> bool {
        self.edges[edge].as_ref().is_some_and(|costs| costs.is_measured.load(Ordering::Relaxed))
    }

    /// A worker has spent processor time on a cycle.
    pub fn add_time(&self, edge: usize, worker: usize, cycle: u64, time_ns: u64) {
        self.add(edge, worker, cycle, CycleCost { time_ns, rows: 0 });
    }

    /// A worker has dealt a batch of a cycle.
    pub fn add_batch(&self, edge: usize, worker: usize, cycle: u64, time_ns: u64, rows: u64) {
        if let Some(costs) = &self.edges[edge] {
            costs.batch_rows.fetch_max(rows as u32, Ordering::Relaxed);
        }
        self.add(edge, worker, cycle, CycleCost { time_ns, rows });
    }

    fn add(&self, edge: usize, worker: usize, cycle: u64, more: CycleCost) {
        if !self.is_measured(edge) {
            return;
        }
        let Some(costs) = &self.edges[edge] else { return };
        let mut cycles = costs.workers[worker].lock();
        let cost = cycles.entry(cycle).or_default();
        cost.time_ns += more.time_ns;
        cost.rows += more.rows;
        if cycles.len() > CYCLES_MAX {
            cycles.pop_first();
        }
    }

    /// The largest batch so far.
    pub fn batch_rows(&self, edge: usize) -> u32 {
        self.edges[edge].as_ref().map_or(0, |costs| costs.batch_rows.load(Ordering::Relaxed))
    }

    /// Takes out the cycles below `end`, which are complete. Returns what those from `begin` on with enough rows have cost the
    /// busiest worker, in nanoseconds per row.
    pub fn take(&self, edge: usize, begin: u64, end: u64, rows_min: u64) -> Vec<f64> {
        let Some(costs) = &self.edges[edge] else { return Vec::new() };
        let mut busiest: BTreeMap<u64, CycleCost> = BTreeMap::new();
        for worker in &costs.workers {
            let mut cycles = worker.lock();
            let later = cycles.split_off(&end);
            for (cycle, cost) in std::mem::replace(&mut *cycles, later) {
                let all = busiest.entry(cycle).or_default();
                all.rows += cost.rows;
                all.time_ns = all.time_ns.max(cost.time_ns);
            }
        }
        let counted = busiest.range(begin..).filter(|(_, cost)| cost.rows >= rows_min);
        counted.map(|(_, cost)| cost.time_ns as f64 / cost.rows as f64).collect()
    }
}
