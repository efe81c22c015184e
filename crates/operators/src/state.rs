//! Columns in snapshots, in Arrow's IPC stream format, which every version of Arrow reads.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

/// Marks columns.
const COLUMNS: u8 = 1;
/// Marks an error: [`Operator::snapshot`](tidemill_core::Operator::snapshot) cannot return one.
const FAILED: u8 = 2;

/// The columns of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateColumns {
    /// The type of each.
    pub types: Vec<DataType>,
    /// The numbers of those that older versions did not write. They are NULL if the state was written by one.
    pub added: Vec<usize>,
}

impl StateColumns {
    /// The columns that these are, if the types fit those of this version or of an older one.
    fn filled(&self, found: &[ArrayRef], rows: usize) -> Option<Vec<ArrayRef>> {
        let is_older = found.len() != self.types.len();
        let mut found = found.iter();
        let mut columns = Vec::with_capacity(self.types.len());
        for (number, wanted) in self.types.iter().enumerate() {
            columns.push(if is_older && self.added.contains(&number) {
                new_null_array(wanted, rows)
            } else {
                Arc::clone(found.next().filter(|column| holds(column.data_type(), wanted))?)
            });
        }
        found.next().is_none().then_some(columns)
    }
}

/// Whether a type can be read as another.
fn holds(from: &DataType, to: &DataType) -> bool {
    from == to || is_wider(from, to)
}

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

/// Reads these columns, and their number of rows.
pub(crate) fn read_columns(
    reader: &mut SnapshotReader<'_>,
    wanted: &StateColumns,
) -> Result<(usize, Vec<ArrayRef>), Cause> {
    match reader.u8()? {
        COLUMNS => {}
        FAILED => {
            let reason = String::from_utf8_lossy(reader.bytes()?).into_owned();
            return Err(Cause::operation(format!(
                "the state could not be written to the snapshot: {reason}"
            )));
        }
        found => return Err(damaged(format_args!("{found} instead of columns"))),
    }
    let rows = reader.u64()? as usize;
    let batch = batch_of_bytes(reader.bytes()?)?;
    let Some(columns) = wanted.filled(batch.columns(), batch.num_rows()) else {
        let found = batch.columns().iter().map(|column| column.data_type().clone()).collect::<Vec<_>>();
        return Err(Cause::user(format!(
            "the snapshot contains state of the types {}, but this query needs {}: either the query has \
             changed, or an older version wrote the snapshot with another type; use the query or version that \
             wrote it, or start over without the snapshot",
            listed(&found),
            listed(&wanted.types)
        )));
    };
    if batch.num_rows() != rows {
        return Err(damaged("rows are missing"));
    }
    let widened = |(column, to): (ArrayRef, &DataType)| {
        if column.data_type() == to { Ok(column) } else { cast(&column, to).map_err(damaged) }
    };
    Ok((rows, columns.into_iter().zip(&wanted.types).map(widened).collect::<Result<_, _>>()?))
}

/// Rows as an Arrow IPC stream with its schema.
pub(crate) fn bytes_of_batch(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    writer.into_inner()
}

/// Reads what [`bytes_of_batch`] wrote. Somebody may have made other bytes with a valid checksum, and Arrow panics on
/// some of those. Decoding from memory that is there, it reserves none by the lengths that the bytes announce.
pub(crate) fn batch_of_bytes(bytes: &[u8]) -> Result<RecordBatch, Cause> {
    let read = || {
        let mut bytes = Buffer::from(bytes);
        let batch = StreamDecoder::new().decode(&mut bytes).map_err(damaged)?;
        batch.ok_or_else(|| damaged("rows are missing"))
    };
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged("its columns are inconsistent")))
}

pub(crate) fn damaged(reason: impl Display) -> Cause {
    Cause::operation(format!("a snapshot is damaged: {reason}"))
}

/// Whether a type can hold all values of another. Older versions kept some totals in fewer digits.
fn is_wider(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => {
            from.data_type() == to.data_type() || is_wider(from.data_type(), to.data_type())
        }
        (integer, DataType::Decimal128(38, 0) | DataType::Decimal256(76, 0)) if integer.is_integer() => true,
        (DataType::Decimal128(from, scale), DataType::Decimal128(to, other)) => from <= to && scale == other,
        (DataType::Decimal128(_, scale), DataType::Decimal256(76, other)) => scale == other,
        _ => false,
    }
}

