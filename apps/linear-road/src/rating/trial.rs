//! One trial: the window at a pace, with a number of expressways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_engine::{Clock, CyclePolicy, Engine, Gateway, Limits, Status, SystemClock};

use super::base_group::{BaseGroup, RatingError};
use super::check::CopyCheck;
use super::clone::ClonedState;
use super::sink::RatingSink;
use super::{feeder, memory};
use crate::InputSplit;
use crate::answers::KINDS;
use crate::answers::tally::{Counts, Tally};
use crate::query::{self, Partitions};

/// How fast the window is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At its true rates: each report falls due at its moment, whether the engine keeps up or not.
    Real,
    /// As fast as the engine takes it.
    Max,
}

/// The settings of a trial.
#[derive(Clone, Debug)]
pub struct TrialOptions {
    /// Expressways; rounded up to whole copies of the base group.
    pub expressways: u16,
    /// Worker threads.
    pub workers: usize,
    /// Seconds of the window.
    pub seconds: usize,
    /// How fast.
    pub pace: Pace,
    /// At real pace, how often a second the driver delivers what has fallen due.
    pub ticks_per_second: usize,
    /// One copy out of this many is checked in full.
    pub check_every: u16,
    /// When cycles close.
    pub cycles: CyclePolicy,
    /// How the inputs of the operators are split.
    pub split: InputSplit,
    /// Set from outside to abort the trial.
    pub stop: Arc<AtomicBool>,
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// Expressways served.
    pub expressways: u32,
    /// Events fed, mostly position reports.
    pub events: u64,
    /// Seconds from the first event to the last commit.
    pub elapsed_s: f64,
    /// Answers by kind.
    pub counts: Counts,
    /// Counters and response times of the engine.
    pub status: Status,
    /// Answers of checked copies that were wrong, missing, and compared.
    pub wrong: u64,
    /// Answers of checked copies that never came.
    pub missing: u64,
    /// Answers that were compared.
    pub checked: u64,
    /// Bytes of answers, and their checksum.
    pub answer_bytes: u64,
    /// Checksum of all answers.
    pub checksum: u32,
    /// The furthest that the driver fell behind its schedule, because the engine held it back or no core was available.
    pub driver_late_max: Duration,
    /// Seconds that it took to clone the state.
    pub clone_s: f64,
    /// The most memory that the process has used, in bytes; 0 if the system does not report it.
    pub memory_peak_bytes: u64,
    /// Cars on the road and accounts, over all expressways.
    pub accounts: u64,
}

impl TrialResult {
    /// Whether every answer was right and in time.
    pub fn is_valid(&self) -> bool {
        self.wrong == 0 && self.missing == 0 && self.counts.kinds.iter().all(|kind| kind.late == 0)
    }

    /// Events per second.
    pub fn events_per_second(&self) -> f64 {
        self.events as f64 / self.elapsed_s
    }
}

/// Once the driver is this late, so are all answers: the trial has failed and need not continue.
const HOPELESS_NS: u64 = 12_000_000_000;
/// Events per chunk at the largest pace.
const EVENTS_PER_CHUNK: usize = 32_768;

