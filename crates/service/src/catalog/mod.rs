//! The catalogue that is kept: its newest version, its log, its users, and the plans that are kept for it.

pub(super) mod catalog_store;
pub(super) mod change;
pub(super) mod log;
pub(super) mod plan_cache;
pub(super) mod record;
pub(super) mod transaction;
pub(super) mod user;
