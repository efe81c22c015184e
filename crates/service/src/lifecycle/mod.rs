//! How a query that runs by name begins, is brought back after a restart, and what it leaves behind.

pub(super) mod announcement;
pub(super) mod defining;
pub(super) mod recovery;
pub(super) mod starting;
pub(super) mod superfluous;
