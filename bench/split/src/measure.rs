//! One run of the engine: source, split, an operator that only looks at the numbers, sink.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::ensure;
use parking_lot::Mutex;
use tidemill_energy::{Meter, Used};
use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{
    Batch, Cause, Chunk, Cut, CycleOutput, CyclePolicy, Engine, Operator, OperatorPlan, Output, Plan, Route,
    Rows, Sink, SnapshotReader, SnapshotWriter, SplitPlan, ThreadTime,
};

use crate::tuples::{NUMBER, Tally, columns, expected, schema};

/// What to run.
pub struct Run<'a> {
    pub batches: &'a [Batch],
    pub route: &'a Arc<Route>,
    pub split: &'a SplitPlan,
    pub partitions: u32,
    pub workers: usize,
    /// How many batches are pushed.
    pub pushes: usize,
    /// How many columns the operator reads.
    pub columns_read: usize,
}

/// The result of a run.
pub struct Measured {
    /// Events per second.
    pub rate: f64,
    /// How many events it was.
    pub events: f64,
    /// What all of it used.
    pub used: Used,
    /// Processor time of all threads, per event, including the feeding thread, the exchange and the sink.
    pub process_ns: f64,
    /// Worker time of each stage of the split, of all workers, per event.
    pub stages: Vec<(String, f64)>,
    /// Worker time of the operator, of all workers, per event.
    pub operator_ns: f64,
    /// The same per row that a partition was given.
    pub query_ns: f64,
}

impl Measured {
    /// The costs of the cheaper of two runs, and the higher of their rates.
    pub fn or(self, other: Measured) -> Measured {
        let rate = self.rate.max(other.rate);
        let cheaper = if other.splitting_ns() < self.splitting_ns() { other } else { self };
        Measured { rate, ..cheaper }
    }

    /// All splitting, per event.
    pub fn splitting_ns(&self) -> f64 {
        self.stages.iter().map(|(_, cost_ns)| cost_ns).sum()
    }

    /// Tuples per joule, or per second of a processor.
    pub fn energy(&self) -> String {
        self.used.yield_of(self.events)
    }

    /// All window routers, per event.
    pub fn routing_ns(&self) -> f64 {
        self.stages.iter().filter(|(name, _)| name.contains("router")).map(|(_, cost_ns)| cost_ns).sum()
    }

    /// The stages that split, rather than pass on windows.
    pub fn splitters(&self) -> impl Iterator<Item = &(String, f64)> {
        self.stages.iter().filter(|(name, _)| !name.contains("router"))
    }
}

/// All partitions' tallies, written when the input has ended.
type Tallies = Arc<Mutex<Vec<Tally>>>;

struct Look {
    partition: u32,
    columns_read: usize,
    tally: Tally,
    tallies: Tallies,
}

impl Operator for Look {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.tally.add(rows.column::<UInt32Type>(NUMBER));
        for column in 0..self.columns_read - 1 {
            let values = rows.column::<UInt32Type>(column).iter();
            std::hint::black_box(values.fold(0, |sum: u32, value| sum.wrapping_add(*value)));
        }
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.tallies.lock()[self.partition as usize] = self.tally;
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Runs it; wrong answers are an error.
pub fn measure(run: &Run<'_>) -> anyhow::Result<Measured> {
    let tallies: Tallies = Arc::new(Mutex::new(vec![Tally::default(); run.partitions as usize]));
    // This clock cannot tell whether a cycle has waited its share.
    let cycles = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
    let engine = Engine::new().workers(run.workers).cycles(cycles).clock(Arc::new(ThreadTime));
    let mut running = engine.run(plan(run, &tallies), vec![Box::new(Nowhere)])?;
    let gateway = running.gateway(0).expect("the plan has a source");
    running.wait_until_ready()?;
    let (start, meter) = (std::time::Instant::now(), Meter::start());
    let mut times = vec![0; run.batches.len()];
    for push in 0..run.pushes {
        let place = push % run.batches.len();
        times[place] += 1;
        let batch = run.batches[place].clone();
        let events = batch.len() as u32;
        gateway.push(Chunk {
            streams: vec![Some(batch)],
            events,
            watermark: 0,
            // Not by the clock: this one counts processor time, which the kernel reports slowly.
            arrived_ns: Some(0),
            idle: false,
        })?;
    }
    drop(gateway);
    let summary = running.join()?;
    let (elapsed_s, used) = (start.elapsed().as_secs_f64(), meter.used());
    let tallies = std::mem::take(&mut *tallies.lock());
    ensure!(tallies == expected(run.batches, &times, run.partitions), "the partitions got other rows");
    let events = (run.pushes * run.batches[0].len()) as f64;
    let stages = summary.splits[0].stages.iter();
    let operator = &summary.work[0];
    Ok(Measured {
        rate: events / elapsed_s,
        events,
        used,
        process_ns: used.processor_s * 1e9 / events,
        stages: stages.map(|stage| (stage.name.clone(), stage.time_ns as f64 / events)).collect(),
        operator_ns: operator.time_ns as f64 / events,
        query_ns: operator.time_ns as f64 / operator.rows_in.max(1) as f64,
    })
}

fn plan(run: &Run<'_>, tallies: &Tallies) -> Plan {
    let mut plan = Plan::new("split");
    let input = plan.source("input", [schema()]);
    let (tallies, columns_read) = (Arc::clone(tallies), run.columns_read);
    let look = move |partition| {
        let (tally, tallies) = (Tally::default(), Arc::clone(&tallies));
        Box::new(Look { partition, columns_read, tally, tallies }) as Box<dyn Operator>
    };
    let operator = OperatorPlan::new("look", run.partitions, look)
        .input(input[0], columns(), Arc::clone(run.route))
        .split(run.split.clone())
        .output(schema());
    let output = plan.operator(operator);
    plan.sink("nowhere", output);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuples;

    fn run_tiny(route: &Arc<Route>, split: &SplitPlan) -> anyhow::Result<Measured> {
        let batches = tuples::batches(3, 300, 5, 0.1);
        measure(&Run {
            batches: &batches,
            route,
            split,
            partitions: 5,
            workers: 2,
            pushes: 7,
            columns_read: 16,
        })
    }

    #[test]
    fn every_plan_gives_the_right_answers_and_each_stage_its_costs() {
        let plans = [(SplitPlan::parasplit(5, 2), 1), (SplitPlan::fsplit(5), 2), (SplitPlan::exptree(5), 3)];
        for (plan, stages) in plans {
            let measured = run_tiny(&tuples::route(), &plan).unwrap();
            assert_eq!(measured.stages.len(), stages, "{plan}");
            assert!(measured.rate > 0.0 && measured.splitting_ns() > 0.0 && measured.query_ns > 0.0);
        }
    }

    #[test]
    fn wrong_answers_are_an_error() {
        let wrong: Arc<Route> = tidemill_engine::route_by_value::<UInt32Type>(4).into();
        let error = run_tiny(&wrong, &SplitPlan::fsplit(5)).err().unwrap();
        assert!(error.to_string().contains("other rows"));
    }
}
