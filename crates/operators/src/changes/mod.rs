//! Operators over relations that change: they take changelogs and write changelogs.
//!
//! A changelog is a stream whose last column is [`WEIGHT`]: `+n` says that a row comes in `n` times, `-n` that it goes. A
//! stream without that column only grows: each of its rows has weight 1. The relation as of a cycle is the sum of the
//! changelogs up to it. What holds for every operator here: after each cycle, the sum of its outputs is the batch answer
//! over the sums of its inputs.
//!
//! Rows are equal as in GROUP BY: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0; of equal rows, the first one's
//! spelling stays. Each operator does its work at the end of the cycle and writes one consolidated changelog: each row
//! once, with the sum of its weights, which is never 0. Deletions come before insertions, so whoever keeps the newest row of each
//! key can apply them in order; and both are in the order of their encoded rows. So the bytes depend neither on the
//! order of arrival within the cycle nor on hashes.
//!
//! A row that goes more often than it came is a fault of the source. It is counted and reported ([`FaultLog`]), and
//! that part of the deletion is ignored.
//!
//! [`FaultLog`]: tidemill_core::FaultLog

pub mod aggregate;
mod input;
pub mod join;
mod order;
mod output;
mod partitions;
pub mod session_bounds;
pub mod set_operation;
pub mod temporal_filter;
pub mod top;
pub mod upserts;
pub mod windowed;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::Cause;

use crate::encoded_rows::{RowCodec, RowTable};
use crate::state_rows::batch;

pub use aggregate::{Aggregate, ChangingAggregateSpec};
pub use join::{ChangingJoinKind, ChangingJoinSpec, Join};
pub use session_bounds::{SessionBound, SessionBounds};
pub use set_operation::{SetOperation, SetOperationKind, SetOperationSpec};
pub use temporal_filter::{TemporalFilter, TemporalFilterSpec};
pub use top::{ChangingTopSpec, Top};
pub use upserts::{Upserts, UpsertsSpec};
pub use windowed::{Windowed, WindowedSpec};

/// The name of the last column of a changelog: how many times the row comes in, or goes if the number is negative.
pub const WEIGHT: &str = "$weight";

/// Returns the columns of a changelog of rows with these columns.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_operators::changes::{changelog_schema, data_schema, is_changelog};
///
/// let data = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
/// let changelog = changelog_schema(&data);
/// assert!(is_changelog(&changelog) && !is_changelog(&data));
/// assert_eq!(data_schema(&changelog), data);
/// ```
pub fn changelog_schema(data: &SchemaRef) -> SchemaRef {
    let weight = Arc::new(Field::new(WEIGHT, DataType::Int64, false));
    let fields = data.fields().iter().cloned().chain([weight]).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, data.metadata().clone()))
}

/// Returns whether a stream with these columns is a changelog.
pub fn is_changelog(schema: &Schema) -> bool {
    schema.fields().last().is_some_and(|last| last.name() == WEIGHT)
}

/// Returns the columns without the weight, if there is one.
pub fn data_schema(schema: &SchemaRef) -> SchemaRef {
    if !is_changelog(schema) {
        return Arc::clone(schema);
    }
    let fields = schema.fields()[..schema.fields().len() - 1].to_vec();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns stored rows as a batch.
fn stored_batch(
    schema: &SchemaRef,
    codec: &RowCodec,
    rows: &RowTable,
    numbers: &[u32],
) -> Result<RecordBatch, Cause> {
    if numbers.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let columns = codec.decode(numbers.iter().map(|number| rows.row(*number).spelling))?;
    batch(schema, columns, numbers.len())
}

/// Returns stored rows as a batch whose last column is the weight of each.
fn weighted_batch(
    schema: &SchemaRef,
    codec: &RowCodec,
    rows: &RowTable,
    numbers: &[u32],
    weight: impl Fn(u32) -> i64,
) -> Result<RecordBatch, Cause> {
    let stored = stored_batch(schema, codec, rows, numbers)?;
    let weights = Int64Array::from_iter_values(numbers.iter().map(|number| weight(*number)));
    let columns = stored.columns().iter().cloned().chain([Arc::new(weights) as ArrayRef]).collect();
    batch(&changelog_schema(schema), columns, numbers.len())
}
