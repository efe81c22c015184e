//! Numbers keys: each combination of values of some columns gets a small number, in the order of arrival. For operators
//! that look keys up without adding them, forget some of them, and store them in snapshots; `groups` is for aggregates.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hashbrown::HashTable;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use crate::hash::of_integer;
use crate::normal::normalise;
use crate::state::damaged;
use crate::stored_rows::{kernel_error, read_rows, write_rows};

/// The number of a row without a key: one of its values is NULL where NULL equals nothing, or the key is not in the
/// table.
pub(crate) const NO_KEY: u32 = u32::MAX;

/// Keys and their numbers. Dictionaries count as their values, 0.0 equals -0.0, and NaN equals NaN.
#[derive(Debug)]
pub(crate) struct KeyTable {
    types: Vec<DataType>,
    nulls_are_equal: bool,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    /// No columns: all rows have the same key.
    Nothing,
    /// One column of values of at most 8 bytes.
    Word(Words),
    /// Anything else, in Arrow's row format.
    Bytes(Box<Bytes>),
}

#[derive(Debug, Default)]
struct Words {
    numbers: HashTable<(u64, u32)>,
    null: Option<u32>,
    count: u32,
}

#[derive(Debug)]
struct Bytes {
    converter: RowConverter,
    numbers: HashTable<u32>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyTable {
    /// An empty table of keys of these columns.
    pub fn new(schema: &Schema, columns: &[usize], nulls_are_equal: bool) -> Result<Self, Cause> {
        let types: Vec<_> =
            columns.iter().map(|column| value_type(schema.field(*column).data_type())).collect();
        let keys = match types.as_slice() {
            [] => Keys::Nothing,
            [only] if word_type(only).is_some() => Keys::Word(Words::default()),
            _ => Keys::Bytes(Box::new(Bytes::new(&types)?)),
        };
        Ok(KeyTable { types, nulls_are_equal, keys })
    }

    /// Refuses columns of another schema whose types differ from the table's.
    pub fn check_types(&self, schema: &SchemaRef, columns: &[usize]) -> Result<(), Cause> {
        let others = columns.iter().map(|column| value_type(schema.field(*column).data_type()));
        if others.clone().eq(self.types.iter().cloned()) {
            Ok(())
        } else {
            Err(Cause::bug(format!(
                "the keys of a join must have equal types, not {:?} and {:?}",
                self.types,
                others.collect::<Vec<_>>()
            )))
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::Nothing => 1,
            Keys::Word(words) => words.count as usize,
            Keys::Bytes(bytes) => bytes.ends.len(),
        }
    }

    /// The number of each row's key. New keys get the next numbers.
    pub fn intern(&mut self, rows: &RecordBatch, columns: &[usize]) -> Result<Vec<u32>, Cause> {
        let columns = self.values(rows, columns)?;
        let rows = rows.num_rows();
        let no_key = self.no_key(&columns);
        let mut numbers = Vec::with_capacity(rows);
        match &mut self.keys {
            Keys::Nothing => numbers.resize(rows, 0),
            Keys::Word(words) => {
                let (values, nulls) = as_words(&columns[0])?;
                let mut number = |row: usize| words.intern(values[row], is_null(nulls.as_ref(), row));
                numbers.extend(
                    (0..rows).map(|row| if is_null(no_key.as_ref(), row) { NO_KEY } else { number(row) }),
                );
            }
            Keys::Bytes(bytes) => {
                let keys = bytes.converter.convert_columns(&columns).map_err(kernel_error)?;
                let mut number = |row: usize| bytes.intern(keys.row(row).data());
                numbers.extend(
                    (0..rows).map(|row| if is_null(no_key.as_ref(), row) { NO_KEY } else { number(row) }),
                );
            }
        }
        Ok(numbers)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match &self.keys {
            Keys::Nothing => 0,
            Keys::Word(words) => words.numbers.allocation_size(),
            Keys::Bytes(bytes) => {
                bytes.bytes.capacity() + 8 * bytes.ends.capacity() + bytes.numbers.allocation_size()
            }
        }
    }

    /// The number of each row's key; [`NO_KEY`] for keys that are not in the table.
    pub fn find(&self, rows: &RecordBatch, columns: &[usize]) -> Result<Vec<u32>, Cause> {
        let columns = self.values(rows, columns)?;
        let rows = rows.num_rows();
        let no_key = self.no_key(&columns);
        let known = |row: usize| !is_null(no_key.as_ref(), row);
        Ok(match &self.keys {
            Keys::Nothing => vec![0; rows],
            Keys::Word(words) => {
                let (values, nulls) = as_words(&columns[0])?;
                let number = |row: usize| words.find(values[row], is_null(nulls.as_ref(), row));
                (0..rows).map(|row| known(row).then(|| number(row)).flatten().unwrap_or(NO_KEY)).collect()
            }
            Keys::Bytes(bytes) => {
                let keys = bytes.converter.convert_columns(&columns).map_err(kernel_error)?;
                let number = |row: usize| bytes.find(keys.row(row).data());
                (0..rows).map(|row| known(row).then(|| number(row)).flatten().unwrap_or(NO_KEY)).collect()
            }
        })
    }

    /// Removes the keys for which `keep` is false. Returns the new number of each old key.
    pub fn compact(&mut self, keep: &[bool]) -> Vec<u32> {
        let mut next = 0;
        let renumbered = keep.iter().map(|keep| {
            let number = if *keep { next } else { NO_KEY };
            next += u32::from(*keep);
            number
        });
        let renumbered: Vec<u32> = renumbered.collect();
        match &mut self.keys {
            Keys::Nothing => return vec![0],
            Keys::Word(words) => words.compact(&renumbered),
            Keys::Bytes(bytes) => bytes.compact(&renumbered),
        }
        renumbered
    }

    /// Writes the keys in the order of their numbers.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        match &self.keys {
            Keys::Nothing => {}
            Keys::Word(words) => {
                let mut values = vec![0; words.count as usize];
                words.numbers.iter().for_each(|(value, number)| values[*number as usize] = *value);
                writer.u32(words.null.unwrap_or(NO_KEY));
                writer.u64(values.len() as u64);
                values.into_iter().for_each(|value| writer.u64(value));
            }
            Keys::Bytes(bytes) => write_rows(writer, bytes.rows(&self.types).ok()),
        }
    }

    /// Reads keys into an empty table.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        match &mut self.keys {
            Keys::Nothing => {}
            Keys::Word(words) => {
                let null = reader.u32()?;
                for number in 0..reader.u64()? {
                    words.intern(reader.u64()?, number == u64::from(null));
                    if u64::from(words.count) != number + 1 {
                        return Err(damaged("it contains a key twice"));
                    }
                }
            }
            Keys::Bytes(_) => {
                let rows = read_rows(reader, &key_schema(&self.types))?;
                let columns: Vec<usize> = (0..self.types.len()).collect();
                self.intern(&rows, &columns)?;
                if self.len() != rows.num_rows() {
                    return Err(damaged("it contains a key twice"));
                }
            }
        }
        Ok(())
    }

    /// The key columns of a batch, converted so that equal values have equal bits.
    fn values(&self, rows: &RecordBatch, columns: &[usize]) -> Result<Vec<ArrayRef>, Cause> {
        let value = |(column, wanted): (&usize, &DataType)| normalise(rows.column(*column), wanted);
        columns.iter().zip(&self.types).map(value).collect()
    }

    fn no_key(&self, columns: &[ArrayRef]) -> Option<NullBuffer> {
        if self.nulls_are_equal {
            return None;
        }
        let nulls = columns.iter().map(|column| column.logical_nulls());
        nulls.fold(None, |all, nulls| NullBuffer::union(all.as_ref(), nulls.as_ref()))
    }
}

