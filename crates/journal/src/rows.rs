//! Rows as bytes: Arrow IPC messages, without the schema, which is in the head of the segment.
//!
//! A record can be read without those before it: each record contains the dictionaries that it uses.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::Buffer;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamEncoder, write_message};
use arrow_ipc::{MessageHeader, MetadataVersion};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use tidemill_core::error::Cause;

/// Writes rows of one schema.
pub(crate) struct RowEncoder {
    schema: SchemaRef,
    /// For schemas without dictionaries: it remembers no rows, and returns the columns themselves instead of copies.
    plain: Option<StreamEncoder>,
}

/// Reads rows of one schema.
#[derive(Clone)]
pub(crate) struct RowDecoder {
    /// The schema that the reader wants.
    schema: SchemaRef,
    /// The schema as it was written, with the numbers of its dictionaries.
    written: SchemaRef,
    /// Where the reader's columns are among those that were written, if they are not in the same places; `None` in place of one:
    /// it was added since.
    places: Option<Arc<[Option<usize>]>>,
    views: usize,
}

/// A schema as an Arrow IPC message.
pub(crate) fn encode_schema(schema: &Schema) -> Vec<u8> {
    let mut tracker = DictionaryTracker::new(false);
    let options = IpcWriteOptions::default();
    IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options)
        .ipc_message
}

/// Reads what [`encode_schema`] wrote. Somebody may have made other bytes with a valid checksum, and Arrow panics on
/// some of those.
pub(crate) fn decode_schema(bytes: &[u8]) -> Result<Schema, String> {
    let message = arrow_ipc::root_as_message(bytes).map_err(|error| error.to_string())?;
    let schema = message.header_as_schema().ok_or("it contains something other than a schema")?;
    catch_unwind(AssertUnwindSafe(|| arrow_ipc::convert::fb_to_schema(schema)))
        .map_err(|_| "its schema is inconsistent".into())
}

impl RowEncoder {
    pub(crate) fn new(schema: SchemaRef) -> Result<RowEncoder, Cause> {
        let has_dictionary = flattened(&schema).iter().any(|kind| matches!(kind, DataType::Dictionary(..)));
        let mut encoder = RowEncoder { plain: None, schema };
        if !has_dictionary {
            let mut plain = StreamEncoder::try_new(&encoder.schema).map_err(refused)?;
            // The first call writes the schema, which records do not contain.
            plain.encode(&RecordBatch::new_empty(encoder.schema.clone())).map_err(refused)?;
            encoder.plain = Some(plain);
        }
        Ok(encoder)
    }

    /// The rows as messages, in consecutive parts.
    pub(crate) fn encode(&mut self, rows: &RecordBatch) -> Result<Vec<Buffer>, Cause> {
        let schema = rows.schema_ref();
        if !Arc::ptr_eq(schema, &self.schema) && schema.fields() != self.schema.fields() {
            let (rows, stream) = (fields_text(schema), fields_text(&self.schema));
            let message =
                format!("the journal of a stream with the columns ({stream}) got rows with ({rows})");
            return Err(Cause::bug(message));
        }
        match &mut self.plain {
            Some(plain) => plain.encode(rows).map_err(refused),
            None => self.encode_with_dictionaries(rows).map_err(refused),
        }
    }

    fn encode_with_dictionaries(&self, rows: &RecordBatch) -> Result<Vec<Buffer>, ArrowError> {
        let generator = IpcDataGenerator::default();
        let options = IpcWriteOptions::default();
        let mut tracker = DictionaryTracker::new(false);
        generator.schema_to_bytes_with_dictionary_tracker(&self.schema, &mut tracker, &options);
        let (dictionaries, batch) =
            generator.encode(rows, &mut tracker, &options, &mut Default::default())?;
        let mut bytes = Vec::new();
        for message in dictionaries.into_iter().chain([batch]) {
            write_message(&mut bytes, message, &options)?;
        }
        Ok(vec![Buffer::from_vec(bytes)])
    }
}

impl RowDecoder {
    /// Rows have `schema`; `written` is the schema in the head of their segment. Columns that were added since are NULL.
    ///
    /// # Errors
    /// If that cannot be.
    pub(crate) fn new(schema: SchemaRef, written: SchemaRef) -> Result<RowDecoder, String> {
        let is_view = |kind: &&DataType| matches!(kind, DataType::Utf8View | DataType::BinaryView);
        let views = flattened(&written).iter().filter(is_view).count();
        let are_same = schema.fields().len() == written.fields().len()
            && schema.fields().iter().zip(written.fields()).all(|(one, other)| one.name() == other.name());
        let places = if are_same { None } else { Some(places_of(&schema, &written)?) };
        Ok(RowDecoder { schema, written, places, views })
    }

    /// The columns of the rows that it reads.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Reads the same columns of rows in another segment, whose head says this.
    pub(crate) fn of_segment(&self, identity: &[u8]) -> Result<RowDecoder, String> {
        RowDecoder::new(self.schema.clone(), decode_schema(identity)?.into())
    }

    /// Reads the content of a record. Its columns share the memory if that is aligned.
    ///
    /// The checksum reveals what a broken disk does to a record. Somebody may still have made a record with a valid
    /// checksum and impossible columns, and Arrow panics on some of those.
    pub(crate) fn decode(&self, content: &Buffer) -> Result<RecordBatch, String> {
        catch_unwind(AssertUnwindSafe(|| self.decode_messages(content)))
            .unwrap_or_else(|_| Err("its columns are inconsistent".into()))
    }

