//! The input of a measurement: tuples, the routing function, and the profile of splitting them.

use std::sync::Arc;

use tidemill_engine::{
    Batch, Clock, Prediction, Route, SplitPlan, SplitProfile, ThreadTime, predict, profile,
};

use crate::Arguments;
use crate::measure::{Measured, Run, measure};
use crate::tuples::{self, TUPLE_BYTES};

pub const BATCH_ROWS: usize = 8192;
/// Together 32 MiB: more than the second-level caches.
pub const BATCHES: usize = (32 << 20) / (BATCH_ROWS * TUPLE_BYTES);

/// A full cycle.
pub const BATCHES_OF_A_CYCLE: usize = 32_768 / BATCH_ROWS;

/// A plan's best run, and how far all runs were from the model.
pub struct Compared {
    pub prediction: Prediction,
    pub measured: Measured,
    /// For each stage of splitters, measured over predicted cost: the median of the runs, because the best run is best
    /// by chance, even compared with its model.
    pub ratios: Vec<f64>,
}

/// What is measured.
pub struct Input {
    pub batches: Vec<Batch>,
    pub profile: SplitProfile,
    route: Arc<Route>,
    partitions: u32,
    columns_read: usize,
}

impl Input {
    /// Tuples for this many partitions, of which the share `broadcast` goes to all; with the costs of splitting them,
    /// and of the query that takes them on this many workers.
    pub fn new(
        partitions: u32,
        broadcast: f64,
        workers: usize,
        arguments: &Arguments,
    ) -> anyhow::Result<Self> {
        let batches = tuples::batches(BATCHES, BATCH_ROWS, partitions, broadcast);
        let route = if broadcast > 0.0 { tuples::route() } else { tuples::route_only() };
        let profile = profile_of(&batches, &route, partitions, workers)?;
        let columns_read = arguments.columns_read as usize;
        let input = Input { batches, route, profile, partitions, columns_read };
        let query_ns =
            input.measure(&SplitPlan::parasplit(partitions, workers as u32), workers, 64)?.query_ns;
        Ok(Input { profile: profile.with_query_ns(query_ns), ..input })
    }

    /// The best of several runs, each of about the requested time if the rate is about this: the highest rate, and the
    /// costs of the cheapest run.
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

    /// The same, with the predictions of profiles each taken just before a run, because the machine becomes faster and
    /// slower.
    pub fn best_beside_model(&mut self, plan: &SplitPlan, arguments: &Arguments) -> anyhow::Result<Compared> {
        let mut best: Option<(Prediction, Measured)> = None;
        let mut ratios = Vec::new();
        for _ in 0..arguments.runs {
            let profile = profile_of(&self.batches, &self.route, self.partitions, arguments.workers)?;
            self.profile = profile.with_query_ns(self.profile.query_ns);
            let prediction = predict(plan.clone(), &self.profile, arguments.workers as u32);
            let measured = self.measure(plan, arguments.workers, pushes(prediction.rate_max, arguments))?;
            ratios.push(stage_ratios(&prediction, &measured));
            best = Some(match best {
                None => (prediction, measured),
                Some((known, run)) => {
                    let known = if measured.splitting_ns() < run.splitting_ns() { prediction } else { known };
                    (known, run.or(measured))
                }
            });
        }
        let (prediction, measured) = best.expect("there is at least one run");
        Ok(Compared { prediction, measured, ratios: medians(&ratios) })
    }

    fn measure(&self, split: &SplitPlan, workers: usize, pushes: usize) -> anyhow::Result<Measured> {
        let Input { batches, route, partitions, columns_read, .. } = self;
        let (partitions, columns_read) = (*partitions, *columns_read);
        measure(&Run { batches, route, split, partitions, workers, pushes, columns_read })
    }
}

/// How many batches take about the requested time at a rate.
fn pushes(rate: f64, arguments: &Arguments) -> usize {
    ((rate * arguments.seconds / BATCH_ROWS as f64) as usize).clamp(16, 100_000)
}

/// Without the window router, whose cost is negligible.
fn stage_ratios(prediction: &Prediction, measured: &Measured) -> Vec<f64> {
    let model_ns =
        |name: &str| prediction.stages.iter().find(|stage| stage.name == name).map(|stage| stage.total_ns());
    let ratio =
        |(name, cost_ns): &(String, f64)| model_ns(name).map_or(f64::NAN, |model_ns| cost_ns / model_ns);
    measured.splitters().map(ratio).collect()
}

/// Of each stage, over the runs.
fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let median = |stage: usize| {
        let mut ratios: Vec<f64> = runs.iter().map(|run| run[stage]).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    };
    (0..runs[0].len()).map(median).collect()
}

/// On as many threads as there are workers.
fn profile_of(
    batches: &[Batch],
    route: &Arc<Route>,
    partitions: u32,
    workers: usize,
) -> anyhow::Result<SplitProfile> {
    let columns: Vec<usize> = (0..tuples::columns().len()).collect();
    Ok(profile(batches, route, partitions, &columns, workers as u32, &|| ThreadTime.now_ns())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_energy::Used;
    use tidemill_split::predict::{PredictedStage, QUERY, SPLITTERS, WINDOW_ROUTER};

    #[test]
    fn ratios_are_of_splitters_and_in_the_middle_of_the_runs() {
        let stage = |name: &str, processes, cost_ns| PredictedStage { name: name.into(), processes, cost_ns };
        let stages = vec![stage(WINDOW_ROUTER, 1, 9.0), stage(SPLITTERS, 2, 5.0), stage(QUERY, 4, 1.0)];
        let prediction = Prediction {
            plan: SplitPlan::fsplit(4),
            stages,
            shares_broadcast: false,
            total_ns: 23.0,
            rate_max: 1e8,
        };
        let measured = Measured {
            rate: 1e8,
            events: 1e6,
            used: Used { processor_s: 0.088, joules: None },
            process_ns: 30.0,
            stages: vec![(WINDOW_ROUTER.into(), 1.0), (SPLITTERS.into(), 12.0)],
            operator_ns: 2.0,
            query_ns: 2.0,
        };
        assert_eq!(stage_ratios(&prediction, &measured), [1.2]);
        let runs = [vec![1.0, 9.0], vec![3.0, 7.0], vec![2.0, 8.0]];
        assert_eq!(medians(&runs), [2.0, 8.0]);
    }
}
