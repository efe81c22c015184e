//! Files of other machines, over HTTP(S) or from an S3-compatible store: fetched into a temporary file without a name, and then
//! read as any file.
//!
//! What a URL may hold besides the place of a file (a query, a password) is never shown.

mod answer;
mod download;
mod exchange;
mod failure;
mod fetched_file;
mod listing;
mod location;
mod quick_look;
mod run;
mod s3;
mod settings;
mod target;

pub(crate) use answer::Content;
pub(crate) use download::Download;
pub(crate) use fetched_file::FetchedFile;
pub(crate) use listing::list_objects;
pub(crate) use location::{Location, is_remote};
pub(crate) use quick_look::{columnar_ends, text_prefix};
pub use s3::S3Settings;
pub use settings::FetchSettings;
