//! Results in memory: rows ([`MemorySink`]), the current rows of a table that changes ([`TableSink`]), and its changes
//! on request ([`ChangesSink`]), or rows that are passed to a function ([`CallbackSink`]).
//! And rows from memory: a source that is given them ([`PushTarget`]).

mod callback_sink;
mod changes_sink;
mod memory_sink;
mod push_source;
mod table_handle;
mod table_log;
mod table_sink;
mod table_store;

pub use callback_sink::CallbackSink;
pub use changes_sink::{Changes, ChangesSink};
pub use memory_sink::{MemoryCommit, MemoryRows, MemorySink};
pub use push_source::{PushSource, PushTarget, Pushed};
pub use table_handle::{TableHandle, TableVersion};
pub use table_sink::TableSink;
pub use table_store::TableStore;
