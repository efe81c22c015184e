//! Sources and sinks of Tidemill: how data comes in and how results go out. One file per kind.
//!
//! So far one source: [`line_file`], text files of lines, plain or compressed with zstd.

pub mod line_file;
mod lines;
mod zstd_read;

pub use line_file::{LineFile, LineFileError};
pub use lines::{LINE_LIMIT_BYTES, Line, LineChunk, Lines};
