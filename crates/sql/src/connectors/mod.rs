//! Connectors by name: turn the options of a statement into a source or a sink.

mod durable;
mod files;
mod generators;
mod http;
mod journal;
mod kafka;
mod line_protocol;
mod max_ahead;
mod sinks;
mod sockets;
mod sources;

pub(crate) use files::by_path;
pub(crate) use generators::register;
pub(crate) use sinks::{SinkDefinition, SinkUse, define_sink};
pub(crate) use sources::define_source;
