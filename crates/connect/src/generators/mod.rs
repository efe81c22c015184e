//! Generators: sources that make their rows up. The same settings give the same rows, however they are
//! divided into batches, so a query over a generator can be repeated; only [`pace`] looks at a clock, and it
//! decides nothing but when a row is given out.

pub mod pace;
pub mod sequence;
pub mod yahoo_campaigns;
pub mod yahoo_events;

pub use pace::{EventTimes, Pace};
pub use sequence::{Sequence, SequenceConfig};
pub use yahoo_campaigns::YahooCampaigns;
pub use yahoo_events::{YahooConfig, YahooEvents};

/// Rows of a full batch.
pub const BATCH_ROWS: usize = 8192;
