//! Costs that are measured while a query runs, and kept for the next run.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_engine::CycleCosts;
use tidemill_engine::analysis::CostModel;

use crate::cost_profiles::CostProfiles;

/// How many cycles are measured before the analysis relies on them.
const CYCLES_MIN: u64 = 64;

/// What is measured, and where it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// By how much what was measured is multiplied.
    pub margin: f64,
    pub key: String,
    /// `None`: it is not kept.
    pub file: Option<PathBuf>,
    /// What earlier runs have measured.
    pub known: CycleCosts,
}

impl Measurement {
    /// What is known under a key.
    pub fn of(key: String, file: Option<PathBuf>, margin: f64) -> Measurement {
        let known = file.as_deref().map(CostProfiles::read).and_then(|profiles| profiles.get(&key));
        Measurement { margin, key, file, known: known.unwrap_or_default() }
    }

    /// What earlier runs and this one have measured.
    pub fn with(&self, costs: &CycleCosts) -> CycleCosts {
        let mut all = costs.clone();
        all.merge(&self.known);
        all
    }

    /// How many more cycles must be measured, after these.
    pub fn cycles_left(&self, costs: &CycleCosts) -> u64 {
        CYCLES_MIN.saturating_sub(costs.cycles)
    }

    /// What the analysis may count for a batch, once enough is measured: nowhere less than the worst cases times the margin. Those
    /// that are low for a burst come first.
    pub fn models(&self, costs: &CycleCosts, burst: u64) -> Vec<CostModel> {
        if self.cycles_left(costs) > 0 {
            return Vec::new();
        }
        // Rounded up to microseconds: clocks are not more precise.
        let with_margin = |cost: Duration| (cost.as_nanos() as f64 * self.margin / 1e3).ceil() as u64 * 1000;
        let worst = costs.worst_cases().into_iter();
        let points: Vec<_> = worst.map(|(events, cost)| (events, with_margin(cost))).collect();
        CostModel::above(&points, burst)
    }

    /// Keeps costs for the next run. If they cannot be kept, they are measured again.
    pub fn keep(&self, costs: &CycleCosts) {
        if let Some(file) = self.file.as_deref().filter(|_| costs.cycles > 0) {
            let _ = CostProfiles::add_to(file, [(self.key.clone(), costs.clone())]);
        }
    }
}
