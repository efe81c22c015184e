//! A file that is fetched on a thread of its own, with as many attempts as necessary.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use tidemill_core::Cause;
use tracing::{info, warn};

use super::answer::{Content, checked, too_long, version};
use super::exchange::{Exchange, Part};
use super::failure::{Failure, lost};
use super::fetched_file::FetchedFile;
use super::location::Location;
use super::run::{run_until, stopped};
use super::settings::FetchSettings;

/// How many attempts in a row may bring nothing new.
const ATTEMPTS_MAX: u32 = 5;
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(10);
/// The longest pause that a server may ask for.
const RETRY_ASKED_MAX: Duration = Duration::from_secs(120);
/// A length that is not known.
const UNKNOWN: u64 = u64::MAX;

/// A file that is being fetched. Dropping it ends that.
pub(crate) struct Download {
    state: Arc<DownloadState>,
    outcome: Receiver<Result<FetchedFile, Cause>>,
}

struct DownloadState {
    is_stopped: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

impl Download {
    /// Begins to fetch a file.
    ///
    /// # Errors
    /// If the settings or the location cannot be used. That the file cannot be fetched comes later.
    pub fn start(place: &Location, content: Content, settings: &FetchSettings) -> Result<Download, Cause> {
        let exchange = Exchange::new(place, settings)?;
        let time_max = settings.time_max;
        let shared = Arc::new(DownloadState {
            is_stopped: AtomicBool::new(false),
            done: AtomicU64::new(0),
            total: AtomicU64::new(UNKNOWN),
        });
        let (sender, outcome) = sync_channel(1);
        let of_thread = Arc::clone(&shared);
        let body = move || {
            let fetched = run_until(&of_thread.is_stopped, async {
                match tokio::time::timeout(time_max, fetch(&exchange, content, &of_thread)).await {
                    Ok(fetched) => fetched,
                    Err(_) => Err(too_slow(&exchange, time_max, of_thread.done.load(Ordering::Relaxed))),
                }
            });
            // Nobody waits if the source was dropped.
            let _ = sender.send(fetched);
        };
        std::thread::Builder::new().name("download".to_owned()).spawn(body).map_err(|error| {
            Cause::resource(format!("cannot start a thread for a download: {error}")).with_source(error)
        })?;
        Ok(Download { state: shared, outcome })
    }

    /// Waits for the file, at most that long; `None`: it is not there yet.
    pub fn wait(&self, longest: Duration) -> Option<Result<FetchedFile, Cause>> {
        match self.outcome.recv_timeout(longest) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(stopped())),
        }
    }

    /// How many bytes are there, and of how many.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let total = self.state.total.load(Ordering::Relaxed);
        (self.state.done.load(Ordering::Relaxed), Some(total).filter(|total| *total != UNKNOWN))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Release);
    }
}

fn too_slow(exchange: &Exchange, time_max: Duration, done: u64) -> Cause {
    Cause::operation(format!(
        "{}: fetching took longer than {time_max:?}, and {done} bytes have come; raise download_time_max, or look \
         for what holds up the server",
        exchange.shown
    ))
}

/// Fetches a file, and continues where an attempt broke off if the server can.
async fn fetch(exchange: &Exchange, content: Content, shared: &DownloadState) -> Result<FetchedFile, Cause> {
    let file = tempfile::tempfile().map_err(|error| {
        Cause::operation(format!(
            "no temporary file can be made in '{}': {error}; name another folder in TMPDIR",
            std::env::temp_dir().display()
        ))
        .with_source(error)
    })?;
    let mut partial = Partial { file, written: 0, total: None, version: None };
    let (mut furthest, mut attempts, mut pause) = (0, 0, RETRY_FIRST);
    loop {
        let (reason, asked) = match partial.attempt(exchange, content, shared).await {
            Ok(()) => {
                info!(file = exchange.shown, bytes = partial.written, "fetched");
                return Ok(FetchedFile::new(partial.file, exchange.shown.clone(), partial.written));
            }
            Err(Failure::Final(cause)) => return Err(cause),
            Err(Failure::Lost { reason, wait }) => (reason, wait),
        };
        if partial.written > furthest {
            (furthest, attempts, pause) = (partial.written, 0, RETRY_FIRST);
        }
        attempts += 1;
        let of = partial.total.map(|total| format!(" of {total}")).unwrap_or_default();
        if attempts == ATTEMPTS_MAX {
            return Err(Cause::operation(format!(
                "{}: {reason}, after {}{of} bytes; gave up after {attempts} attempts that brought nothing new; check \
                 the server and the network, then try again",
                exchange.shown, partial.written
            )));
        }
        let wait = asked.map_or(pause, |asked| asked.clamp(pause, RETRY_ASKED_MAX));
        warn!(file = exchange.shown, bytes = partial.written, reason, retry_in = ?wait, "the download broke off");
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(RETRY_LONGEST);
    }
}

/// The part of a file that is there.
struct Partial {
    file: File,
    written: u64,
    total: Option<u64>,
    /// Which version of the file it is; without one, nothing can be continued.
    version: Option<HeaderValue>,
}

impl Partial {
    async fn attempt(
        &mut self,
        exchange: &Exchange,
        content: Content,
        shared: &DownloadState,
    ) -> Result<(), Failure> {
        let rest = self.version.take().filter(|_| self.written > 0);
        let rest =
            rest.map(|version| Part { range: format!("bytes={}-", self.written), version: Some(version) });
        let response = exchange.get(rest.as_ref()).await?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE && rest.is_some() {
            return Err(lost("the server does not continue the file"));
        }
        let version = version(&response);
        let (response, extent) = checked(exchange, response, content).await?;
        if extent.start != 0 && (rest.is_none() || extent.start != self.written) {
            return Err(lost("the server answers with another part of the file"));
        }
        if extent.start == 0 {
            self.begin_again().map_err(|error| self.unwritable(&error))?;
        }
        (self.total, self.version) = (extent.total, version);
        shared.total.store(extent.total.unwrap_or(UNKNOWN), Ordering::Relaxed);
        shared.done.store(self.written, Ordering::Relaxed);
        self.take(exchange, response.into_body(), shared).await?;
        match self.total {
            Some(total) if total != self.written => {
                Err(lost("the connection ended in the middle of the file"))
            }
            _ => Ok(()),
        }
    }

    fn begin_again(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.written = 0;
        Ok(())
    }

    async fn take(
        &mut self,
        exchange: &Exchange,
        mut body: Incoming,
        shared: &DownloadState,
    ) -> Result<(), Failure> {
        while let Some(data) = exchange.next_piece(&mut body).await? {
            if self.written + data.len() as u64 > exchange.bytes_max() {
                return Err(Failure::Final(too_long(exchange, "longer than that")));
            }
            self.file.write_all(&data).map_err(|error| self.unwritable(&error))?;
            self.written += data.len() as u64;
            shared.done.store(self.written, Ordering::Relaxed);
        }
        Ok(())
    }

    fn unwritable(&self, error: &std::io::Error) -> Failure {
        Failure::Final(Cause::resource(format!(
            "the temporary folder '{}' takes no more than {} bytes of a download: {error}; free space there, or name \
             another folder in TMPDIR",
            std::env::temp_dir().display(),
            self.written
        )))
    }
}
