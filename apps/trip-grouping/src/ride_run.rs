//! Runs ride sharing over a file of requests and a file of offers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_engine::{Cause, Chunk, Status};

use crate::hour_tally::HourTally;
use crate::partitioner::PartitionerPlan;
use crate::pictures::Pictures;
use crate::query;
use crate::request::Request;
use crate::ride_file::{RideFile, RideSavings};
use crate::ride_sharing::{Offer, Trip};
use crate::run::{CHUNK_REQUESTS, ShownHours, check_not_replaced, drive};
use crate::schema;
use crate::trip_file::{BadLines, no_record};
use crate::trip_reader::TripReader;

/// What to run.
#[derive(Clone, Debug)]
pub struct RideRunOptions {
    /// The file of requests.
    pub requests: PathBuf,
    /// The file of offers.
    pub offers: PathBuf,
    /// The file of rides; `None`: they are only summed up.
    pub out: Option<PathBuf>,
    /// The folder for a picture of each hour; `None`: nothing is drawn.
    pub pictures: Option<PathBuf>,
    /// The number of worker threads.
    pub workers: usize,
    /// How trips are divided into groups.
    pub partitioner: PartitionerPlan,
    /// The grouping cycle: cars leave at its multiples, in seconds.
    pub cycle_s: i64,
}

/// A run at its end.
#[derive(Clone, Debug)]
pub struct RideRunSummary {
    /// What was saved, by the hour in which cars left.
    pub by_hour: Vec<(i64, RideSavings)>,
    /// How many requests were read.
    pub requests: u64,
    /// How many offers were read.
    pub offers: u64,
    /// The engine's counters and response times.
    pub status: Status,
    /// Lines of both inputs that were left out.
    pub bad_lines: BadLines,
    /// Whether the caller stopped the run before its input ended.
    pub stopped: bool,
}

impl RideRunSummary {
    /// What was saved in all.
    pub fn total(&self) -> RideSavings {
        let mut total = RideSavings::default();
        self.by_hour.iter().for_each(|(_, savings)| total.merge(savings));
        total
    }

    /// Owners who left their cars and were taken along.
    pub fn left_cars(&self) -> u64 {
        self.offers.saturating_sub(self.total().cars())
    }
}

/// Reads both files, brings requests and offers together, and writes the rides. Calls `show` with each hour once its cars
/// have left. If `stop` is set, nothing more is read, and those who wait leave or give up at once.
///
/// # Errors
/// If an input cannot be read, there is neither a request nor an offer, or the rides cannot be written.
pub fn run_rides(
    options: &RideRunOptions,
    stop: &AtomicBool,
    mut show: impl FnMut(i64, &RideSavings),
) -> Result<RideRunSummary, Cause> {
    let mut reader = TripReader::open(&options.requests, &options.offers, options.cycle_s)?;
    let mut trips = Vec::new();
    // An input that cannot be read must not cost an earlier run its rides.
    while trips.is_empty() {
        if !reader.read(&mut trips)? && trips.is_empty() {
            return Err(neither(options, &reader.bad_lines()));
        }
    }
    check_not_replaced(options.out.as_deref(), &[&options.requests, &options.offers])?;
    let draws = |folder: &PathBuf| Pictures::create(folder, &options.partitioner);
    let pictures = options.pictures.as_ref().map(draws).transpose()?;
    let tally = HourTally::default();
    let sink = RideFile::new(options.out.as_deref(), tally.clone())?;
    let sink = sink.with_pictures(pictures.clone());
    let plan = query::rides_plan(options.partitioner.clone(), options.cycle_s)?;
    let (mut shown, mut requests, mut offers) = (ShownHours::default(), 0, 0);
    let next = || {
        shown.show_complete(&tally.by_hour(), &mut show);
        while trips.is_empty() {
            if stop.load(Ordering::Relaxed) || (!reader.read(&mut trips)? && trips.is_empty()) {
                return Ok(None);
            }
        }
        let read_offers = trips.iter().filter(|trip| matches!(trip, Trip::Offer(_))).count();
        offers += read_offers as u64;
        requests += (trips.len() - read_offers) as u64;
        if let Some(pictures) = &pictures {
            pictures.request(trips.iter().map(Trip::request));
        }
        let chunks = trips.chunks(CHUNK_REQUESTS).map(chunk_of).collect::<Result<_, _>>()?;
        trips.clear();
        Ok(Some(chunks))
    };
    let status = drive(plan, Box::new(sink), options.workers, next)?;
    pictures.map_or(Ok(()), |pictures| pictures.finish())?;
    let by_hour = tally.by_hour();
    shown.show_all(&by_hour, &mut show);
    let stopped = stop.load(Ordering::Relaxed);
    Ok(RideRunSummary { by_hour, requests, offers, status, bad_lines: reader.bad_lines(), stopped })
}

/// Says which of the two files has bad lines.
fn neither(options: &RideRunOptions, bad_lines: &BadLines) -> Cause {
    let of_requests = no_record::<Request>(&options.requests, bad_lines);
    let of_offers = no_record::<Offer>(&options.offers, &BadLines::default());
    Cause::user(format!("{of_requests}; and {of_offers}"))
}

/// Trips to be pushed into the query's source, with the time of the last one as the watermark.
///
/// # Errors
/// None that is not a bug.
fn chunk_of(trips: &[Trip]) -> Result<Chunk, Cause> {
    Ok(Chunk {
        streams: vec![Some(schema::trips_batch(trips)?)],
        events: trips.len() as u32,
        watermark: trips.last().map_or(i64::MIN, |last| last.request().requested),
        arrived_ns: None,
        idle: false,
    })
}
