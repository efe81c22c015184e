//! The changes of one input within a cycle.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{FaultLog, Rows};

use super::{WEIGHT, changelog_schema};
use crate::encoded_rows::{RowBytes, RowCodec};
use crate::failed_results::described;
use crate::state_rows::batch;
use crate::stored_rows::CycleRows;

/// Collects the rows of an input until the end of the cycle.
#[derive(Debug)]
pub(crate) struct Input {
    data: SchemaRef,
    given: SchemaRef,
    changes: bool,
    rows: CycleRows,
}

/// Rows of a cycle, with the weight of each.
pub(crate) struct Changes {
    /// The columns without the weight.
    pub rows: RecordBatch,
    /// `None`: all are 1.
    pub weights: Option<ScalarBuffer<i64>>,
}

impl Changes {
    /// Divides rows into their data and their weights, the last column.
    ///
    /// # Errors
    /// If they have no weights, which is a bug.
    pub fn weighted(data: &SchemaRef, rows: RecordBatch) -> Result<Changes, Cause> {
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        let weights = columns.pop().filter(|weights| weights.null_count() == 0);
        let weights = weights.as_ref().and_then(|weights| weights.as_primitive_opt::<Int64Type>());
        let weights =
            weights.ok_or_else(|| Cause::bug(format!("{WEIGHT} must be an Int64 without NULLs")))?;
        let rows = batch(data, columns, count)?;
        Ok(Changes { rows, weights: Some(weights.values().clone()) })
    }

    /// Returns the weight of a row.
    #[inline]
    pub fn weight(&self, row: usize) -> i64 {
        self.weights.as_ref().map_or(1, |weights| weights[row])
    }
}

impl Input {
    /// Makes an input of rows with these columns, followed by a weight if they change.
    pub fn new(data: &SchemaRef, changes: bool) -> Input {
        let given = if changes { changelog_schema(data) } else { SchemaRef::clone(data) };
        Input { data: SchemaRef::clone(data), given, changes, rows: CycleRows::default() }
    }

    /// Adds rows.
    pub fn push(&mut self, rows: &Rows<'_>) {
        self.rows.push(rows);
    }

    /// Takes the rows of the cycle; `None` if there are none.
    ///
    /// # Errors
    /// If they do not have the declared columns, which is a bug.
    pub fn take(&mut self) -> Result<Option<Changes>, Cause> {
        let Some((rows, _)) = self.rows.take(&self.given)? else { return Ok(None) };
        let changes =
            if self.changes { Changes::weighted(&self.data, rows)? } else { Changes { rows, weights: None } };
        Ok(Some(changes))
    }
}

/// Adds a weight to another.
///
/// # Errors
/// If the sum is too large.
#[inline]
pub(crate) fn add(weight: i64, more: i64) -> Result<i64, Cause> {
    weight.checked_add(more).ok_or_else(too_often)
}

/// Multiplies two weights.
///
/// # Errors
/// If the product is too large.
#[inline]
pub(crate) fn multiply(left: i64, right: i64) -> Result<i64, Cause> {
    left.checked_mul(right).ok_or_else(too_often)
}

#[cold]
fn too_often() -> Cause {
    Cause::user("a row occurs more than 2^63 times; check the weights that the source gives")
}

/// Reports a row that goes more often than it came.
pub(crate) fn report_missing(
    faults: &FaultLog,
    codec: &RowCodec,
    schema: &SchemaRef,
    row: RowBytes<'_>,
    cycle: u64,
) {
    faults.add(|| {
        let columns = codec.decode(std::iter::once(row.spelling)).unwrap_or_default();
        let names = schema.fields().iter().map(|field| field.name());
        let of = described(columns.iter().zip(names), 0);
        format!("a deletion was ignored because no such row is left{of}, cycle {cycle}")
    });
}
