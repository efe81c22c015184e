//! The protocol of PostgreSQL: connections, the conversation with a client, its catalogue, its values.

pub(super) mod active_session;
pub(super) mod conversation;
pub(super) mod ignored_settings;
pub(super) mod inbox;
pub(super) mod login;
pub(super) mod opening;
pub(super) mod pg_catalog;
pub(super) mod refusal;
pub(super) mod session_settings;
pub(super) mod spare_descriptor;
pub(super) mod statement_timeout;
pub(super) mod values;
pub(super) mod wire;
