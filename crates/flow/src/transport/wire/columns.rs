//! Columns as bytes. Plain columns, of numbers and times, are sent as their buffers, and the message describes them in
//! a few bytes. All others travel as a stream of Arrow IPC, whose description takes ten times as long.
//!
//! The fields are the columns in order: kind, flags, length of the name in 16 bits, name. Kind 0 is the next of the
//! other columns, without a name; kind n is type n of the list of plain types. Flag 1: it may be null; flag 2: some
//! values are. The buffers of a plain column are, if some values are null, one bit per row that is set if there is a
//! value; and its values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, GenericByteViewArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, downcast_primitive,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use tidemill_core::error::Cause;

use super::{ALIGNMENT, Rest, values};
use crate::panics::guard;

/// The types of plain columns; their indexes in this list are part of the format.
const PLAIN: [DataType; 21] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
    DataType::Duration(TimeUnit::Second),
    DataType::Duration(TimeUnit::Millisecond),
    DataType::Duration(TimeUnit::Microsecond),
    DataType::Duration(TimeUnit::Nanosecond),
];
const OTHER: u8 = 0;
const NULLABLE: u8 = 1;
const HAS_NULLS: u8 = 2;

/// The columns of a batch, as parts of a message.
pub(super) struct Columns {
    pub fields: Buffer,
    /// One part, in pieces; empty if all columns are plain. It also contains the schema.
    pub others: Vec<Buffer>,
    pub plain: Vec<Buffer>,
}

pub(super) fn encode(rows: &RecordBatch) -> Columns {
    let schema = rows.schema_ref();
    let (mut fields, mut plain, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (field, column)) in schema.fields().iter().zip(rows.columns()).enumerate() {
        match kind_of(field) {
            OTHER => {
                fields.extend([OTHER, 0, 0, 0]);
                others.push(index);
            }
            kind => encode_plain(kind, field, column, &mut fields, &mut plain),
        }
    }
    let others = if others.is_empty() && schema.metadata().is_empty() {
        Vec::new()
    } else {
        encode_others(&rows.project(&others).expect("these are columns of it"))
    };
    Columns { fields: Buffer::from_vec(fields), others, plain }
}

fn kind_of(field: &Field) -> u8 {
    if !field.metadata().is_empty() || field.name().len() > usize::from(u16::MAX) {
        return OTHER;
    }
    let place = PLAIN.iter().position(|plain| plain == field.data_type());
    place.map_or(OTHER, |place| place as u8 + 1)
}

fn encode_plain(kind: u8, field: &Field, column: &ArrayRef, fields: &mut Vec<u8>, buffers: &mut Vec<Buffer>) {
    let data = column.to_data();
    let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    fields.extend([kind, flag(field.is_nullable(), NULLABLE) | flag(nulls.is_some(), HAS_NULLS)]);
    fields.extend((field.name().len() as u16).to_le_bytes());
    fields.extend(field.name().as_bytes());
    buffers.extend(nulls.map(|nulls| nulls.inner().sliced()));
    buffers.push(data.buffers()[0].clone());
}

fn encode_others(rows: &RecordBatch) -> Vec<Buffer> {
    let rows = &without_unseen_texts(rows);
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5);
    let encoder = options.and_then(|options| StreamEncoder::try_new_with_options(rows.schema_ref(), options));
    let pieces = encoder.and_then(|mut encoder| Ok([encoder.encode(rows)?, encoder.finish()?].concat()));
    pieces.expect("Arrow IPC takes columns of all types that a plan may have")
}

/// A column of views refers to texts that other rows may use as well, and would take all of them along.
fn without_unseen_texts(rows: &RecordBatch) -> RecordBatch {
    let has_views = |field: &FieldRef| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
    if !rows.schema_ref().fields().iter().any(has_views) {
        return rows.clone();
    }
    let seen = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => Arc::new(compact(column.as_string_view())) as _,
        DataType::BinaryView => Arc::new(compact(column.as_binary_view())) as _,
        _ => Arc::clone(column),
    };
    let columns = rows.columns().iter().map(seen).collect();
    batch(Arc::unwrap_or_clone(rows.schema()), columns, rows.num_rows()).expect("the same types and lengths")
}

fn compact<T: ByteViewType>(views: &GenericByteViewArray<T>) -> GenericByteViewArray<T> {
    let length: usize = views.data_buffers().iter().map(Buffer::len).sum();
    if length / 2 > views.total_buffer_bytes_used() { views.gc() } else { views.clone() }
}

