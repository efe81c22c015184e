//! The Linear Road benchmark as a Tidemill application, written as a user would write it: on the public API
//! of `tidemill-engine` only.
//!
//! Cars on expressways report their positions. The application notifies them of tolls and accidents, keeps their
//! accounts, and answers their queries. [`query`] shows how the parts fit together.

pub mod accounts;
pub mod answers;
pub mod bad_lines;
pub mod check;
pub mod event;
pub mod expenditures;
mod fields;
pub mod generator;
mod input_split;
pub mod intake;
pub mod line_error;
pub mod query;
pub mod rating;
pub mod run;
pub mod schema;
pub mod source;
pub mod text_read;
pub mod text_write;
pub mod tolls;

pub use input_split::{InputSplit, InputSplitError};
