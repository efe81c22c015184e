//! Columns in snapshots, in Arrow's IPC stream format, which every version of Arrow reads.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

/// Marks columns.
const COLUMNS: u8 = 1;
/// Marks an error: [`Operator::snapshot`](tidemill_core::Operator::snapshot) cannot return one.
const FAILED: u8 = 2;

/// Writes columns of `rows` rows each, or the reason why they cannot be written, which then fails the restore.
pub(crate) fn write_columns(writer: &mut SnapshotWriter, rows: usize, columns: Result<Vec<ArrayRef>, Cause>) {
    match columns.and_then(|columns| to_bytes(rows, columns)) {
        Ok(bytes) => {
            writer.u8(COLUMNS);
            writer.u64(rows as u64);
            writer.bytes(&bytes);
        }
        Err(cause) => {
            writer.u8(FAILED);
            writer.bytes(cause.to_string().as_bytes());
        }
    }
}

/// Reads columns of these types, and their number of rows.
pub(crate) fn read_columns(
    reader: &mut SnapshotReader<'_>,
    types: &[DataType],
) -> Result<(usize, Vec<ArrayRef>), Cause> {
    match reader.u8()? {
        COLUMNS => {}
        FAILED => {
            let reason = String::from_utf8_lossy(reader.bytes()?).into_owned();
            return Err(Cause::Operation(format!(
                "the state could not be written to the snapshot: {reason}"
            )));
        }
        found => return Err(Cause::Operation(format!("a snapshot is damaged: {found} instead of columns"))),
    }
    let rows = reader.u64()? as usize;
    let damaged = |error: ArrowError| Cause::Operation(format!("a snapshot is damaged: {error}"));
    let mut batches = StreamReader::try_new(reader.bytes()?, None).map_err(damaged)?;
    let found = batches.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    if found != types {
        return Err(Cause::User(format!(
            "the snapshot holds columns of {found:?}, this query has {types:?}; start without the snapshot"
        )));
    }
    let batch = batches.next().transpose().map_err(damaged)?;
    match batch {
        Some(batch) if types.is_empty() || batch.num_rows() == rows => Ok((rows, batch.columns().to_vec())),
        _ => Err(Cause::Operation("a snapshot is damaged: rows are missing".into())),
    }
}

fn to_bytes(rows: usize, columns: Vec<ArrayRef>) -> Result<Vec<u8>, Cause> {
    let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let write = || -> Result<Vec<u8>, ArrowError> {
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
        writer.write(&batch)?;
        writer.into_inner()
    };
    write().map_err(|error| Cause::Bug(format!("state cannot be written: {error}")))
}