fn batch(schema: Schema, columns: Vec<ArrayRef>, row_count: usize) -> Option<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(row_count));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).ok()
}

/// Decodes columns of this many rows; the buffers of plain ones are read from the rest of the message.
pub(super) fn decode(
    fields: &[u8],
    others: Buffer,
    row_count: usize,
    rest: &mut Rest,
) -> Option<RecordBatch> {
    let others = if others.is_empty() {
        RecordBatch::new_empty(Arc::new(Schema::empty()))
    } else {
        decode_others(others)?
    };
    let (schema, mut fields) = (others.schema_ref(), fields);
    let mut next = schema.fields().iter().zip(others.columns());
    let (mut found, mut columns) = (Vec::new(), Vec::new());
    while let Some(([kind, flags, length @ ..], behind)) = fields.split_first_chunk::<4>() {
        let (name, behind) = behind.split_at_checked(u16::from_le_bytes(*length).into())?;
        fields = behind;
        if *kind == OTHER {
            let (field, column) = next.next()?;
            found.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let data_type = PLAIN.get(usize::from(*kind) - 1)?;
        let nulls = if flags & HAS_NULLS > 0 { Some(decode_nulls(row_count, rest)?) } else { None };
        columns.push(decode_plain(data_type, row_count, nulls, rest)?);
        let name = std::str::from_utf8(name).ok()?;
        found.push(Arc::new(Field::new(name, data_type.clone(), flags & NULLABLE > 0)));
    }
    let is_whole = fields.is_empty() && next.next().is_none();
    let schema = Schema::new_with_metadata(found, schema.metadata().clone());
    is_whole.then(|| batch(schema, columns, row_count))?
}

fn decode_nulls(row_count: usize, rest: &mut Rest) -> Option<NullBuffer> {
    let bits = rest.part(row_count.div_ceil(8) as u64)?;
    Some(NullBuffer::new(BooleanBuffer::new(bits, 0, row_count)))
}

fn decode_plain(
    data_type: &DataType,
    row_count: usize,
    nulls: Option<NullBuffer>,
    rest: &mut Rest,
) -> Option<ArrayRef> {
    let bytes = rest.part(row_count.checked_mul(data_type.primitive_width()?)? as u64)?;
    macro_rules! primitive {
        ($type:ty) => {
            primitive::<$type>(bytes, nulls)
        };
    }
    downcast_primitive!(data_type => (primitive), _ => None)
}

fn primitive<T: ArrowPrimitiveType>(bytes: Buffer, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    Some(Arc::new(PrimitiveArray::<T>::try_new(values(bytes)?, nulls).ok()?))
}

/// Arrow checks what it reads, and panics on some invalid input.
fn decode_others(part: Buffer) -> Option<RecordBatch> {
    guard(|| first_batch(part).ok_or_else(|| Cause::bug("these bytes are not columns"))).ok()
}

fn first_batch(mut part: Buffer) -> Option<RecordBatch> {
    let mut decoder = StreamDecoder::new();
    while !part.is_empty() {
        if let Some(rows) = decoder.decode(&mut part).ok()? {
            return Some(rows);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray};

    use super::*;

    #[test]
    fn fields_that_contradict_the_columns_are_none() {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int32Array::from(vec![1, 2]))),
            ("t", Arc::new(StringArray::from(vec!["a", "b"]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let Columns { fields, others, plain } = encode(&rows);
        let others = Buffer::from_vec(others.iter().flat_map(|piece| piece.to_vec()).collect());
        let decode = |fields: &[u8]| decode(fields, others.clone(), 2, &mut Rest(plain[0].clone()));
        assert_eq!(decode(&fields).unwrap(), rows);
        let (number, text) = fields.split_at(5);
        assert!(decode(number).is_none(), "a column is left");
        assert!(decode(text).is_some(), "the rest of the message is not looked at");
        assert!(decode(&[&fields[..], &[0]].concat()).is_none(), "half a field");
        assert!(decode(&[&fields[..], text].concat()).is_none(), "a column too many");
        assert!(decode(&[&fields[..], number].concat()).is_none(), "a buffer too many");
        for (place, wrong) in [(0, PLAIN.len() as u8 + 1), (1, HAS_NULLS), (2, 9), (4, 0xff)] {
            let mut fields = fields.to_vec();
            fields[place] = wrong;
            assert!(decode(&fields).is_none(), "{wrong} at {place}");
        }
    }
}