impl Words {
    fn find(&self, value: u64, is_null: bool) -> Option<u32> {
        if is_null {
            self.null
        } else {
            self.numbers.find(of_integer(value), |entry| entry.0 == value).map(|entry| entry.1)
        }
    }

    fn intern(&mut self, value: u64, is_null: bool) -> u32 {
        if let Some(number) = self.find(value, is_null) {
            return number;
        }
        let number = self.count;
        self.count += 1;
        if is_null {
            self.null = Some(number)
        } else {
            self.numbers.insert_unique(of_integer(value), (value, number), |e| of_integer(e.0));
        }
        number
    }

    fn compact(&mut self, renumbered: &[u32]) {
        let renumber = |number: u32| Some(renumbered[number as usize]).filter(|number| *number != NO_KEY);
        self.null = self.null.and_then(renumber);
        self.numbers.retain(|entry| match renumber(entry.1) {
            Some(number) => {
                entry.1 = number;
                true
            }
            None => false,
        });
        self.numbers.shrink_to_fit(|entry| of_integer(entry.0));
        self.count = renumbered.iter().filter(|number| **number != NO_KEY).count() as u32;
    }
}

impl Bytes {
    fn new(types: &[DataType]) -> Result<Self, Cause> {
        let fields = types.iter().cloned().map(SortField::new).collect();
        let unsupported = |error| {
            Cause::user(format!("columns of types {types:?} cannot be compared as keys: {error}"))
                .with_source(error)
        };
        let converter = RowConverter::new(fields).map_err(unsupported)?;
        Ok(Bytes { converter, numbers: HashTable::new(), bytes: Vec::new(), ends: Vec::new() })
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let found =
            self.numbers.find(hash_bytes(key), |number| key_of(&self.bytes, &self.ends, *number) == key);
        found.copied()
    }

