//! What the names of a query stand for: sources, tables, views, stream processes.

pub(crate) mod gateway_rows;
pub(crate) mod named_relations;
pub(crate) mod point_column;
pub(crate) mod projected;
pub(crate) mod single_batch_source;
pub(crate) mod source_changes;
pub(crate) mod source_definition;
pub(crate) mod stored_rows;
pub(crate) mod stream_process;
pub(crate) mod view_clock;
