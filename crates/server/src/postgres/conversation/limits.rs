//! What a session may have at a time.

use crate::report::{PROGRAM_LIMIT, Report};

/// The most prepared statements, portals, cursors, or savepoints of a session.
const NAMES_MAX: usize = 1000;

pub(super) fn check_room(count: usize, what: &str, remedy: &str) -> std::result::Result<(), Report> {
    if count < NAMES_MAX {
        Ok(())
    } else {
        let report = Report::error(PROGRAM_LIMIT, format!("the session already has {NAMES_MAX} {what}"));
        Err(report.with_hint(remedy))
    }
}
