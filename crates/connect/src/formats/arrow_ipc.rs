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

use arrow_ipc::reader::{FileReader, StreamReader, read_footer_length};
use arrow_ipc::{root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tidemill_core::error::Cause;

use super::{BatchReader, Fit};
use crate::guarded::{GuardedBatches, guarded};

const FILE_MAGIC: &[u8] = b"ARROW1";

/// The columns of the file.
pub(crate) fn schema(place: &str, mut file: File) -> Result<SchemaRef, Cause> {
    let is_file = is_file(&mut file)?;
    check_lengths(&mut file, is_file).map_err(|error| explain(place, &error))?;
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

/// Checks that the parts of a file are not longer than the file, and rewinds to the beginning: the reader allocates what they claim, and a
/// process ends that asks for memory which the machine does not have.
fn check_lengths(file: &mut File, is_file: bool) -> Result<(), ArrowError> {
    let bytes = file.metadata()?.len();
    let is_within = if is_file {
        guarded(|| file_is_within(file, bytes))
    } else {
        guarded(|| stream_is_within(&mut BufReader::new(&mut *file), bytes))
    };
    file.seek(SeekFrom::Start(0))?;
    if is_within? {
        Ok(())
    } else {
        Err(ArrowError::ParseError(format!("a part is longer than the file of {bytes} bytes")))
    }
}

/// Whether the footer and all blocks that it names are within a file of this length in bytes.
fn file_is_within(file: &mut File, bytes: u64) -> Result<bool, ArrowError> {
    // The length of the footer and the magic bytes.
    let mut trailer = [0; 10];
    let Some(footer_end) = bytes.checked_sub(trailer.len() as u64) else { return Ok(false) };
    file.seek(SeekFrom::Start(footer_end))?;
    file.read_exact(&mut trailer)?;
    let footer_bytes = read_footer_length(trailer)?;
    let Some(footer_start) = footer_end.checked_sub(footer_bytes as u64) else { return Ok(false) };
    file.seek(SeekFrom::Start(footer_start))?;
    let mut footer = vec![0; footer_bytes];
    file.read_exact(&mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| ArrowError::ParseError(error.to_string()))?;
    let batches = footer.recordBatches().into_iter().flatten();
    let mut blocks = batches.chain(footer.dictionaries().into_iter().flatten());
    Ok(blocks.all(|block| {
        let lengths = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = lengths.iter().try_fold(0_u64, |end, length| end.checked_add(u64::try_from(*length).ok()?));
        end.is_some_and(|end| end <= bytes)
    }))
}

/// Whether all messages of a stream are within so many bytes.
fn stream_is_within(stream: &mut (impl Read + Seek), bytes: u64) -> Result<bool, ArrowError> {
    let mut rest = bytes;
    let mut metadata = Vec::new();
    loop {
        let mut length = [0; 4];
        // Old streams have no marker before the length, and some have no end.
        let mut prefix = 0;
        while prefix == 0 || (prefix == 4 && length == [0xff; 4]) {
            if rest < 4 {
                return Ok(true);
            }
            stream.read_exact(&mut length)?;
            (prefix, rest) = (prefix + 4, rest - 4);
        }
        let length = i32::from_le_bytes(length);
        if length == 0 {
            return Ok(true);
        }
        let Some(after) = u64::try_from(length).ok().and_then(|length| rest.checked_sub(length)) else {
            return Ok(false);
        };
        metadata.clear();
        stream.by_ref().take(rest - after).read_to_end(&mut metadata)?;
        let message =
            root_as_message(&metadata).map_err(|error| ArrowError::ParseError(error.to_string()))?;
        let body = message.bodyLength();
        let Some(after) = u64::try_from(body).ok().and_then(|body| after.checked_sub(body)) else {
            return Ok(false);
        };
        stream.seek_relative(body)?;
        rest = after;
    }
}

fn explain(place: &str, error: &ArrowError) -> Cause {
    Cause::user(format!("{place}: cannot be read as Arrow IPC: {error}; rewrite the file, or exclude it"))
}
