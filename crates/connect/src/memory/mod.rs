//! Results in memory: rows ([`MemorySink`]), the current rows of a table that changes ([`TableSink`]), and its changes
//! on request ([`ChangesSink`]).

mod changes_sink;
mod memory_sink;
mod table_handle;
mod table_log;
mod table_sink;
mod table_store;

pub use changes_sink::{Changes, ChangesSink};
pub use memory_sink::{MemoryCommit, MemoryRows, MemorySink};
pub use table_handle::{TableHandle, TableVersion};
pub use table_sink::TableSink;
pub use table_store::TableStore;
