//! Generators: sources that invent their rows. The same settings give the same rows, however they are divided into
//! batches, so a query over a generator can be repeated. Only [`pace`] reads a clock, which affects only when a row is
//! emitted.

pub mod pace;
pub mod sequence;
pub mod yahoo_campaigns;
pub mod yahoo_events;

pub use pace::{EventTimes, Pace};
pub use sequence::{Sequence, SequenceConfig};
pub use yahoo_campaigns::YahooCampaigns;
pub use yahoo_events::{YahooConfig, YahooEvents};

/// The number of rows in a full batch.
pub const BATCH_ROWS: usize = 8192;
