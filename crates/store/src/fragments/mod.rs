//! The write side of a store of several fragments.

mod fragment_thread;
mod fragmented_writer;
mod restored;
mod splitter;

pub use fragmented_writer::FragmentedWriter;
pub(crate) use fragmented_writer::VERSION;
pub(crate) use restored::{Restored, restored};

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};

use crate::config::{Retention, StoreConfig};

/// What each of several fragments of a store holds: its columns, and behind them the numbers of the rows.
fn fragment_config(config: &StoreConfig, count: u32) -> StoreConfig {
    let numbers = config.schema.fields().len();
    let mut fields = config.schema.fields().to_vec();
    fields.push(Arc::new(Field::new("number of the row", DataType::UInt64, false)));
    let retention = config.retention.clone();
    let share = |all: usize| (all / count as usize).max(1);
    let retention = if retention.is_strict {
        // The limits are those of all fragments together, which no fragment knows.
        Retention { rows_max: usize::MAX, bytes_max: usize::MAX, ..retention }
    } else {
        Retention { rows_max: share(retention.rows_max), bytes_max: share(retention.bytes_max), ..retention }
    };
    StoreConfig {
        schema: Arc::new(Schema::new_with_metadata(fields, config.schema.metadata().clone())),
        retention,
        fragments: None,
        numbers: Some(numbers),
        ..config.clone()
    }
}
