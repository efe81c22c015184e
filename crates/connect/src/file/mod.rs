//! Files: rows from one file or many, read once or followed, and rows to one file or to a directory of them.

mod gzip_read;
mod line_file;
mod lines;
#[cfg(feature = "tables")]
mod overwritten;
#[cfg(feature = "tables")]
mod sink;
#[cfg(feature = "tables")]
mod source;
mod zstd_read;

pub use line_file::{LineFile, LineFileError};
pub use lines::{LINE_LIMIT_BYTES, Line, LineChunk, Lines};
#[cfg(feature = "tables")]
pub use sink::{DirectorySink, DirectorySinkSettings, FileFormat, FileSink, FileSinkSettings, SyncPolicy};
#[cfg(feature = "tables")]
pub use source::{FileSettings, FileSource, Inferred, first_file};