    fn intern(&mut self, key: &[u8]) -> u32 {
        if let Some(number) = self.find(key) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let rehash = |number: &u32| hash_bytes(key_of(&self.bytes, &self.ends, *number));
        self.numbers.insert_unique(hash_bytes(key), number, rehash);
        number
    }

    /// The keys as rows.
    fn rows(&self, types: &[DataType]) -> Result<RecordBatch, Cause> {
        let parser = self.converter.parser();
        let keys =
            (0..self.ends.len() as u32).map(|number| parser.parse(key_of(&self.bytes, &self.ends, number)));
        let columns = self.converter.convert_rows(keys).map_err(kernel_error)?;
        RecordBatch::try_new(key_schema(types), columns).map_err(kernel_error)
    }

    fn compact(&mut self, renumbered: &[u32]) {
        let (bytes, ends) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
        self.numbers.clear();
        for number in (0..ends.len() as u32).filter(|number| renumbered[*number as usize] != NO_KEY) {
            self.intern(key_of(&bytes, &ends, number));
        }
    }
}

fn key_schema(types: &[DataType]) -> SchemaRef {
    let field = |data_type: &DataType| Field::new("key", data_type.clone(), true);
    Arc::new(Schema::new(types.iter().map(field).collect::<Vec<_>>()))
}

fn key_of<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[number]]
}

fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

/// The type of a dictionary's values, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    }
}

/// The unsigned type with the same bits, if values are compared by their bits and have at most 8 bytes.
fn word_type(data_type: &DataType) -> Option<u8> {
    use DataType::*;
    match data_type {
        Int8 | UInt8 => Some(1),
        Int16 | UInt16 => Some(2),
        Int32 | UInt32 | Date32 | Time32(_) => Some(4),
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(_, _) | Duration(_) => Some(8),
        _ => None,
    }
}

/// Whether values of the type are words for [`as_words`].
pub(crate) fn is_word(data_type: &DataType) -> bool {
    word_type(data_type).is_some()
}

/// The values' bits, and which values are NULL.
pub(crate) fn as_words(column: &ArrayRef) -> Result<(Vec<u64>, Option<NullBuffer>), Cause> {
    let width = word_type(column.data_type())
        .ok_or_else(|| Cause::bug(format!("values of type {} are not machine words", column.data_type())))?;
    let data = column.to_data();
    let (bits, offset, length) = (data.buffers()[0].clone(), data.offset(), data.len());
    let words = match width {
        1 => ScalarBuffer::<u8>::new(bits, offset, length).iter().map(|value| u64::from(*value)).collect(),
        2 => ScalarBuffer::<u16>::new(bits, offset, length).iter().map(|value| u64::from(*value)).collect(),
        4 => ScalarBuffer::<u32>::new(bits, offset, length).iter().map(|value| u64::from(*value)).collect(),
        _ => ScalarBuffer::<u64>::new(bits, offset, length).to_vec(),
    };
    Ok((words, column.nulls().filter(|nulls| nulls.null_count() > 0).cloned()))
}

/// A hash of bytes with fewer steps than [`of_bytes`](crate::hash::of_bytes) for the strings of lookups.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.fold(bytes.len() as u64, |hash, word| of_integer(hash ^ word));
    of_integer(hash ^ u64::from_le_bytes(last))
}
