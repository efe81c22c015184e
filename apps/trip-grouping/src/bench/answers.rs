//! How soon the engine answers a grouping cycle, minute by minute.

use std::time::{Duration, Instant};

use tidemill_energy::{Meter, Used};
use tidemill_engine::{Cause, Counter, Engine};

use crate::criteria::Criteria;
use crate::partitioner::PartitionerPlan;
use crate::query;
use crate::request::Request;
use crate::run::chunk_of;
use crate::savings::Savings;
use crate::share_file::{ShareFile, Tally};

/// How long the engine took.
#[derive(Clone, Debug)]
pub struct AnswerTimes {
    /// The number of workers.
    pub workers: usize,
    /// The whole day at once, as fast as it goes: from the first request to the last share.
    pub day: Duration,
    /// The energy of the machine, or the processor time of all threads, for the whole day at once.
    pub used: Used,
    /// For each grouping cycle with requests, from its last request to its shares, ascending.
    pub cycles: Vec<Duration>,
    /// The most requests that waited at the end of a cycle.
    pub waiting_max: usize,
    /// What was saved.
    pub savings: Savings,
}

impl AnswerTimes {
    /// The longest that this part of the cycles took.
    pub fn quantile(&self, part: f64) -> Duration {
        let last = self.cycles.len().saturating_sub(1);
        self.cycles.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }
}

/// Runs the query twice from memory: as fast as it goes, and cycle by cycle, each one answered before the next one comes.
/// Requests are in the order of their times.
///
/// # Errors
/// If the query fails.
pub fn answer_times(
    requests: &[Request],
    partitioner: &PartitionerPlan,
    criteria: Criteria,
    workers: usize,
) -> Result<AnswerTimes, Cause> {
    let meter = Meter::start();
    let (day, _, savings) = run(requests.chunks(1024), partitioner, criteria, workers, false)?;
    let used = meter.used();
    let minutes = requests.chunk_by(|a, b| a.requested / criteria.cycle == b.requested / criteria.cycle);
    let (_, mut cycles, of_cycles) = run(minutes, partitioner, criteria, workers, true)?;
    if of_cycles.requests != savings.requests {
        return Err(Cause::bug("the two runs did not serve the same requests"));
    }
    cycles.sort_unstable();
    Ok(AnswerTimes {
        workers,
        day,
        used,
        cycles,
        waiting_max: waiting_max(requests, criteria.cycle),
        savings,
    })
}

/// The time of the whole run and of each part.
fn run<'a>(
    parts: impl Iterator<Item = &'a [Request]>,
    partitioner: &PartitionerPlan,
    criteria: Criteria,
    workers: usize,
    waits: bool,
) -> Result<(Duration, Vec<Duration>, Savings), Cause> {
    // Encoding is the source's work, and not measured.
    let chunks = parts.map(|part| {
        let mut chunk = chunk_of(part)?;
        if waits {
            // All of this cycle is known.
            chunk.watermark = (chunk.watermark.div_euclid(criteria.cycle) + 1) * criteria.cycle;
        }
        Ok(chunk)
    });
    let chunks = chunks.collect::<Result<Vec<_>, Cause>>()?;
    let (tally, mut times) = (Tally::default(), Vec::new());
    let plan = query::plan(partitioner.clone(), criteria)?;
    let sink = ShareFile::without_file(tally.clone());
    let mut running = Engine::new().workers(workers).run(plan, vec![Box::new(sink)])?;
    running.wait_until_ready()?;
    let gateway = running.gateway(0).ok_or_else(|| Cause::bug("the plan has no source"))?;
    let (begin, mut events) = (Instant::now(), 0);
    for chunk in chunks {
        events += u64::from(chunk.events);
        let pushed = Instant::now();
        // If the run has failed, its end says why.
        if gateway.push(chunk).is_err() {
            break;
        }
        while waits && !running.has_failed() && running.status().get(Counter::EventsCommitted) < events {
            std::thread::yield_now();
        }
        times.push(pushed.elapsed());
    }
    drop(gateway);
    running.join()?;
    let mut savings = Savings::default();
    tally.by_hour().iter().for_each(|(_, of_hour)| savings.merge(of_hour));
    Ok((begin.elapsed(), times, savings))
}

/// The most requests that were made and had not expired at the end of a cycle.
fn waiting_max(requests: &[Request], cycle: i64) -> usize {
    let mut expiries: Vec<i64> = requests.iter().map(|request| request.expires).collect();
    expiries.sort_unstable();
    let ends = requests.iter().map(|request| (request.requested / cycle + 1) * cycle);
    let waiting = ends.map(|end| {
        let made = requests.partition_point(|request| request.requested < end);
        made - expiries.partition_point(|expires| *expires < end).min(made)
    });
    waiting.max().unwrap_or(0)
}
