//! Apache Parquet, without compression or with Snappy or Zstandard. Only the columns that are needed are
//! read.
//!
//! ```
//! use std::time::Duration;
//! use tidemill_connect::file::{FileSettings, FileSource};
//! use tidemill_core::source::{Polled, Source};
//! # use std::sync::Arc;
//! # use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("prices.parquet");
//! # let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
//! # let batch = RecordBatch::try_from_iter([("id", ids.clone()), ("price", ids)])?;
//! # let file = std::fs::File::create(&path)?;
//! # let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None)?;
//! # writer.write(&batch)?;
//! # writer.close()?;
//!
//! let mut source = FileSource::open(FileSettings::new(path.display().to_string()))?;
//! source.set_projection(&[1])?;
//! let Polled::Rows(rows) = source.poll(Duration::from_secs(1))? else { panic!("there are rows") };
//! assert_eq!((rows.num_rows(), rows.schema().field(0).name().as_str()), (2, "price"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;

use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use tidemill_core::error::Cause;

use super::{BatchReader, Fit};
use crate::guarded::{GuardedBatches, guarded};

/// Opens the file: returns its columns and its number of rows.
fn builder(place: &str, file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, Cause> {
    guarded(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(|error| explain(place, &error))
}

/// The columns of the file.
pub(crate) fn schema(place: &str, file: File) -> Result<SchemaRef, Cause> {
    Ok(builder(place, file)?.schema().clone())
}

/// Reads the selected ones of the declared columns.
pub(crate) fn open(
    place: &str,
    file: File,
    declared: &Schema,
    projection: &[usize],
    batch_rows: usize,
) -> Result<(Fit, BatchReader), Cause> {
    let builder = builder(place, file)?;
    let fit = Fit::new(place, builder.schema(), declared, projection)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), fit.read.iter().copied());
    let reader = guarded(|| builder.with_projection(mask).with_batch_size(batch_rows).build());
    let reader = reader.map_err(|error| explain(place, &error))?;
    Ok((fit, Box::new(GuardedBatches::new(Box::new(reader)))))
}

fn explain(place: &str, error: &ParquetError) -> Cause {
    Cause::user(format!("{place}: cannot be read as Parquet: {error}; rewrite the file, or exclude it"))
}
