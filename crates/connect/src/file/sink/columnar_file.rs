//! A file of columns, Parquet or Arrow IPC, that is readable once it is closed.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tidemill_core::Cause;

use super::file_format::{FileFormat, SyncPolicy};
use super::text_file::{open_failed, write_failed};

/// A row group is closed at the first commit after this many rows.
const ROW_GROUP_ROWS: usize = 1 << 17;
/// A row group is closed at the first commit after this many bytes, so that memory stays bounded.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A file that is being written.
pub(crate) struct ColumnarFile {
    path: PathBuf,
    writer: Writer,
}

enum Writer {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    ArrowIpc { writer: Box<FileWriter<BufWriter<File>>>, schema: SchemaRef },
}

impl ColumnarFile {
    /// Creates the file, and replaces any existing one.
    pub fn create(path: &Path, format: &FileFormat, schema: &SchemaRef) -> Result<ColumnarFile, Cause> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = BufWriter::new(file.map_err(|error| open_failed(path, error))?);
        let writer = match format {
            FileFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(None);
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties.build()));
                Writer::Parquet(Box::new(writer.map_err(|error| parquet_failed(path, error))?))
            }
            _ => {
                let schema = without_dictionaries(schema);
                let writer = FileWriter::try_new(file, &schema).map_err(|error| arrow_failed(path, error))?;
                Writer::ArrowIpc { writer: Box::new(writer), schema }
            }
        };
        Ok(ColumnarFile { path: path.to_owned(), writer })
    }

    /// Writes the rows of a range of commits.
    pub fn write(&mut self, batches: &[RecordBatch]) -> Result<(), Cause> {
        match &mut self.writer {
            Writer::Parquet(writer) => {
                let mut write = || -> Result<(), ParquetError> {
                    batches.iter().try_for_each(|rows| writer.write(rows))?;
                    let is_full = writer.in_progress_rows() >= ROW_GROUP_ROWS
                        || writer.in_progress_size() >= ROW_GROUP_BYTES;
                    if is_full { writer.flush() } else { Ok(()) }
                };
                write().map_err(|error| parquet_failed(&self.path, error))
            }
            Writer::ArrowIpc { writer, schema } => {
                let write = |rows| writer.write(&as_values(rows, schema)?);
                batches.iter().try_for_each(write).map_err(|error| arrow_failed(&self.path, error))
            }
        }
    }

    /// The approximate size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        match &self.writer {
            Writer::Parquet(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
            Writer::ArrowIpc { writer, .. } => {
                let file = writer.get_ref();
                let on_disk = file.get_ref().metadata().map_or(0, |metadata| metadata.len());
                on_disk + file.buffer().len() as u64
            }
        }
    }

    /// Writes the end of the file and closes it.
    pub fn finish(self, sync: SyncPolicy) -> Result<(), Cause> {
        let path = &self.path;
        let buffered = match self.writer {
            Writer::Parquet(writer) => writer.into_inner().map_err(|error| parquet_failed(path, error))?,
            Writer::ArrowIpc { writer, .. } => {
                writer.into_inner().map_err(|error| arrow_failed(path, error))?
            }
        };
        let file = buffered.into_inner().map_err(|error| write_failed(path, error.into_error()))?;
        match sync {
            SyncPolicy::Never => Ok(()),
            _ => file.sync_all().map_err(|error| write_failed(path, error)),
        }
    }
}

/// A schema in which dictionaries are replaced by their values: an IPC file can hold only one dictionary per
/// column, and each batch has its own.
fn without_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(field_without).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn field_without(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::List(item) => DataType::List(field_without(item)),
        DataType::LargeList(item) => DataType::LargeList(field_without(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field_without).collect()),
        _ => return field.clone(),
    };
    let plain = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

fn as_values(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let convert = |(column, field): (&ArrayRef, &FieldRef)| {
        if column.data_type() == field.data_type() {
            Ok(column.clone())
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = rows.columns().iter().zip(schema.fields()).map(convert).collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema.clone(), columns)
}

fn arrow_failed(path: &Path, error: ArrowError) -> Cause {
    match error {
        ArrowError::IoError(_, error) => write_failed(path, error),
        other => {
            Cause::user(format!("'{}' cannot hold these rows: {other}; cast the column", path.display()))
                .with_source(other)
        }
    }
}

fn parquet_failed(path: &Path, error: ParquetError) -> Cause {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => write_failed(path, *error),
            Err(other) => Cause::operation(format!("'{}' cannot be written: {other}", path.display())),
        },
        ParquetError::NYI(reason) => {
            Cause::user(format!("'{}' cannot hold these rows: {reason}; cast the column", path.display()))
        }
        other => {
            Cause::operation(format!("'{}' cannot be written: {other}", path.display())).with_source(other)
        }
    }
}
