//! The input of a measurement: tuples, the routing function, and the profile of splitting them.

use std::sync::Arc;

use tidemill_engine::{Batch, Clock, Prediction, Route, SplitPlan, SplitProfile, predict, profile};

use crate::Arguments;
use crate::cpu_clock::CpuClock;
use crate::measure::{Measured, Run, measure};
use crate::tuples::{self, TUPLE_BYTES};

pub const BATCH_ROWS: usize = 8192;
/// Together 32 MiB: more than the second-level caches.
pub const BATCHES: usize = (32 << 20) / (BATCH_ROWS * TUPLE_BYTES);

/// A full cycle.
pub const BATCHES_OF_A_CYCLE: usize = 32_768 / BATCH_ROWS;

/// What is measured.
pub struct Input {
    pub batches: Vec<Batch>,
    pub profile: SplitProfile,
    route: Arc<Route>,
    partitions: u32,
}

impl Input {
    /// Tuples for so many partitions, of which the part `broadcast` goes to all; with the costs of splitting them,
    /// and of the query that takes them on so many workers.
    pub fn new(partitions: u32, broadcast: f64, workers: usize) -> anyhow::Result<Self> {
        let batches = tuples::batches(BATCHES, BATCH_ROWS, partitions, broadcast);
        let route = if broadcast > 0.0 { tuples::route() } else { tuples::route_only() };
        let profile = profile_of(&batches, &route, partitions)?;
        let input = Input { batches, route, profile, partitions };
        let query_ns =
            input.measure(&SplitPlan::parasplit(partitions, workers as u32), workers, 64)?.query_ns;
        Ok(Input { profile: profile.with_query_ns(query_ns), ..input })
    }

    /// The best of several runs, each of about the asked time if the rate is about this: the highest rate, and the
    /// costs of the run that cost least.
    pub fn best(
        &self,
        plan: &SplitPlan,
        workers: usize,
        rate: f64,
        arguments: &Arguments,
    ) -> anyhow::Result<Measured> {
        let pushes = pushes(rate, arguments);
        let mut best = self.measure(plan, workers, pushes)?;
        for _ in 1..arguments.runs {
            best = best.or(self.measure(plan, workers, pushes)?);
        }
        Ok(best)
    }

    /// The same, with what the model says by a profile taken just before that run, for the machine becomes faster and
    /// slower.
    pub fn best_beside_model(
        &mut self,
        plan: &SplitPlan,
        arguments: &Arguments,
    ) -> anyhow::Result<(Prediction, Measured)> {
        let mut best: Option<(Prediction, Measured)> = None;
        for _ in 0..arguments.runs {
            let profile = profile_of(&self.batches, &self.route, self.partitions)?;
            self.profile = profile.with_query_ns(self.profile.query_ns);
            let prediction = predict(plan.clone(), &self.profile, arguments.workers as u32);
            let measured = self.measure(plan, arguments.workers, pushes(prediction.rate_max, arguments))?;
            best = Some(match best {
                None => (prediction, measured),
                Some((known, run)) => {
                    let known = if measured.splitting_ns() < run.splitting_ns() { prediction } else { known };
                    (known, run.or(measured))
                }
            });
        }
        Ok(best.expect("there is at least one run"))
    }

    fn measure(&self, split: &SplitPlan, workers: usize, pushes: usize) -> anyhow::Result<Measured> {
        let (batches, route, partitions) = (&self.batches[..], &self.route, self.partitions);
        measure(&Run { batches, route, split, partitions, workers, pushes })
    }
}

/// How many batches take about the asked time at a rate.
fn pushes(rate: f64, arguments: &Arguments) -> usize {
    ((rate * arguments.seconds / BATCH_ROWS as f64) as usize).clamp(16, 100_000)
}

fn profile_of(batches: &[Batch], route: &Arc<Route>, partitions: u32) -> anyhow::Result<SplitProfile> {
    let columns: Vec<usize> = (0..tuples::columns().len()).collect();
    Ok(profile(batches, route, partitions, &columns, &|| CpuClock.now_ns())?)
}
