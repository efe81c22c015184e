//! Rows with small numbers: each different row is kept once, and can be removed again.

use hashbrown::HashTable;

use super::codec::RowBytes;
use crate::hash::of_integer;
use crate::keys::hash_bytes;

/// With fewer bytes of removed rows than this, releasing them is not worthwhile.
const RELEASE_BYTES: usize = 1 << 16;

/// Rows by number. The number of a removed row is given to a later one.
#[derive(Debug)]
pub(crate) struct RowTable {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The numbers of the rows by their identity. Without it, equal rows have numbers of their own.
    index: Option<HashTable<u32>>,
    removed_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    identity: u32,
    /// The length of the spelling behind the identity; 0 if they are the same.
    spelling: u32,
    hash: u32,
    is_used: bool,
}

impl RowTable {
    /// Makes a table in which equal rows have one number.
    pub fn indexed() -> RowTable {
        RowTable { index: Some(HashTable::new()), ..RowTable::unindexed() }
    }

    /// Makes a table in which every row gets a number of its own.
    pub fn unindexed() -> RowTable {
        RowTable { bytes: Vec::new(), slots: Vec::new(), free: Vec::new(), index: None, removed_bytes: 0 }
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
        let middle = slot.start + slot.identity as usize;
        let identity = &self.bytes[slot.start..middle];
        let spelling =
            if slot.spelling == 0 { identity } else { &self.bytes[middle..middle + slot.spelling as usize] };
        RowBytes { identity, spelling }
    }

    /// Returns the numbers of all rows.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_used);
        used.map(|(number, _)| number as u32)
    }

    /// Returns the number of a row, which is added if it is new, and whether it is.
    pub fn intern(&mut self, row: RowBytes<'_>) -> (u32, bool) {
        let hash = hash_bytes(row.identity) as u32;
        if let Some(index) = &self.index {
            let is_same = |number: &u32| {
                self.slots[*number as usize].hash == hash && self.row(*number).identity == row.identity
            };
            if let Some(number) = index.find(of_integer(hash.into()), is_same) {
                return (*number, false);
            }
        }
        let number = self.store(row, hash);
        if let Some(index) = &mut self.index {
            let slots = &self.slots;
            let rehash = |number: &u32| of_integer(slots[*number as usize].hash.into());
            index.insert_unique(of_integer(hash.into()), number, rehash);
        }
        (number, true)
    }

    fn store(&mut self, row: RowBytes<'_>, hash: u32) -> u32 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row.identity);
        let is_spelled_so = row.spelling == row.identity;
        if !is_spelled_so {
            self.bytes.extend_from_slice(row.spelling);
        }
        let spelling = if is_spelled_so { 0 } else { row.spelling.len() as u32 };
        let slot = Slot { start, identity: row.identity.len() as u32, spelling, hash, is_used: true };
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

    /// Spells a row like this equal one, if that spelling is smaller. For rows of one cycle: which of them came first must
    /// not matter.
    pub fn respell(&mut self, number: u32, row: RowBytes<'_>) {
        if row.spelling >= self.row(number).spelling {
            return;
        }
        let slot = &mut self.slots[number as usize];
        self.removed_bytes += (slot.identity + slot.spelling) as usize;
        slot.start = self.bytes.len();
        slot.spelling = if row.spelling == row.identity { 0 } else { row.spelling.len() as u32 };
        self.bytes.extend_from_slice(row.identity);
        if row.spelling != row.identity {
            self.bytes.extend_from_slice(row.spelling);
        }
    }

    /// Removes a row.
    pub fn remove(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.is_used = false;
        self.removed_bytes += (slot.identity + slot.spelling) as usize;
        let hash = of_integer(slot.hash.into());
        if let Some(index) = &mut self.index
            && let Ok(entry) = index.find_entry(hash, |other| *other == number)
        {
            entry.remove();
        }
        self.free.push(number);
        if self.removed_bytes > RELEASE_BYTES && 2 * self.removed_bytes > self.bytes.len() {
            self.release();
        }
    }

    /// Releases the bytes of removed rows.
    fn release(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.removed_bytes);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_used) {
            let end = slot.start + (slot.identity + slot.spelling) as usize;
            let start = bytes.len();
            bytes.extend_from_slice(&self.bytes[slot.start..end]);
            slot.start = start;
        }
        self.bytes = bytes;
        self.removed_bytes = 0;
    }
}