/// Runs a trial. `progress` receives the seconds done and the status.
///
/// # Errors
/// If the options are out of range, or the engine fails.
pub fn run_trial(
    base: &BaseGroup,
    options: &TrialOptions,
    mut progress: impl FnMut(usize, &Status),
) -> Result<TrialResult, RatingError> {
    let copies = base.copies_for(options.expressways)?;
    let expressways = u32::from(copies) * u32::from(base.spans.expressways);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = ClonedState { base: Arc::clone(&base.state), spans: base.spans, copies };
    let check = CopyCheck::new(Arc::clone(&base.right), base.spans, copies, options.check_every);
    let (tally, check) = (Tally::default(), Arc::new(Mutex::new(check)));
    let written = Arc::new(Mutex::new((0, 0)));
    let sink = RatingSink {
        tally: tally.clone(),
        check: Arc::clone(&check),
        text: Vec::new(),
        written: Arc::clone(&written),
    };
    let partitions = Partitions { expressways, vehicles: base.vehicle_partitions };
    let mut plan = query::plan(partitions, Arc::new(base.history_of(copies)));
    options.split.set_in(&mut plan);
    let mut running = Engine::new()
        .workers(options.workers)
        .cycles(options.cycles.clone())
        .limits(Limits { gateway_batches_max: 16, ..Limits::default() })
        .clock(Arc::clone(&clock))
        .state(Arc::new(state))
        .run(plan, vec![Box::new(sink)])?;
    let gateway = running.gateway(0).ok_or_else(|| RatingError::Options("no gateway".into()))?;
    // The workers clone the state first; the window begins when they are ready.
    running.wait_until_ready()?;
    let clone_s = clock.now_ns() as f64 / 1e9;

    let start_ns = clock.now_ns();
    let mut driver = Driver { base, options, copies, gateway: &gateway, clock: &clock, start_ns, late_ns: 0 };
    let mut seconds_fed = 0;
    for second in 0..options.seconds.min(base.window.seconds()) {
        if options.stop.load(Ordering::Relaxed) {
            return Err(RatingError::Interrupted);
        }
        driver.feed(second)?;
        seconds_fed = second + 1;
        progress(seconds_fed, &running.status());
        if driver.late_ns > HOPELESS_NS {
            break;
        }
    }
    let driver_late_max = Duration::from_nanos(driver.late_ns);
    drop(gateway);
    let status = running.join()?;
    let elapsed_s = (clock.now_ns() - start_ns) as f64 / 1e9;

    let end = usize::from(base.window.first_second()) + seconds_fed;
    let due: [usize; KINDS] = std::array::from_fn(|kind| {
        base.right.kinds[kind].partition_point(|answer| usize::from(answer.1) < end)
    });
    let check = check.lock();
    let (checksum, answer_bytes) = *written.lock();
    Ok(TrialResult {
        expressways,
        events: status.per_event.count(),
        elapsed_s,
        counts: tally.counts(),
        wrong: check.wrong,
        missing: check.missing(due),
        checked: check.checked(),
        status,
        answer_bytes,
        checksum,
        driver_late_max,
        clone_s,
        memory_peak_bytes: memory::peak_bytes(),
        accounts: base.accounts as u64 * u64::from(copies),
    })
}

struct Driver<'a> {
    base: &'a BaseGroup,
    options: &'a TrialOptions,
    copies: u16,
    gateway: &'a Gateway,
    clock: &'a Arc<dyn Clock>,
    start_ns: u64,
    late_ns: u64,
}

impl Driver<'_> {
    fn feed(&mut self, second: usize) -> Result<(), RatingError> {
        match self.options.pace {
            Pace::Real => self.feed_when_due(second),
            Pace::Max => self.feed_at_once(second),
        }
    }

    /// Whatever falls due within a tick is delivered at its end, and counts as having arrived then.
    fn feed_when_due(&mut self, second: usize) -> Result<(), RatingError> {
        let ticks = self.options.ticks_per_second.max(1);
        for tick in 0..ticks {
            let events = self.base.window.events_of(second, tick, ticks);
            let due_ns = self.start_ns
                + (second as u64 * 1_000_000_000)
                + (tick as u64 + 1) * 1_000_000_000 / ticks as u64;
            let mut chunk = feeder::chunk(&self.base.window, events, self.base.spans, 0..self.copies);
            let now_ns = self.clock.now_ns();
            if now_ns < due_ns {
                thread::sleep(Duration::from_nanos(due_ns - now_ns));
            } else {
                self.late_ns = self.late_ns.max(now_ns - due_ns);
            }
            chunk.arrived_ns = Some(due_ns);
            if chunk.events > 0 {
                self.gateway.push(chunk)?;
            }
        }
        Ok(())
    }

    fn feed_at_once(&mut self, second: usize) -> Result<(), RatingError> {
        let events = self.base.window.events_of(second, 0, 1);
        let in_second = events.len() * usize::from(self.copies);
        let parts = in_second.div_ceil(EVENTS_PER_CHUNK).max(1);
        for part in 0..parts {
            let events = self.base.window.events_of(second, part, parts);
            let chunk = feeder::chunk(&self.base.window, events, self.base.spans, 0..self.copies);
            if chunk.events > 0 {
                self.gateway.push(chunk)?;
            }
        }
        Ok(())
    }
}
