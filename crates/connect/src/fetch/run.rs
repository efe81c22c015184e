//! Runs what waits for the network, until it is done or nobody wants it any more.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidemill_core::Cause;
use tokio::runtime::Builder;

/// How often it is checked whether something should stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs on this thread, which must not be one of an asynchronous runtime.
pub(super) fn run_until<T>(
    is_stopped: &AtomicBool,
    run: impl Future<Output = Result<T, Cause>>,
) -> Result<T, Cause> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = run => outcome,
            () = until(is_stopped) => Err(stopped()),
        }
    });
    // There is no wait for a name that is being looked up.
    runtime.shutdown_background();
    outcome
}

/// Runs on a thread of its own, while this one waits, and at most that long.
pub(super) fn run_within<T: Send>(
    longest: Duration,
    run: impl Future<Output = Result<T, Cause>> + Send,
    too_slow: impl FnOnce() -> Cause + Send,
) -> Result<T, Cause> {
    let limited = async { tokio::time::timeout(longest, run).await.unwrap_or_else(|_| Err(too_slow())) };
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| run_until(&AtomicBool::new(false), limited)).join();
        ran.unwrap_or_else(|_| Err(Cause::bug("a thread of a download has panicked")))
    })
}

async fn until(is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

pub(super) fn stopped() -> Cause {
    Cause::operation("the query was stopped while a file was being fetched")
}
