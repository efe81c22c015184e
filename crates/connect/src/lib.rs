//! The sources and sinks of Tidemill: one folder per outside system, with its source and its sink.
//!
//! | outside system | source | sink |
//! |---|---|---|
//! | [`file`] | `FileSource`; [`LineFile`] for text of lines | `FileSink`, `DirectorySink` |
//! | `socket` (TCP, Unix, UDP) | `TcpLines`, `UnixLines`, `UdpLines` | `SocketServerSink`, `SocketClientSink` |
//! | `http` | `HttpSource` | `HttpSink` |
//! | `kafka` (feature `kafka`) | `KafkaSource` | `KafkaSink` |
//! | `postgres` (feature `postgres`) | | `PostgresSink` |
//! | `command` (a program) | | `CommandSink` |
//! | `standard_streams` | `StandardInput` | `StandardOutput`, `LatestTable` |
//! | `memory` | | `MemorySink`, `TableSink`, `ChangesSink` |
//! | [`journal`] of another pipeline | `JournalSource` | |
//! | `generator` | `Sequence`, `YahooEvents`, `YahooCampaigns` | |
//!
//! `tls` reads certificates and keys for all that listen or connect. Beside them stand the `formats`: decoders, encoders, and how
//! columns are inferred. Only [`LineFile`] is always there. The rest carries typed rows and needs the feature `tables`.
//!
//! Sinks receive the results of a query in whole cycles. They differ in what they guarantee:
//!
//! | sink | visible | after a failed write | when a query resumes after a crash |
//! |---|---|---|---|
//! | `FileSink`, CSV and NDJSON | at each commit | cut back to the last commit | exactly once with `resume` |
//! | `FileSink`, Parquet and Arrow IPC | at the end of the query | nothing is left | cannot be resumed |
//! | `DirectorySink` | file by file, when one is full | complete files stay | exactly once with `resume` |
//! | `PostgresSink` | at each commit | transactions stay whole | exactly once |
//! | `StandardOutput` | at each commit | the reader keeps what it has received | at least once |
//! | `SocketServerSink`, `SocketClientSink` | at each commit | as for standard output | at least once |
//! | `HttpSink` | at each commit | accepted requests stay | at least once; exactly once if the receiver honours the keys |
//! | `CommandSink` | at each commit | runs that were accepted stay | at least once |
//! | `MemorySink` | at each commit | fails only at its limit, and is then unchanged | ends with the process |
//! | `TableSink` | at each commit | as for memory | ends with the process |
//! | `ChangesSink` | on request: the changes since the last one | as for memory | ends with the process |
//! | `LatestTable` | once, at the end of the query | as for standard output | at least once |

#[cfg(feature = "tables")]
pub mod command;
#[cfg(feature = "tables")]
pub mod dead_letter;
#[cfg(feature = "tables")]
mod descriptor_reserve;
#[cfg(feature = "tables")]
pub mod fetch;
pub mod file;
#[cfg(feature = "tables")]
pub mod formats;
#[cfg(feature = "tables")]
pub mod generator;
#[cfg(feature = "tables")]
mod guarded;
#[cfg(feature = "tables")]
pub mod http;
#[cfg(feature = "tables")]
mod http_client;
#[cfg(feature = "tables")]
pub mod journal;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "tables")]
mod listen_policy;
#[cfg(feature = "tables")]
pub mod memory;
#[cfg(feature = "tables")]
mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "tables")]
mod private_file;
#[cfg(feature = "tables")]
mod quotas;
#[cfg(feature = "tables")]
mod request_keys;
#[cfg(feature = "tables")]
pub mod socket;
#[cfg(feature = "tables")]
pub mod standard_streams;
#[cfg(feature = "tables")]
mod suggest;
#[cfg(feature = "tables")]
pub mod tls;
#[cfg(feature = "tables")]
mod tokens;
#[cfg(feature = "tables")]
pub mod web_pages;

pub use file::{LINE_LIMIT_BYTES, Line, LineChunk, LineFile, LineFileError, Lines};
#[cfg(feature = "tables")]
pub use private_file::read_private_file;
#[cfg(feature = "tables")]
pub use quotas::Quotas;
#[cfg(feature = "tables")]
pub use suggest::closest;