fn listed(types: &[DataType]) -> String {
    types.iter().map(DataType::to_string).collect::<Vec<_>>().join(", ")
}

fn to_bytes(rows: usize, columns: Vec<ArrayRef>) -> Result<Vec<u8>, Cause> {
    let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let write = || -> Result<Vec<u8>, ArrowError> {
        bytes_of_batch(&RecordBatch::try_new_with_options(schema, columns, &options)?)
    };
    write().map_err(|error| Cause::bug(format!("state cannot be written: {error}")).with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Decimal256Type, Float64Type, Int64Type};
    use arrow_array::{Int64Array, ListArray, StringArray};
    use arrow_buffer::i256;

    fn list_of(values: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(values, true)))
    }

    fn restored(columns: Vec<ArrayRef>, types: &[DataType]) -> Result<(usize, Vec<ArrayRef>), Cause> {
        let mut writer = SnapshotWriter::default();
        write_columns(&mut writer, columns[0].len(), Ok(columns));
        let bytes = writer.finish();
        let wanted = StateColumns { types: types.to_vec(), added: Vec::new() };
        read_columns(&mut SnapshotReader::new(&bytes)?, &wanted)
    }

    #[test]
    fn the_narrower_state_of_an_older_version_is_read() {
        // sum(DISTINCT) kept this before its totals had 76 digits.
        let values = vec![Some(vec![Some(i64::MAX), Some(-3)]), None, Some(vec![])];
        let older = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(values)) as ArrayRef;
        let (rows, columns) = restored(vec![older], &[list_of(DataType::Decimal256(76, 0))]).unwrap();
        assert_eq!(rows, 3);
        let lists = columns[0].as_list::<i32>();
        let first = lists.value(0);
        let first = first.as_primitive::<Decimal256Type>();
        assert_eq!(first.values().to_vec(), [i256::from_i128(i64::MAX.into()), i256::from_i128(-3)]);
        assert!(lists.is_null(1) && lists.value(2).is_empty());
    }

    #[test]
    fn columns_that_an_older_version_did_not_have_are_null() {
        let integers = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
        let texts = || Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef;
        // Two functions, each with a column that was added behind its older ones.
        let types = vec![DataType::Int64, DataType::Utf8, DataType::Int64, DataType::Utf8];
        let wanted = StateColumns { types, added: vec![1, 3] };
        let read = |columns: Vec<ArrayRef>| {
            let mut writer = SnapshotWriter::default();
            write_columns(&mut writer, 2, Ok(columns));
            let bytes = writer.finish();
            read_columns(&mut SnapshotReader::new(&bytes).unwrap(), &wanted)
        };
        let (rows, older) = read(vec![integers(), integers()]).unwrap();
        assert_eq!((rows, older.len()), (2, 4));
        assert!([1, 3].iter().all(|added| older[*added].null_count() == 2));
        assert!([0, 2].iter().all(|kept| older[*kept].as_ref() == integers().as_ref()));
        let (_, newer) = read(vec![integers(), texts(), integers(), texts()]).unwrap();
        assert_eq!(newer[3].as_ref(), texts().as_ref());
        for other in [vec![integers(), texts(), integers()], vec![integers()], vec![texts(), integers()]] {
            assert!(read(other).unwrap_err().to_string().contains("start over without the snapshot"));
        }
    }

    #[test]
    fn another_state_is_refused_with_the_reason_and_a_way_out() {
        let values = vec![Some(vec![Some(1.5)])];
        let floats = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values)) as ArrayRef;
        let numbers = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        for (column, to) in [
            (Arc::clone(&floats), list_of(DataType::Decimal256(76, 0))),
            (Arc::clone(&numbers), DataType::Int32),
            (Arc::clone(&numbers), DataType::Decimal256(76, 2)),
            (numbers, DataType::Utf8),
        ] {
            let refused = restored(vec![column], std::slice::from_ref(&to)).unwrap_err().to_string();
            assert!(
                refused.contains(&to.to_string()) && refused.contains("start over without the snapshot"),
                "{refused}"
            );
            assert!(!refused.contains("Field"), "{refused}");
        }
    }
}
