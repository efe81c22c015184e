//! The index of a dimension: where its rows are, by key.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use hashbrown::HashTable;
use tidemill_core::error::Cause;

use crate::keys::{KeyTable, NO_KEY, as_words, hash_bytes, is_word, value_type};

/// Maps keys to entries: rows of the table if each key has one, otherwise numbers of keys. [`NO_KEY`]: none.
#[derive(Debug)]
pub(super) enum Index {
    /// One column of words in a narrow range: an entry for each value from `first` on.
    Range { first: u64, entries: Vec<u32> },
    /// One column of words, with open addressing.
    Words(WordTable),
    /// One column of strings.
    Strings(StringTable),
    /// Anything else: numbers of keys, and their entries.
    Keys { keys: KeyTable, entries: Vec<u32> },
}

#[derive(Debug)]
pub(super) struct WordTable {
    /// Value and entry; [`NO_KEY`]: free. Their number is a power of two.
    slots: Vec<(u64, u32)>,
    shift: u32,
}

#[derive(Debug)]
pub(super) struct StringTable {
    /// By number, where the string ends in `bytes`, and its entry. A string begins where the previous one ends.
    strings: Vec<(usize, u32)>,
    bytes: Vec<u8>,
    numbers: HashTable<u32>,
}

impl Index {
    /// An index of these key columns. Row `i` has entry `entries[i]`, or [`NO_KEY`] if it has none.
    pub fn new(
        table: &RecordBatch,
        columns: &[usize],
        keys: KeyTable,
        entries: &[u32],
    ) -> Result<Index, Cause> {
        let [column] = columns else { return Self::by_number(keys, table, columns, entries) };
        let column = table.column(*column);
        match column.data_type() {
            data_type if is_word(data_type) => Ok(Self::of_words(&as_words(column)?.0, entries)),
            data_type if is_string(data_type) => Ok(Index::Strings(StringTable::new(column, entries))),
            _ => Self::by_number(keys, table, columns, entries),
        }
    }

    fn by_number(
        keys: KeyTable,
        table: &RecordBatch,
        columns: &[usize],
        entries: &[u32],
    ) -> Result<Index, Cause> {
        let mut by_number = vec![NO_KEY; keys.len()];
        for (number, entry) in keys.find(table, columns)?.iter().zip(entries) {
            if *number != NO_KEY {
                by_number[*number as usize] = *entry;
            }
        }
        Ok(Index::Keys { keys, entries: by_number })
    }

    fn of_words(words: &[u64], entries: &[u32]) -> Index {
        let known = || words.iter().zip(entries).filter(|(_, entry)| **entry != NO_KEY);
        let first = known().map(|(word, _)| *word as i64).min().unwrap_or(0) as u64;
        let span = known().map(|(word, _)| word.wrapping_sub(first)).max().unwrap_or(0);
        if span > 4 * words.len() as u64 + 1024 {
            return Index::Words(WordTable::new(known()));
        }
        let mut range = vec![NO_KEY; span as usize + 1];
        known().for_each(|(word, entry)| range[word.wrapping_sub(first) as usize] = *entry);
        Index::Range { first, entries: range }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match self {
            Index::Range { entries, .. } => 4 * entries.capacity(),
            Index::Words(words) => words.slots.capacity() * size_of::<(u64, u32)>(),
            Index::Strings(strings) => {
                let ends = strings.strings.capacity() * size_of::<(usize, u32)>();
                ends + strings.bytes.capacity() + strings.numbers.allocation_size()
            }
            Index::Keys { keys, entries } => keys.bytes() + 4 * entries.capacity(),
        }
    }

    /// The entry of each row of these columns.
    pub fn find(&self, rows: &RecordBatch, columns: &[usize]) -> Result<Vec<u32>, Cause> {
        match (self, columns) {
            (Index::Keys { keys, entries }, _) => {
                let entry = |number: &u32| entries.get(*number as usize).copied().unwrap_or(NO_KEY);
                Ok(keys.find(rows, columns)?.iter().map(entry).collect())
            }
            (_, [column]) => self.find_single(rows.column(*column)),
            _ => Err(Cause::bug("an index of one column got several columns")),
        }
    }

