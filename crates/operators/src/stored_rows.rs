//! Rows in an operator's state: limits, snapshots, and columns of event times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef, TimeUnit};
use arrow_select::concat::concat;
use tidemill_core::error::Cause;
use tidemill_core::{Rows, SnapshotReader, SnapshotWriter, StateLimit};

use crate::state::{batch_of_bytes, bytes_of_batch};

/// A failure of an Arrow kernel on columns whose types were checked before.
pub(crate) fn kernel_error(error: ArrowError) -> Cause {
    Cause::bug(format!("an operator passed columns to an Arrow kernel that it does not support: {error}"))
        .with_source(error)
}

/// The same columns under another schema of the same types.
pub(crate) fn with_schema(schema: &SchemaRef, rows: RecordBatch) -> Result<RecordBatch, Cause> {
    if Arc::ptr_eq(schema, rows.schema_ref()) {
        return Ok(rows);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let columns = rows.columns().to_vec();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(kernel_error)
}

/// The event times of rows, and which of them are missing.
pub(crate) fn event_times(
    rows: &RecordBatch,
    column: usize,
) -> Result<(ScalarBuffer<i64>, Option<NullBuffer>), Cause> {
    let times = rows.column(column);
    if !is_event_time(times.data_type()) {
        return Err(Cause::bug(format!("event times must be timestamps in ns, not {}", times.data_type())));
    }
    let times = times.as_primitive::<TimestampNanosecondType>();
    Ok((times.values().clone(), times.nulls().filter(|nulls| nulls.null_count() > 0).cloned()))
}

fn is_event_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _))
}

/// Rows of the current cycle that are processed at its end, when its cut is known. So it does not matter how they were
/// divided.
#[derive(Debug, Default)]
pub(crate) struct CycleRows {
    batches: Vec<RecordBatch>,
    positions: Vec<u32>,
}

impl CycleRows {
    /// Adds rows.
    pub fn push(&mut self, rows: &Rows<'_>) {
        self.batches.push(rows.to_batch());
        self.positions.extend_from_slice(rows.positions());
    }

    /// All rows in one batch with their positions; `None` if there are none.
    pub fn take(&mut self, schema: &SchemaRef) -> Result<Option<(RecordBatch, Vec<u32>)>, Cause> {
        let batches = std::mem::take(&mut self.batches);
        let positions = std::mem::take(&mut self.positions);
        let rows = match batches.as_slice() {
            [] => return Ok(None),
            [only] => only.clone(),
            several => {
                let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
                let column = |index| {
                    let columns: Vec<_> = several.iter().map(|rows| rows.column(index).as_ref()).collect();
                    concat(&columns).map_err(kernel_error)
                };
                let columns = (0..schema.fields().len()).map(column).collect::<Result<_, _>>()?;
                RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
                    .map_err(kernel_error)?
            }
        };
        Ok(Some((with_schema(schema, rows)?, positions)))
    }
}

/// Refuses to hold more than `rows_max` rows.
pub(crate) fn check_limit(what: &str, rows: usize, rows_max: usize) -> Result<(), Cause> {
    if rows <= rows_max {
        return Ok(());
    }
    Err(StateLimit::MAX_STATE_ROWS.reached(format!(
        "{what} would hold {rows} rows in a partition, but at most {rows_max} are allowed; raise \
         max_state_rows, or make the query keep fewer rows (shorter bounds or windows, fewer keys)"
    )))
}

/// Writes rows. Rows that could not be gathered or written (which happens only to types that Arrow does not support)
/// are reported as damaged when they are read.
pub(crate) fn write_rows(writer: &mut SnapshotWriter, rows: Option<RecordBatch>) {
    writer.bytes(&rows.and_then(|rows| bytes_of_batch(&rows).ok()).unwrap_or_default());
}

/// Reads rows of this schema.
///
/// # Errors
/// If the bytes are damaged, or the rows have different columns.
pub(crate) fn read_rows(reader: &mut SnapshotReader<'_>, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    with_schema(schema, batch_of_bytes(reader.bytes()?)?).map_err(|_| other_columns())
}

/// Reads rows of this schema, in which floating-point numbers may stand for integers.
///
/// # Errors
/// As for [`read_rows`].
pub(crate) fn read_rows_of_floats(
    reader: &mut SnapshotReader<'_>,
    schema: &SchemaRef,
) -> Result<RecordBatch, Cause> {
    let rows = batch_of_bytes(reader.bytes()?)?;
    let number = |(column, field): (&ArrayRef, &FieldRef)| {
        if field.data_type().is_integer() && column.data_type().is_floating() {
            cast(column, field.data_type()).map_err(kernel_error)
        } else {
            Ok(Arc::clone(column))
        }
    };
    let columns = rows.columns().iter().zip(schema.fields()).map(number).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|_| other_columns())
}

fn other_columns() -> Cause {
    Cause::user("the rows in the snapshot do not have the columns of this query")
}
