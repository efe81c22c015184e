//! Rows with small numbers: each different row is kept once, and can be removed again.

use hashbrown::HashTable;

use super::codec::{Encoded, RowBytes};
use crate::hash::of_integer;
use crate::keys::hash_bytes;

/// With fewer bytes of removed rows than this, releasing them is not worthwhile.
const RELEASE_BYTES: usize = 1 << 16;

/// The number of no row.
const NONE: u32 = u32::MAX;

/// Rows by number. The number of a removed row is given to a later one.
#[derive(Debug)]
pub(crate) struct RowTable {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The numbers of the rows by their identity. Without it, equal rows have numbers of their own.
    index: Option<HashTable<Indexed>>,
    removed_bytes: usize,
    /// Whether a row was ever spelled otherwise than its identity.
    has_spellings: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    identity: u32,
    /// The length of the spelling behind the identity; 0 if they are the same, [`NONE`] if there is no row.
    spelling: u32,
}

/// The hash of a row stands beside its number, so that a search reads the row itself only to confirm what it has found.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    hash: u32,
    number: u32,
}

/// The number of a row, and whether the row is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interned {
    /// The number.
    pub number: u32,
    /// Whether the row is new.
    pub is_new: bool,
}

impl Slot {
    fn is_used(&self) -> bool {
        self.spelling != NONE
    }

    fn len(&self) -> usize {
        (self.identity + self.spelling) as usize
    }
}

impl Indexed {
    #[inline]
    fn rehash(&self) -> u64 {
        of_integer(self.hash.into())
    }
}

impl RowTable {
    /// Makes a table in which equal rows have one number.
    pub fn indexed() -> RowTable {
        RowTable { index: Some(HashTable::new()), ..RowTable::unindexed() }
    }

    /// Makes a table in which every row gets a number of its own.
    pub fn unindexed() -> RowTable {
        RowTable {
            bytes: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            index: None,
            removed_bytes: 0,
            has_spellings: false,
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// One more than the largest number that was ever given.
    pub fn numbers(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        let index = self.index.as_ref().map_or(0, HashTable::allocation_size);
        let slots = self.slots.capacity() * size_of::<Slot>() + 4 * self.free.capacity();
        self.bytes.capacity() + slots + index
    }

    /// Returns a row.
    #[inline]
    pub fn row(&self, number: u32) -> RowBytes<'_> {
        let slot = &self.slots[number as usize];
        let identity = self.identity(slot);
        if slot.spelling == 0 {
            return RowBytes { identity, spelling: identity };
        }
        let middle = slot.start + slot.identity as usize;
        RowBytes { identity, spelling: &self.bytes[middle..middle + slot.spelling as usize] }
    }

    #[inline]
    fn identity(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.start..slot.start + slot.identity as usize]
    }

    /// Returns the numbers of all rows.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
        used.map(|(number, _)| number as u32)
    }

    /// Returns the number of a row, which is added if it is new.
    pub fn intern(&mut self, row: RowBytes<'_>) -> Interned {
        if self.index.is_none() {
            return Interned { number: self.store(row), is_new: true };
        }
        self.intern_hashed(row, hash_bytes(row.identity) as u32)
    }

    fn intern_hashed(&mut self, row: RowBytes<'_>, hash: u32) -> Interned {
        let is_same = |indexed: &Indexed| {
            indexed.hash == hash && self.identity(&self.slots[indexed.number as usize]) == row.identity
        };
        let index = self.index.as_ref();
        if let Some(found) = index.and_then(|index| index.find(of_integer(hash.into()), is_same)) {
            return Interned { number: found.number, is_new: false };
        }
        let number = self.store(row);
        if let Some(index) = &mut self.index {
            let indexed = Indexed { hash, number };
            index.insert_unique(indexed.rehash(), indexed, Indexed::rehash);
        }
        Interned { number, is_new: true }
    }

    /// Interns the first `count` rows, one after the other.
    ///
    /// Most of the time goes to waiting for memory: for the index, and for the row that it names. Each of the loops here
    /// reads one of them for all rows, so that the waits of many rows overlap.
    pub fn intern_all(&mut self, rows: &Encoded, count: usize) -> Vec<Interned> {
        let Some(index) = &self.index else {
            return (0..count).map(|row| self.intern(rows.row(row))).collect();
        };
        let hashes: Vec<u32> = (0..count).map(|row| hash_bytes(rows.row(row).identity) as u32).collect();
        let find = |hash: &u32| {
            let found = index.find(of_integer((*hash).into()), |indexed| indexed.hash == *hash);
            found.map_or(NONE, |found| found.number)
        };
        let mut numbers: Vec<u32> = hashes.iter().map(find).collect();
        for (row, number) in numbers.iter_mut().enumerate() {
            let slot = self.slots.get(*number as usize);
            if slot.is_none_or(|slot| self.identity(slot) != rows.row(row).identity) {
                *number = NONE;
            }
        }
        let intern = |(row, (number, hash)): (usize, (u32, u32))| {
            if number == NONE {
                self.intern_hashed(rows.row(row), hash)
            } else {
                Interned { number, is_new: false }
            }
        };
        numbers.into_iter().zip(hashes).enumerate().map(intern).collect()
    }

    fn store(&mut self, row: RowBytes<'_>) -> u32 {
        let slot = self.append(row);
        match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn append(&mut self, row: RowBytes<'_>) -> Slot {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row.identity);
        let mut spelling = 0;
        if row.is_respelled() {
            self.has_spellings = true;
            self.bytes.extend_from_slice(row.spelling);
            spelling = row.spelling.len() as u32;
        }
        Slot { start, identity: row.identity.len() as u32, spelling }
    }

    /// Spells a row like this equal one, if that spelling is smaller. For rows of one cycle: which of them came first must
    /// not matter.
    #[inline]
    pub fn respell(&mut self, number: u32, row: RowBytes<'_>) {
        if (self.has_spellings || row.is_respelled()) && row.spelling < self.row(number).spelling {
            self.removed_bytes += self.slots[number as usize].len();
            self.slots[number as usize] = self.append(row);
        }
    }

    /// Removes rows.
    pub fn remove_all(&mut self, numbers: &[u32]) {
        if let Some(index) = &mut self.index {
            let (bytes, slots) = (&self.bytes, &self.slots);
            let hash = |number: &u32| {
                let slot = &slots[*number as usize];
                hash_bytes(&bytes[slot.start..slot.start + slot.identity as usize]) as u32
            };
            let hashes: Vec<u32> = numbers.iter().map(hash).collect();
            for (number, hash) in numbers.iter().zip(hashes) {
                let is_it = |indexed: &Indexed| indexed.number == *number;
                if let Ok(entry) = index.find_entry(of_integer(hash.into()), is_it) {
                    entry.remove();
                }
            }
        }
        for number in numbers {
            let slot = &mut self.slots[*number as usize];
            self.removed_bytes += slot.len();
            slot.spelling = NONE;
        }
        self.free.extend_from_slice(numbers);
        if self.removed_bytes > RELEASE_BYTES && 2 * self.removed_bytes > self.bytes.len() {
            self.release();
        }
    }

    /// Releases the bytes of removed rows.
    fn release(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.removed_bytes);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_used()) {
            let end = slot.start + slot.len();
            let start = bytes.len();
            bytes.extend_from_slice(&self.bytes[slot.start..end]);
            slot.start = start;
        }
        self.bytes = bytes;
        self.removed_bytes = 0;
    }
}
