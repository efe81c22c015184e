//! Journals of durable pipelines: [`JournalSource`] reads what another pipeline has taken in, once or as it comes.

mod offset;
mod settings;
mod source;

pub use settings::{JournalSourceSettings, JournalStart};
pub use source::JournalSource;
