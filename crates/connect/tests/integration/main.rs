//! All integration tests of this package in one binary, so that they are linked once.

mod declared_columns;
#[cfg(feature = "tables")]
mod fetch;
mod file_offsets;
mod files;
mod files_as_written;
mod generators;
#[cfg(feature = "tables")]
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod line_file;
#[cfg(feature = "tables")]
mod line_protocol;
mod lines_format;
mod nested_values;
mod pipes_and_links;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "tables")]
mod posts;
mod sinks;
mod sockets;
mod text_formats;
mod text_speed;
#[cfg(feature = "tables")]
mod texts_of_values;
#[cfg(feature = "tables")]
mod tls;
