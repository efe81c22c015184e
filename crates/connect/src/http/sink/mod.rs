//! Rows that are posted, as to a webhook.

mod body;
mod client;
mod http_sink;
mod poster;
mod settings;
mod target;

pub use http_sink::HttpSink;
pub use poster::Poster;
pub use settings::{HttpSinkSettings, PostBody};
