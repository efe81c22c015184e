//! Sinks of typed rows, which receive the results of a query in whole cycles. One file per kind; each documents its
//! guarantees.
//!
//! | sink | visible | after a failed write | when a query resumes after a crash |
//! |---|---|---|---|
//! | [`FileSink`], CSV and NDJSON | at each commit | cut back to the last commit | exactly once with `resume` |
//! | [`FileSink`], Parquet and Arrow IPC | at the end of the query | nothing is left | cannot be resumed |
//! | [`DirectorySink`] | file by file, when one is full | complete files stay | exactly once with `resume` |
//! | `PostgresSink` (feature `postgres`) | at each commit | transactions stay whole | exactly once |
//! | [`StandardOutput`] | at each commit | the reader keeps what it has received | at least once |
//! | [`SocketServerSink`], [`SocketClientSink`] | at each commit | as for standard output | at least once |
//! | [`MemorySink`] | at each commit | fails only at its limit, and is then unchanged | ends with the process |
//! | [`TableSink`] | at each commit | as for memory | ends with the process |
//! | [`ChangesSink`] | on request: the changes since the last one | as for memory | ends with the process |
//! | [`LatestTable`] | once, at the end of the query | as for standard output | at least once |

mod changes_sink;
mod column_names;
mod columnar_file;
#[cfg(feature = "postgres")]
mod dead_letter;
mod directory_sink;
pub mod encode;
mod file_format;
mod file_sink;
mod latest_table;
mod manifest;
mod memory_sink;
mod part;
mod part_name;
pub(crate) mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
mod socket_address;
mod socket_client;
mod socket_reader;
mod socket_server;
mod standard_output;
mod table_handle;
mod table_log;
mod table_sink;
mod table_store;
mod text_file;

pub use changes_sink::{Changes, ChangesSink};
pub use directory_sink::{DirectorySink, DirectorySinkSettings};
pub use encode::{
    CsvEncoder, CsvStyle, NdjsonEncoder, TableEncoder, TableLayout, TableStyle, TextEncoder, TextFormat,
    display_width,
};
pub use file_format::{FileFormat, SyncPolicy};
pub use file_sink::{FileSink, FileSinkSettings};
pub use latest_table::LatestTable;
pub use memory_sink::{MemoryCommit, MemoryRows, MemorySink};
pub use socket_address::SocketAddress;
pub use socket_client::{SocketClientSettings, SocketClientSink, SocketClientStatus};
pub use socket_server::{SocketServerSettings, SocketServerSink, SocketServerStatus};
pub use standard_output::{OUTPUT_CLOSED, StandardOutput, is_output_closed};
pub use table_handle::{TableHandle, TableVersion};
pub use table_sink::TableSink;
pub use table_store::TableStore;
