//! Rows to one file, or to a directory of files. Each sink documents its guarantees.

mod columnar_file;
mod directory_sink;
mod file_format;
mod file_sink;
mod manifest;
mod part;
mod part_name;
mod text_file;

pub use directory_sink::{DirectorySink, DirectorySinkSettings};
pub use file_format::{FileFormat, SyncPolicy};
pub use file_sink::{FileSink, FileSinkSettings};
