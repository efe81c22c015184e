//! Arrow IPC: the file format ("Feather version 2") and the stream format, which differ in their first bytes. Bodies
//! may not be compressed.
//!
//! ```
//! use std::time::Duration;
//! use tidemill_connect::file::{FileSettings, FileSource};
//! use tidemill_core::source::{Polled, Source};
//! # use std::sync::Arc;
//! # use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("prices.arrow");
//! # let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
//! # let batch = RecordBatch::try_from_iter([("id", ids.clone()), ("price", ids)])?;
//! # let file = std::fs::File::create(&path)?;
//! # let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema())?;
//! # writer.write(&batch)?;
//! # writer.finish()?;
//!
//! let mut source = FileSource::open(FileSettings::new(path.display().to_string()))?;
//! let Polled::Rows(rows) = source.poll(Duration::from_secs(1))? else { panic!("there are rows") };
//! assert_eq!((rows.num_rows(), rows.num_columns()), (2, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tidemill_core::error::Cause;

use super::{BatchReader, Fit};
use crate::guarded::{GuardedBatches, guarded};

const FILE_MAGIC: &[u8] = b"ARROW1";

/// The columns of the file.
pub(crate) fn schema(place: &str, mut file: File) -> Result<SchemaRef, Cause> {
    let is_file = is_file(&mut file)?;
    let input = BufReader::new(file);
    let schema = guarded(|| {
        if is_file {
            FileReader::try_new(input, None).map(|reader| reader.schema())
        } else {
            StreamReader::try_new(input, None).map(|reader| reader.schema())
        }
    });
    schema.map_err(|error| explain(place, &error))
}

/// Reads the selected ones of the declared columns.
pub(crate) fn open(
    place: &str,
    mut file: File,
    declared: &Schema,
    projection: &[usize],
    batch_rows: usize,
) -> Result<(Fit, BatchReader), Cause> {
    let own = schema(place, file.try_clone()?)?;
    let fit = Fit::new(place, &own, declared, projection)?;
    let columns = Some(fit.read.clone());
    let is_file = is_file(&mut file)?;
    let input = BufReader::new(file);
    let reader = guarded(|| -> Result<BatchReader, ArrowError> {
        Ok(if is_file {
            Box::new(FileReader::try_new(input, columns)?)
        } else {
            Box::new(StreamReader::try_new(input, columns)?)
        })
    });
    let reader = GuardedBatches::new(reader.map_err(|error| explain(place, &error))?);
    // The batches of the file may be of any size, and one without columns may have any number of rows: they are cut as they are read.
    let sliced = reader.flat_map(move |batch| {
        let (batch, error) = match batch {
            Ok(batch) => (Some(batch), None),
            Err(error) => (None, Some(error)),
        };
        let slices = batch.into_iter().flat_map(move |batch| {
            let rows = batch.num_rows();
            let firsts = (0..rows).step_by(batch_rows);
            firsts.map(move |first| Ok(batch.slice(first, batch_rows.min(rows - first))))
        });
        slices.chain(error.map(Err))
    });
    Ok((fit, Box::new(sliced)))
}

/// Whether it is a file and not a stream; rewinds to the beginning.
fn is_file(file: &mut File) -> Result<bool, Cause> {
    let mut magic = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(magic == FILE_MAGIC)
}

fn explain(place: &str, error: &ArrowError) -> Cause {
    Cause::user(format!("{place}: cannot be read as Arrow IPC: {error}; rewrite the file, or exclude it"))
}
