//! Columns of texts: plain ones and dictionaries.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

/// How many bytes of a text are copied at once.
const COPIED_BYTES: usize = 32;
/// The number of slots in the cache in front of a dictionary's table.
const RECENT: usize = 1024;
/// A dictionary with more values than this is restarted with the next batch.
const VALUES_MAX: usize = 1 << 16;
/// So is one whose values have more bytes than this.
const VALUE_BYTES_MAX: usize = 1 << 24;

/// Texts one behind the other.
#[derive(Debug)]
pub(super) struct Plain {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl Default for Plain {
    fn default() -> Plain {
        Plain { bytes: Vec::new(), offsets: vec![0] }
    }
}

impl Plain {
    /// The text of this length at the beginning of `rest`.
    #[inline(always)]
    pub(super) fn push(&mut self, rest: &[u8], length: usize) {
        // A copy of a length known in advance is much faster; the excess is removed afterwards.
        match rest.first_chunk::<COPIED_BYTES>() {
            Some(block) if length <= COPIED_BYTES => {
                let end = self.bytes.len() + length;
                self.bytes.extend_from_slice(block);
                self.bytes.truncate(end);
            }
            _ => self.bytes.extend_from_slice(&rest[..length]),
        }
        // A batch is limited to far less than two gibibytes.
        self.offsets.push(self.bytes.len() as i32);
    }

    pub(super) fn pad(&mut self, rows: usize) {
        self.offsets.resize(rows + 1, self.bytes.len() as i32);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.bytes.truncate(self.offsets[rows] as usize);
    }

    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        // As large as this one was: the next batch will be like it.
        let next = Plain {
            bytes: Vec::with_capacity(self.bytes.len()),
            offsets: Vec::with_capacity(self.offsets.len()),
        };
        let Plain { bytes, offsets } = std::mem::replace(self, next);
        self.offsets.push(0);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
    }
}

/// Numbers of texts, and the texts. They are kept from batch to batch, so that batches share them.
#[derive(Debug)]
pub(super) struct Dictionary {
    keys: Vec<i32>,
    values: Plain,
    /// The values as an array, unless values were added since.
    array: Option<ArrayRef>,
    /// By a cheap hash: keys of recently seen values. Hostile values can only make it useless.
    recent: Box<[i32; RECENT]>,
    /// By a hash that nobody can predict: all values.
    table: HashMap<Box<[u8]>, i32>,
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary {
            keys: Vec::new(),
            values: Plain::default(),
            array: None,
            recent: Box::new([-1; RECENT]),
            table: HashMap::new(),
        }
    }
}

impl Dictionary {
    #[inline(always)]
    pub(super) fn push(&mut self, text: &[u8]) {
        let slot = cheap_hash(text);
        let recent = self.recent[slot];
        let key = if recent >= 0 && self.value(recent) == text { recent } else { self.intern(text, slot) };
        self.keys.push(key);
    }

    #[inline(always)]
    fn value(&self, key: i32) -> &[u8] {
        let key = key as usize;
        &self.values.bytes[self.values.offsets[key] as usize..self.values.offsets[key + 1] as usize]
    }

    #[inline(never)]
    fn intern(&mut self, text: &[u8], slot: usize) -> i32 {
        let key = match self.table.get(text) {
            Some(key) => *key,
            None => {
                let key = self.values.offsets.len() as i32 - 1;
                self.values.push(text, text.len());
                self.table.insert(text.into(), key);
                self.array = None;
                key
            }
        };
        self.recent[slot] = key;
        key
    }

    pub(super) fn pad(&mut self, rows: usize) {
        self.keys.resize(rows, 0);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.keys.truncate(rows);
    }

    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let next = Vec::with_capacity(self.keys.len());
        let keys = Int32Array::try_new(std::mem::replace(&mut self.keys, next).into(), nulls)?;
        let values = match &self.array {
            Some(array) => Arc::clone(array),
            None => self.array.insert(self.copy_values()?).clone(),
        };
        if self.table.len() > VALUES_MAX || self.values.bytes.len() > VALUE_BYTES_MAX {
            *self = Dictionary { keys: std::mem::take(&mut self.keys), ..Dictionary::default() };
        }
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
    }

    fn copy_values(&self) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.values.offsets.clone()));
        let bytes = Buffer::from_vec(self.values.bytes.clone());
        Ok(Arc::new(StringArray::try_new(offsets, bytes, None)?))
    }
}

/// A hash of the length and the first and last bytes.
#[inline(always)]
fn cheap_hash(text: &[u8]) -> usize {
    let word = |bytes: &[u8]| match bytes.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    let last = word(&text[text.len().saturating_sub(8)..]);
    let mixed = (word(text) ^ last.rotate_left(29) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - RECENT.ilog2())) as usize
}
