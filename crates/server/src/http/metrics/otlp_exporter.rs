//! Sends metrics to a collector of OpenTelemetry, now and then.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tidemill_connect::http::Poster;
use tidemill_engine::Cause;
use tidemill_service::Runtime;
use tokio::sync::oneshot;

use super::otlp;
use crate::http::metrics;

/// Where a collector takes metrics.
const PATH: &str = "/v1/metrics";
/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A collector that does not take metrics is named again after this time.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// Sends the metrics that `/metrics` shows to a collector of OpenTelemetry, by OTLP over HTTP. A collector that cannot be reached
/// costs a warning: nothing waits for it, and nothing is kept for it, because the next metrics contain what the last ones did.
/// Dropping it ends that, after the metrics of the end.
///
/// ```
/// use std::time::Duration;
/// use tidemill_server::OtlpExporter;
/// use tidemill_service::Runtime;
/// use tidemill_sql::Planner;
///
/// let runtime = Runtime::new(Planner::new());
/// let every = Duration::from_secs(10);
/// // Nobody listens there.
/// drop(OtlpExporter::start(&runtime, "http://127.0.0.1:9", every).unwrap());
/// assert!(OtlpExporter::start(&runtime, "collector", every).is_err());
/// ```
pub struct OtlpExporter {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OtlpExporter {
    /// Begins to send the metrics of a runtime to a collector, such as `http://127.0.0.1:4318`, once per `every`.
    ///
    /// # Errors
    /// If the URL leads nowhere, or no thread can be started.
    pub fn start(runtime: &Runtime, collector: &str, every: Duration) -> Result<OtlpExporter, Cause> {
        let cannot = |error| Cause::resource(format!("metrics cannot be sent: {error}")).with_source(error);
        let poster = Poster::new(&format!("{}{PATH}", collector.trim_end_matches('/')))?;
        let waiting = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let waiting = waiting.map_err(cannot)?;
        let (stop, stopped) = oneshot::channel();
        let export = Export {
            runtime: runtime.clone(),
            poster,
            instance: instance(),
            started: (Instant::now(), SystemTime::now()),
            told: None,
        };
        let thread = thread::Builder::new().name("otlp".into());
        let thread = thread.spawn(move || waiting.block_on(export.run(every, stopped))).map_err(cannot)?;
        Ok(OtlpExporter { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for OtlpExporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What tells this process from others of this machine and the next.
fn instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

struct Export {
    runtime: Runtime,
    poster: Poster,
    instance: String,
    started: (Instant, SystemTime),
    /// When it was last said that the collector does not take the metrics.
    told: Option<Instant>,
}

impl Export {
    async fn run(mut self, every: Duration, mut stopped: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => self.send().await,
                _ = &mut stopped => break,
            }
        }
        // What has happened since would be missing for ever.
        self.send().await;
    }

    async fn send(&mut self) {
        let families = metrics::families(self.started.0, Some(&self.runtime));
        let request = otlp::request(&families, &self.instance, self.started.1, SystemTime::now());
        match self.poster.post(otlp::CONTENT_TYPE, request, TIMEOUT).await {
            Ok(()) => {
                if self.told.take().is_some() {
                    tracing::info!(collector = self.poster.place(), "the collector takes metrics again");
                }
            }
            Err(cause) if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) => {
                self.told = Some(Instant::now());
                tracing::warn!(reason = %cause, "the collector takes no metrics; the next ones will contain these");
            }
            Err(_) => {}
        }
    }
}