    fn decode_messages(&self, content: &Buffer) -> Result<RecordBatch, String> {
        let mut dictionaries = HashMap::new();
        let mut offset = 0;
        while offset < content.len() {
            let (message, body) = self.message(content, &mut offset)?;
            match message.header_type() {
                MessageHeader::DictionaryBatch => {
                    let batch = message.header_as_dictionary_batch().ok_or("a dictionary without values")?;
                    self.check(batch.data().ok_or("a dictionary without values")?, &body, None)?;
                    let version = message.version();
                    arrow_ipc::reader::read_dictionary(
                        &body,
                        batch,
                        &self.written,
                        &mut dictionaries,
                        &version,
                    )
                    .map_err(|error| error.to_string())?;
                }
                MessageHeader::RecordBatch if offset == content.len() => {
                    let batch = message.header_as_record_batch().ok_or("rows without columns")?;
                    self.check(batch, &body, Some(self.views))?;
                    return self.rows(batch, &body, &dictionaries, message.version());
                }
                _ => return Err("a message that is neither rows nor a dictionary".into()),
            }
        }
        Err("it contains no rows".into())
    }

    fn rows(
        &self,
        batch: arrow_ipc::RecordBatch,
        body: &Buffer,
        dictionaries: &HashMap<i64, Arc<dyn Array>>,
        version: MetadataVersion,
    ) -> Result<RecordBatch, String> {
        let written = self.written.clone();
        let rows = arrow_ipc::reader::read_record_batch(body, batch, written, dictionaries, None, &version)
            .map_err(|error| error.to_string())?;
        let column = |(place, field): (&Option<usize>, &FieldRef)| match place {
            Some(place) => Arc::clone(rows.column(*place)),
            None => new_null_array(field.data_type(), rows.num_rows()),
        };
        let columns = match &self.places {
            Some(places) => places.iter().zip(self.schema.fields()).map(column).collect(),
            None => rows.columns().to_vec(),
        };
        let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &count)
            .map_err(|error| error.to_string())
    }

    /// The message at `offset`, and its body; advances the offset past it.
    fn message<'a>(
        &self,
        content: &'a Buffer,
        offset: &mut usize,
    ) -> Result<(arrow_ipc::Message<'a>, Buffer), String> {
        let bytes = &content.as_slice()[*offset..];
        let prefix = bytes.first_chunk::<8>().ok_or("a message is cut off")?;
        let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
        let metadata = bytes[8..].get(..length).ok_or("a message is cut off")?;
        let message = arrow_ipc::root_as_message(metadata).map_err(|error| error.to_string())?;
        let body_start = *offset + 8 + length;
        let body_length = usize::try_from(message.bodyLength()).map_err(|_| "a body of negative length")?;
        let body_end = body_start.checked_add(body_length).filter(|end| *end <= content.len());
        *offset = body_end.ok_or("the columns of a message are cut off")?;
        Ok((message, content.slice_with_length(body_start, body_length)))
    }

    /// Properties of a message that Arrow assumes and does not check.
    fn check(
        &self,
        batch: arrow_ipc::RecordBatch,
        body: &Buffer,
        views: Option<usize>,
    ) -> Result<(), String> {
        if batch.compression().is_some() {
            return Err("it is compressed, which journals are not".into());
        }
        let inside = |offset: i64, length: i64| {
            let end = u64::try_from(offset).ok()?.checked_add(u64::try_from(length).ok()?)?;
            (end <= body.len() as u64).then_some(())
        };
        for buffer in batch.buffers().iter().flatten() {
            inside(buffer.offset(), buffer.length()).ok_or("a column reaches beyond its record")?;
        }
        for node in batch.nodes().iter().flatten() {
            let lengths = (u32::try_from(node.length()), u32::try_from(node.null_count()));
            if !matches!(lengths, (Ok(length), Ok(nulls)) if nulls <= length) {
                return Err("a column has an impossible length".into());
            }
        }
        let variadic = batch.variadicBufferCounts().map_or(0, |counts| counts.len());
        if views.is_none_or(|views| views == variadic) && u32::try_from(batch.length()).is_ok() {
            Ok(())
        } else {
            Err("its columns are not those of the stream".into())
        }
    }
}

/// Where each column of a schema is in one that was written earlier; `None`: it was added since.
fn places_of(schema: &Schema, written: &Schema) -> Result<Arc<[Option<usize>]>, String> {
    let place = |field: &FieldRef| match written.index_of(field.name()).ok() {
        None if !field.is_nullable() => {
            Err(format!("it has no column '{}', which is NOT NULL", field.name()))
        }
        place => Ok(place),
    };
    schema.fields().iter().map(place).collect()
}

/// Whether a stream with the columns `written` may have got those of `schema`: each that it had is there, and each that it did
/// not have may be NULL.
pub(crate) fn is_widened(written: &Schema, schema: &Schema) -> bool {
    let is_there = |field: &FieldRef| {
        schema.field_with_name(field.name()).is_ok_and(|now| {
            now.data_type() == field.data_type() && (now.is_nullable() || !field.is_nullable())
        })
    };
    let may_be_null = |field: &FieldRef| written.index_of(field.name()).is_ok() || field.is_nullable();
    written.fields().iter().all(is_there) && schema.fields().iter().all(may_be_null)
}

/// Columns and their types, for a message.
pub(crate) fn fields_text(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    fields.map(|field| format!("{} {}", field.name(), field.data_type())).collect::<Vec<_>>().join(", ")
}

fn flattened(schema: &Schema) -> Vec<DataType> {
    schema.flattened_fields().iter().map(|field| field.data_type().clone()).collect()
}

fn refused(error: ArrowError) -> Cause {
    Cause::user(format!("these columns cannot be journaled: {error}; cast them to other types"))
        .with_source(error)
}
