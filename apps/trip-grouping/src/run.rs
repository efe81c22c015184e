//! Runs the query over a file of requests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_engine::{Cause, Chunk, Engine, Gateway, Status};

use crate::criteria::Criteria;
use crate::partitioner::PartitionerPlan;
use crate::query;
use crate::request::Request;
use crate::request_file::{BadLines, RequestFile, no_request};
use crate::savings::Savings;
use crate::schema;
use crate::share_file::{ShareFile, Tally};

/// Requests that are pushed at once.
const CHUNK_REQUESTS: usize = 1024;

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The file of requests.
    pub input: PathBuf,
    /// The file of shares; `None`: they are only summed up.
    pub out: Option<PathBuf>,
    /// The number of worker threads.
    pub workers: usize,
    /// How requests are divided into groups.
    pub partitioner: PartitionerPlan,
    /// What a share must fulfil.
    pub criteria: Criteria,
}

/// A run at its end.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// What was saved, by the hour in which shares were made.
    pub by_hour: Vec<(i64, Savings)>,
    /// The engine's counters and response times.
    pub status: Status,
    /// Lines of the input that were left out.
    pub bad_lines: BadLines,
    /// Whether the caller stopped the run before its input ended.
    pub stopped: bool,
}

/// Reads the file, groups its requests, and writes their shares. Calls `show` with each hour once its shares are made.
/// If `stop` is set, nothing more is read, and those who wait are grouped at once.
///
/// # Errors
/// If the input cannot be read or has no request, or the shares cannot be written.
pub fn run(
    options: &RunOptions,
    stop: &AtomicBool,
    mut show: impl FnMut(i64, &Savings),
) -> Result<RunSummary, Cause> {
    let mut file = RequestFile::open(&options.input)?;
    let mut requests = Vec::new();
    // An input that cannot be read must not cost an earlier run its shares.
    while requests.is_empty() {
        if !file.read(&mut requests)? {
            return Err(no_request(&options.input, file.bad_lines()));
        }
    }
    check_not_replaced(options)?;
    let tally = Tally::default();
    let sink = match &options.out {
        Some(path) => ShareFile::create(path, tally.clone())?,
        None => ShareFile::without_file(tally.clone()),
    };
    let plan = query::plan(options.partitioner.clone(), options.criteria)?;
    let mut running = Engine::new().workers(options.workers).run(plan, vec![Box::new(sink)])?;
    let gateway = running.gateway(0).ok_or_else(|| Cause::bug("the plan has no source"))?;
    let mut shown = 0;
    loop {
        // If the run has failed, its end says why.
        if push(&gateway, &requests).is_err() {
            break;
        }
        requests.clear();
        let hours = tally.by_hour();
        // The last one may not be complete.
        for (hour, savings) in &hours[shown..hours.len().saturating_sub(1).max(shown)] {
            show(*hour, savings);
            shown += 1;
        }
        if stop.load(Ordering::Relaxed) || !file.read(&mut requests)? {
            break;
        }
    }
    drop(gateway);
    let status = running.join()?;
    let by_hour = tally.by_hour();
    by_hour[shown.min(by_hour.len())..].iter().for_each(|(hour, savings)| show(*hour, savings));
    let stopped = stop.load(Ordering::Relaxed);
    Ok(RunSummary { by_hour, status, bad_lines: file.bad_lines().clone(), stopped })
}

impl RunSummary {
    /// What was saved in all.
    pub fn total(&self) -> Savings {
        let mut total = Savings::default();
        self.by_hour.iter().for_each(|(_, savings)| total.merge(savings));
        total
    }
}

/// Shares must not be written to the file that is read.
fn check_not_replaced(options: &RunOptions) -> Result<(), Cause> {
    let same = |out: &PathBuf| {
        let (out, input) = (out.canonicalize().ok(), options.input.canonicalize().ok());
        out.is_some() && out == input
    };
    match options.out.as_ref().filter(|out| same(out)) {
        Some(out) => {
            let out = out.display();
            Err(Cause::user(format!(
                "{out} is the input, and the shares would overwrite it; choose another file"
            )))
        }
        None => Ok(()),
    }
}

fn push(gateway: &Gateway, requests: &[Request]) -> Result<(), Cause> {
    for requests in requests.chunks(CHUNK_REQUESTS) {
        gateway.push(chunk_of(requests)?).map_err(|error| Cause::operation(error.to_string()))?;
    }
    Ok(())
}

/// Requests to be pushed into the query's source, with the time of the last one as the watermark.
///
/// # Errors
/// None that is not a bug.
pub fn chunk_of(requests: &[Request]) -> Result<Chunk, Cause> {
    Ok(Chunk {
        streams: vec![Some(schema::batch_of(requests)?)],
        events: requests.len() as u32,
        watermark: requests.last().map_or(i64::MIN, |last| last.requested),
        arrived_ns: None,
        idle: false,
    })
}
