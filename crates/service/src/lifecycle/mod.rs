//! How a query that runs by name begins, is replaced, altered and stopped, is brought back after a restart, and what it leaves behind.

mod altering;
pub(super) mod announcement;
mod catching_up;
mod defining;
mod filling;
mod garbage;
pub(super) mod gateway_lifecycle;
pub(super) mod query_lifecycle;
pub(crate) mod recovery;
mod refused;
pub(super) mod replacement;
mod starting;
mod stopping;
pub(super) mod table_contents;
mod views_at_gateways;
