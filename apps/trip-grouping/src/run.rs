//! Runs the query over a file of requests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_engine::{Cause, Chunk, Engine, Plan, Sink, Status};

use crate::criteria::Criteria;
use crate::partitioner::PartitionerPlan;
use crate::pictures::Pictures;
use crate::query;
use crate::request::Request;
use crate::savings::Savings;
use crate::schema;
use crate::share_file::{ShareFile, Tally};
use crate::trip_file::{BadLines, TripFile, no_record};

/// Requests that are pushed at once.
pub(crate) const CHUNK_REQUESTS: usize = 1024;

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The file of requests.
    pub input: PathBuf,
    /// The file of shares; `None`: they are only summed up.
    pub out: Option<PathBuf>,
    /// The folder for a picture of each hour; `None`: nothing is drawn.
    pub pictures: Option<PathBuf>,
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
    let mut file = TripFile::<Request>::open(&options.input)?;
    let mut requests = Vec::new();
    // An input that cannot be read must not cost an earlier run its shares.
    while requests.is_empty() {
        if !file.read(&mut requests)? {
            return Err(no_record::<Request>(&options.input, file.bad_lines()));
        }
    }
    check_not_replaced(options.out.as_deref(), &[&options.input])?;
    let draws = |folder: &PathBuf| Pictures::create(folder, &options.partitioner);
    let pictures = options.pictures.as_ref().map(draws).transpose()?;
    let tally = Tally::default();
    let sink = match &options.out {
        Some(path) => ShareFile::create(path, tally.clone())?,
        None => ShareFile::without_file(tally.clone()),
    };
    let sink = sink.with_pictures(pictures.clone());
    let plan = query::plan(options.partitioner.clone(), options.criteria)?;
    let mut shown = ShownHours::default();
    let next = || {
        shown.show_complete(&tally.by_hour(), &mut show);
        if requests.is_empty() && (stop.load(Ordering::Relaxed) || !file.read(&mut requests)?) {
            return Ok(None);
        }
        if let Some(pictures) = &pictures {
            pictures.request(&requests);
        }
        let chunks = requests.chunks(CHUNK_REQUESTS).map(chunk_of).collect::<Result<_, _>>()?;
        requests.clear();
        Ok(Some(chunks))
    };
    let status = drive(plan, Box::new(sink), options.workers, next)?;
    pictures.map_or(Ok(()), |pictures| pictures.finish())?;
    let by_hour = tally.by_hour();
    shown.show_all(&by_hour, &mut show);
    let stopped = stop.load(Ordering::Relaxed);
    Ok(RunSummary { by_hour, status, bad_lines: file.bad_lines().clone(), stopped })
}

/// Which hours were shown already.
#[derive(Default)]
pub(crate) struct ShownHours(usize);

impl ShownHours {
    /// Shows hours that are complete: all but the last one.
    pub(crate) fn show_complete<T>(&mut self, hours: &[(i64, T)], show: &mut impl FnMut(i64, &T)) {
        self.show_all(&hours[..hours.len().saturating_sub(1)], show);
    }

    /// Shows all hours.
    pub(crate) fn show_all<T>(&mut self, hours: &[(i64, T)], show: &mut impl FnMut(i64, &T)) {
        for (hour, sums) in hours.iter().skip(self.0) {
            show(*hour, sums);
            self.0 += 1;
        }
    }
}

/// Runs a plan with one source. `next` gives its chunks, until there are none.
pub(crate) fn drive(
    plan: Plan,
    sink: Box<dyn Sink>,
    workers: usize,
    mut next: impl FnMut() -> Result<Option<Vec<Chunk>>, Cause>,
) -> Result<Status, Cause> {
    let mut running = Engine::new().workers(workers).run(plan, vec![sink])?;
    let gateway = running.gateway(0).ok_or_else(|| Cause::bug("the plan has no source"))?;
    'input: while let Some(chunks) = next()? {
        for chunk in chunks {
            // If the run has failed, its end says why.
            if gateway.push(chunk).is_err() {
                break 'input;
            }
        }
    }
    drop(gateway);
    Ok(running.join()?)
}

impl RunSummary {
    /// What was saved in all.
    pub fn total(&self) -> Savings {
        let mut total = Savings::default();
        self.by_hour.iter().for_each(|(_, savings)| total.merge(savings));
        total
    }
}

/// What comes out must not be written to a file that is read.
pub(crate) fn check_not_replaced(out: Option<&Path>, inputs: &[&Path]) -> Result<(), Cause> {
    let place = |path: &Path| path.canonicalize().ok();
    let Some((out, at)) = out.and_then(|out| Some((out, place(out)?))) else { return Ok(()) };
    if inputs.iter().any(|input| place(input).as_ref() == Some(&at)) {
        let out = out.display();
        Err(Cause::user(format!("{out} is an input, and the output would overwrite it; choose another file")))
    } else {
        Ok(())
    }
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