    /// The entry of each value of the only key column. Not for dictionaries.
    pub fn find_single(&self, column: &ArrayRef) -> Result<Vec<u32>, Cause> {
        let mut found = match self {
            Index::Range { first, entries } => {
                let of =
                    |word: &u64| entries.get(word.wrapping_sub(*first) as usize).copied().unwrap_or(NO_KEY);
                of_words(column, of)?
            }
            Index::Words(table) => of_words(column, |word| table.find(*word))?,
            Index::Strings(table) => of_strings(column, |bytes| table.find(bytes)),
            Index::Keys { .. } => {
                let rows = RecordBatch::try_from_iter_with_nullable([("key", column.clone(), true)]);
                return self.find(&rows.map_err(crate::stored_rows::kernel_error)?, &[0]);
            }
        };
        forget_nulls(&mut found, column.nulls());
        Ok(found)
    }
}

impl WordTable {
    fn new<'a>(known: impl Iterator<Item = (&'a u64, &'a u32)> + Clone) -> Self {
        let capacity = (2 * known.clone().count()).next_power_of_two().max(2);
        let mut table =
            WordTable { slots: vec![(0, NO_KEY); capacity], shift: 64 - capacity.trailing_zeros() };
        for (word, entry) in known {
            let slot = table.slot_of(*word);
            table.slots[slot] = (*word, *entry);
        }
        table
    }

    /// The slot that has the value, or the free slot where it belongs. At least half of them are free.
    #[inline]
    fn slot_of(&self, word: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize & mask;
        while self.slots[slot].1 != NO_KEY && self.slots[slot].0 != word {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[inline]
    fn find(&self, word: u64) -> u32 {
        self.slots[self.slot_of(word)].1
    }
}

impl StringTable {
    fn new(column: &ArrayRef, entries: &[u32]) -> Self {
        let mut table = StringTable { strings: Vec::new(), bytes: Vec::new(), numbers: HashTable::new() };
        let mut row = 0;
        of_strings(column, |string| {
            let entry = entries[row];
            row += 1;
            if entry != NO_KEY && table.find(string) == NO_KEY {
                table.insert(string, entry);
            }
            entry
        });
        table
    }

    fn insert(&mut self, string: &[u8], entry: u32) {
        let number = self.strings.len() as u32;
        self.bytes.extend_from_slice(string);
        self.strings.push((self.bytes.len(), entry));
        let (strings, bytes) = (&self.strings, &self.bytes);
        let rehash = |number: &u32| hash_bytes(string_of(strings, bytes, *number));
        self.numbers.insert_unique(hash_bytes(string), number, rehash);
    }

    fn find(&self, string: &[u8]) -> u32 {
        let is_same = |number: &u32| string_of(&self.strings, &self.bytes, *number) == string;
        self.numbers
            .find(hash_bytes(string), is_same)
            .map_or(NO_KEY, |number| self.strings[*number as usize].1)
    }
}

fn string_of<'a>(strings: &[(usize, u32)], bytes: &'a [u8], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| strings[before].0);
    &bytes[start..strings[number].0]
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn of_words(column: &ArrayRef, mut entry: impl FnMut(&u64) -> u32) -> Result<Vec<u32>, Cause> {
    if column.data_type().primitive_width() != Some(8) {
        return Ok(as_words(column)?.0.iter().map(entry).collect());
    }
    let data = column.to_data();
    let words = ScalarBuffer::<u64>::new(data.buffers()[0].clone(), data.offset(), data.len());
    let mut found = Vec::with_capacity(words.len());
    found.extend(words.iter().map(&mut entry));
    Ok(found)
}

/// The entries of strings; NULLs count as empty strings.
fn of_strings(column: &ArrayRef, mut entry: impl FnMut(&[u8]) -> u32) -> Vec<u32> {
    match column.data_type() {
        DataType::Utf8 => {
            column.as_string::<i32>().iter().map(|s| entry(s.unwrap_or("").as_bytes())).collect()
        }
        DataType::LargeUtf8 => {
            column.as_string::<i64>().iter().map(|s| entry(s.unwrap_or("").as_bytes())).collect()
        }
        _ => column.as_string_view().iter().map(|s| entry(s.unwrap_or("").as_bytes())).collect(),
    }
}

/// NULL equals nothing.
fn forget_nulls(found: &mut [u32], nulls: Option<&NullBuffer>) {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return };
    for (entry, is_valid) in found.iter_mut().zip(nulls.iter()) {
        if !is_valid {
            *entry = NO_KEY;
        }
    }
}

/// Whether a column is a dictionary whose values can be looked up in the index.
pub(super) fn is_dictionary(data_type: &DataType) -> bool {
    value_type(data_type) != *data_type
}
