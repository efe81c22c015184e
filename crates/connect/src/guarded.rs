//! Readers of files that somebody may have made on purpose, or damaged: Arrow and Parquet panic on some of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// The batches of a file.
type BatchReader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Reads something. A panic becomes an error, which names no file yet.
pub(crate) fn guarded<T, E: From<ArrowError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let inconsistent = || ArrowError::ParseError("its parts do not fit together".to_owned());
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(inconsistent().into()))
}

/// The batches of a reader, up to the first at which it panics.
pub(crate) struct GuardedBatches(Option<BatchReader>);

impl GuardedBatches {
    pub fn new(reader: BatchReader) -> GuardedBatches {
        GuardedBatches(Some(reader))
    }
}

impl Iterator for GuardedBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.0.as_mut()?;
        let batch = guarded(|| reader.next().transpose());
        if batch.is_err() {
            // What a panic leaves behind is not read any further.
            self.0 = None;
        }
        batch.transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use tidemill_core::error::Cause;

    use super::*;
    use crate::formats::{arrow_ipc as ipc, parquet as columns};

    /// Some rows as files of Arrow and of Parquet.
    fn files() -> [(Vec<u8>, bool); 3] {
        let numbers: ArrayRef = Arc::new((0..50).map(Some).collect::<Int64Array>());
        let texts: ArrayRef =
            Arc::new((0..50).map(|row| Some(format!("row {row}"))).collect::<StringArray>());
        let batch = RecordBatch::try_from_iter([("number", numbers), ("text", texts)]).unwrap();
        let mut file = Vec::new();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let mut stream = Vec::new();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let mut parquet = Vec::new();
        let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut parquet, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        [(file, false), (stream, false), (parquet, true)]
    }

    /// Reads the first batches of a file, as a query would.
    fn read(bytes: &[u8], is_parquet: bool) -> Result<usize, Cause> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let own = if is_parquet { columns::schema } else { ipc::schema };
        let schema = own("test", file.try_clone().unwrap())?;
        // All columns, and none: as count(*) reads.
        let every: Vec<usize> = (0..schema.fields().len()).collect();
        let mut rows = 0;
        for projection in [every.as_slice(), &[]] {
            let file = file.try_clone().unwrap();
            let (_, batches) = if is_parquet {
                columns::open("test", file, &schema, projection, 16)?
            } else {
                ipc::open("test", file, &schema, projection, 16)?
            };
            for batch in batches.take(8) {
                rows += batch.map_err(|error| Cause::user(error.to_string()))?.num_rows();
            }
        }
        Ok(rows)
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        // Any numbers do.
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let (mut good, mut bad) = (0, 0);
        for (bytes, is_parquet) in files() {
            assert!(read(&bytes, is_parquet).unwrap() >= 100);
            for _ in 0..700 {
                let mut damaged = bytes.clone();
                for _ in 0..=next(4) {
                    let place = next(damaged.len());
                    damaged[place] = [0, 0x7f, 0x80, 0xff, damaged[place] ^ (1 << next(8))][next(5)];
                }
                match read(&damaged, is_parquet) {
                    Ok(_) => good += 1,
                    Err(_) => bad += 1,
                }
            }
        }
        assert!(good > 100 && bad > 100, "{good} {bad}");
    }
}
