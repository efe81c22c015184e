//! The sources and sinks of Tidemill, one file per kind.
//!
//! Always available: [`line_file`], text files of lines, plain or compressed with zstd. With the feature `tables`:
//! sources and sinks of typed rows (files, standard input and output, sockets, HTTP, generators, memory). With `kafka`:
//! topics.

#[cfg(feature = "tables")]
pub mod files;
#[cfg(feature = "tables")]
pub mod formats;
#[cfg(feature = "tables")]
pub mod generators;
#[cfg(feature = "tables")]
pub mod http;
#[cfg(feature = "tables")]
pub mod infer;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod line_file;
mod lines;
#[cfg(feature = "tables")]
pub mod sinks;
#[cfg(feature = "tables")]
pub mod sockets;
#[cfg(feature = "tables")]
pub mod standard_input;
mod zstd_read;

pub use line_file::{LineFile, LineFileError};
pub use lines::{LINE_LIMIT_BYTES, Line, LineChunk, Lines};
