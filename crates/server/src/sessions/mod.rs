//! What the sessions of a server share: connections, threads, deadlines, and who each of them is.

pub(super) mod activity;
pub(super) mod client_reader;
pub(super) mod client_stream;
pub(super) mod connections;
pub(super) mod deadlines;
pub(super) mod directory;
pub(super) mod identity;
pub(super) mod server_state;
pub(super) mod workers;
