//! What a feed's threads share with its observer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Faults, Progress};
use tidemill_flow::HeldBack;
use tracing::{Level, enabled, warn};

/// The log has at most one line in this time about a source's bad rows, and one about its late ones.
const LOGGED_EVERY: Duration = Duration::from_secs(5);

/// What a feed reports about itself.
#[derive(Clone, Debug, Default)]
pub struct FeedStatus {
    /// Rows taken in, including late ones.
    pub rows: u64,
    /// Their bytes in memory.
    pub bytes: u64,
    /// Rows that came too late.
    pub late: u64,
    /// Rows that were left out because it was asked for ([`find_skip`](crate::find_skip)).
    pub skipped: u64,
    /// Records that could not be read, and rows without event time.
    pub faults: Faults,
    /// How far the source is.
    pub progress: Progress,
    /// How long it has waited because there was no room for its rows.
    pub held_back: Duration,
    /// Whether it has ended.
    pub ended: bool,
}

/// Reads the status of a feed from any thread, while it runs and after.
///
/// See [`Feed::observer`](crate::Feed::observer).
#[derive(Clone)]
pub struct FeedObserver(pub(crate) Arc<FeedState>);

impl FeedObserver {
    /// Its current status.
    pub fn status(&self) -> FeedStatus {
        self.0.status()
    }
}

/// What a source has reported.
#[derive(Default)]
struct Reported {
    faults: Faults,
    /// The newest record that could not be used: `faults` has the first ones.
    newest_bad: Option<String>,
    progress: Progress,
}

/// What a feed's threads share with its observer.
#[derive(Default)]
pub(crate) struct FeedState {
    stop: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    late: AtomicU64,
    skipped: AtomicU64,
    ended: AtomicBool,
    told: Mutex<Reported>,
    source: OnceLock<String>,
    read_from: OnceLock<Arc<FeedState>>,
    held_back: OnceLock<HeldBack>,
    bad_logged: Sampled,
    late_logged: Sampled,
}

/// What was logged of something that is counted.
struct Sampled(Mutex<SampledState>);

struct SampledState {
    told: u64,
    /// Not before then.
    next: Instant,
}

impl Default for Sampled {
    /// A short run says everything at its end. Unless somebody asked for the log, it is not said before, too.
    fn default() -> Self {
        let wait = if enabled!(Level::INFO) { Duration::ZERO } else { LOGGED_EVERY };
        Sampled(Mutex::new(SampledState { told: 0, next: Instant::now() + wait }))
    }
}

impl Sampled {
    /// How many are new, if they are to be logged now.
    fn due(&self, count: u64) -> Option<u64> {
        let mut state = self.0.lock();
        let now = Instant::now();
        if count <= state.told || now < state.next {
            return None;
        }
        state.next = now + LOGGED_EVERY;
        Some(count - std::mem::replace(&mut state.told, count))
    }
}

impl FeedState {
    /// Names the source in the log.
    pub fn set_source(&self, name: &str) {
        let _ = self.source.set(name.to_owned());
    }

    /// The source's name in the log.
    pub fn source(&self) -> &str {
        self.source.get().map_or("", String::as_str)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn add_rows(&self, rows: &RecordBatch) {
        self.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes_of_rows(rows) as u64, Ordering::Relaxed);
    }

    /// Rows that a query has taken of a source that is read for several.
    pub fn add_read(&self, rows: u64, bytes: u64, late: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.late.fetch_add(late, Ordering::Relaxed);
    }

    /// What is known of the source itself is in another state.
    pub fn read_from(&self, source: &Arc<FeedState>) {
        let _ = self.read_from.set(Arc::clone(source));
    }

    /// Where the waits of the source are counted.
    pub fn set_held_back(&self, held_back: HeldBack) {
        let _ = self.held_back.set(held_back);
    }

    pub fn set_late(&self, late: u64) {
        self.late.store(late, Ordering::Relaxed);
    }

    pub fn add_skipped(&self, rows: u64) {
        self.skipped.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn add_faults(&self, mut faults: Faults) {
        // Whoever wants them has taken them.
        faults.records = None;
        if !faults.is_empty() {
            let mut told = self.lock();
            self.log_notices(&faults);
            if let Some(sample) = faults.samples.last() {
                told.newest_bad = Some(sample.clone());
            }
            told.faults.merge(faults);
        }
    }

    /// Logs notices as they come: nobody repeats them.
    fn log_notices(&self, faults: &Faults) {
        let (newest, source) = (faults.notices.newest(), self.source());
        match faults.notices.count() - newest.len() as u64 {
            0 => {}
            left_out => warn!(source, left_out, "notices came too fast to be logged"),
        }
        newest.iter().for_each(|notice| warn!(source, "{notice}"));
    }

    /// Logs what is new, if it is time: called again and again, also when nothing comes.
    pub fn log_faults(&self) {
        if !enabled!(Level::WARN) {
            return;
        }
        let late = self.late.load(Ordering::Relaxed);
        if let Some(new) = self.late_logged.due(late) {
            warn!(source = self.source(), late, new, "rows came too late");
        }
        let told = self.lock();
        if let Some(new) = self.bad_logged.due(told.faults.count) {
            let (bad, sample) = (told.faults.count, told.newest_bad.as_deref().unwrap_or_default());
            warn!(source = self.source(), bad, new, sample, "records could not be used");
        }
    }

    pub fn set_progress(&self, progress: Progress) {
        self.lock().progress = progress;
    }

    pub fn has_ended(&self) {
        self.log_faults();
        self.ended.store(true, Ordering::Release);
    }

    /// The current status.
    pub fn status(&self) -> FeedStatus {
        let source = self.read_from.get().map_or(self, |source| source.as_ref());
        let told = source.lock();
        FeedStatus {
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            faults: told.faults.clone(),
            progress: told.progress,
            held_back: source.held_back.get().map_or(Duration::ZERO, HeldBack::time),
            ended: self.ended.load(Ordering::Acquire),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reported> {
        self.told.lock()
    }
}
