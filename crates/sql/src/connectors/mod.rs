//! Connectors and formats by name: one table of what there is, with the options of each, and the two statements that
//! use it.

mod bad_records;
mod changes;
mod columns;
mod define_sink;
mod define_source;
pub(crate) mod discard_sink;
mod durable;
mod formats;
mod gateway;
mod known_options;
mod listing;
mod masked;
mod max_ahead;
mod refused;
mod sink_connector;
mod source_connector;
mod systems;
mod table;

pub(crate) use define_sink::{SinkDefinition, define_sink};
pub(crate) use define_source::define_source;
pub use formats::{Formats, InputFormat, OutputFormat, RowFormat};
pub(crate) use listing::option_groups;
pub use sink_connector::{OpenSink, SinkConnector, SinkRequest, SinkUse};
pub use source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
pub(crate) use systems::add_generators;
pub(crate) use systems::file::{by_path, refused_path};
pub(crate) use systems::generators::built_in_generators;
pub(crate) use table::ConnectorTable;

/// The table of the built-in connectors.
pub(crate) fn built_in() -> ConnectorTable {
    let mut table = ConnectorTable::default();
    systems::add_all(&mut table);
    table
}
