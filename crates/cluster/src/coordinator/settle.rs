//! Settling a change whose outcome is unknown.

use std::time::{Duration, Instant};

use super::{Coordinator, CoordinatorError, Revision, Stamp};

/// Pause before a change is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Changes a record, and finds out whether it was changed if a connection is lost in the middle.
///
/// The same change is sent again. Reading alone would not be enough, because the first request may still be on its way and
/// arrive later. Sending it again settles it: if it is made now, the first one will be refused when it arrives, since the
/// record then has another revision. If it is refused, the stamp of the record says whether the first one had been made.
///
/// # Errors
/// [`CoordinatorError::Stale`] if the record is not what this call wrote. If an outcome was unknown in between, the change may
/// have been made and replaced by another since: either way it is not in force. [`CoordinatorError::Unknown`] if nothing more
/// was found out in `at_most`. Otherwise it was not made.
pub fn settle(
    coordinator: &mut dyn Coordinator,
    key: &str,
    expected: Option<Revision>,
    value: &[u8],
    at_most: Duration,
) -> Result<Revision, CoordinatorError> {
    let stamp = random_stamp()?;
    let end = Instant::now() + at_most;
    let mut unknown: Option<CoordinatorError> = None;
    loop {
        match coordinator.compare_and_set(key, expected, stamp, value) {
            Err(error @ CoordinatorError::Unknown { .. }) => unknown = Some(error),
            Err(CoordinatorError::Unavailable { .. }) if unknown.is_some() => {}
            outcome => return outcome,
        }
        if Instant::now() + RETRY_AFTER >= end {
            break;
        }
        std::thread::sleep(RETRY_AFTER);
    }
    let place = coordinator.place().to_owned();
    let reason = "no answer came in time".to_owned();
    Err(unknown.unwrap_or(CoordinatorError::Unavailable { place, reason }))
}

fn random_stamp() -> Result<Stamp, CoordinatorError> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(Stamp(bytes)),
        Err(error) => Err(CoordinatorError::Unavailable {
            place: "this machine".to_owned(),
            reason: format!("the system gives no random numbers: {error}"),
        }),
    }
}
