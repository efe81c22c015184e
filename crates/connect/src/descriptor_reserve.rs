//! What sources that listen leave of the process's file descriptors.
//!
//! A source takes as many connections as come. It must not take the last descriptor: journals, snapshots and other clients of the
//! process need some, too, and a connection that cannot be read would lose what was sent over it.

use std::os::fd::AsFd;
use std::time::Duration;

/// How many descriptors are left to others.
const RESERVE: usize = 16;
/// How long to wait before looking for descriptors again.
pub(crate) const RESERVE_PAUSE: Duration = Duration::from_secs(1);

/// Whether the process could open as many more descriptors as are left to others. For an instant it does, which is the only way
/// to know: what is open now is not counted anywhere.
pub(crate) fn is_left(any: &impl AsFd) -> bool {
    let any = any.as_fd();
    let copies: Result<Vec<_>, _> = (0..RESERVE).map(|_| any.try_clone_to_owned()).collect();
    copies.is_ok()
}

/// What a source says about it.
pub(crate) fn missing(place: &str) -> String {
    format!(
        "{place}: no connections are accepted for now, because the process has fewer than {RESERVE} file descriptors left; \
         close connections, or raise the limit (ulimit -n)"
    )
}
