//! Groups by one column of strings or byte strings, whose bytes are hashed and compared in place.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use hashbrown::HashTable;
use tidemill_core::Cause;

use crate::arrow_bug::arrow_bug;
use crate::hash;

/// The groups of a column of byte strings.
#[derive(Debug)]
pub(super) struct TextTable {
    data_type: DataType,
    /// The keys of all groups, one after the other, and where each ends; the key of NULL is empty.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    groups: HashTable<u32>,
    null_group: Option<u32>,
}

impl TextTable {
    /// Whether keys of this type are byte strings in one buffer.
    pub fn supports(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
    }

    /// No groups of keys of this type.
    pub fn new(data_type: &DataType) -> Self {
        TextTable {
            data_type: data_type.clone(),
            bytes: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
            groups: HashTable::new(),
            null_group: None,
        }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let per_group = 8 * (self.ends.capacity() + self.hashes.capacity());
        self.bytes.capacity() + per_group + self.groups.allocation_size()
    }

    /// Removes all groups.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.groups.clear();
        self.null_group = None;
    }

    /// The keys of these groups.
    pub fn keys(&self, ids: &[u32]) -> Result<ArrayRef, Cause> {
        match self.data_type {
            DataType::Utf8 => self.keys_of::<Utf8Type>(ids),
            DataType::LargeUtf8 => self.keys_of::<LargeUtf8Type>(ids),
            DataType::Binary => self.keys_of::<BinaryType>(ids),
            _ => self.keys_of::<LargeBinaryType>(ids),
        }
    }

    fn keys_of<T: ByteArrayType>(&self, ids: &[u32]) -> Result<ArrayRef, Cause> {
        let too_long =
            || Cause::resource("the keys of a result are longer than 2^31 bytes; lower max_groups");
        let (mut bytes, mut offsets) = (Vec::new(), vec![T::Offset::default()]);
        for id in ids {
            bytes.extend_from_slice(key_of(&self.bytes, &self.ends, *id));
            offsets.push(T::Offset::from_usize(bytes.len()).ok_or_else(too_long)?);
        }
        let has_null = self.null_group.is_some_and(|null| ids.contains(&null));
        let nulls = has_null.then(|| ids.iter().map(|id| Some(*id) != self.null_group).collect());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let keys = GenericByteArray::<T>::try_new(offsets, bytes.into(), nulls);
        Ok(Arc::new(keys.map_err(arrow_bug("keys"))?))
    }

    /// Appends the group of each row.
    pub fn intern(&mut self, column: &ArrayRef, ids: &mut Vec<u32>) {
        match self.data_type {
            DataType::Utf8 => self.intern_values(column.as_bytes::<Utf8Type>(), ids),
            DataType::LargeUtf8 => self.intern_values(column.as_bytes::<LargeUtf8Type>(), ids),
            DataType::Binary => self.intern_values(column.as_bytes::<BinaryType>(), ids),
            _ => self.intern_values(column.as_bytes::<LargeBinaryType>(), ids),
        }
    }

    fn intern_values<T: ByteArrayType>(&mut self, column: &GenericByteArray<T>, ids: &mut Vec<u32>) {
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        ids.extend((0..column.len()).map(|row| match nulls {
            Some(nulls) if nulls.is_null(row) => self.null(),
            _ => {
                let key: &[u8] = column.value(row).as_ref();
                self.group(key)
            }
        }));
    }

    #[inline]
    fn group(&mut self, key: &[u8]) -> u32 {
        let hash = hash::of_bytes(key);
        let is_same = |group: &u32| {
            self.hashes[*group as usize] == hash && key_of(&self.bytes, &self.ends, *group) == key
        };
        match self.groups.find(hash, is_same) {
            Some(group) => *group,
            None => self.insert(key, hash),
        }
    }

    #[cold]
    fn insert(&mut self, key: &[u8], hash: u64) -> u32 {
        let group = self.ends.len() as u32;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        self.groups.insert_unique(hash, group, |group| self.hashes[*group as usize]);
        group
    }

    fn null(&mut self) -> u32 {
        if self.null_group.is_none() {
            self.null_group = Some(self.ends.len() as u32);
            self.ends.push(self.bytes.len());
            self.hashes.push(0);
        }
        self.null_group.unwrap_or_default()
    }
}

fn key_of<'a>(bytes: &'a [u8], ends: &[usize], group: u32) -> &'a [u8] {
    let group = group as usize;
    let start = if group == 0 { 0 } else { ends[group - 1] };
    &bytes[start..ends[group]]
}
