//! Rows of many groups, each group in the order of its rows' bytes, with how many times each row is there.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use super::codec::RowCodec;
use crate::state::{StateColumns, damaged, read_columns, write_columns};

/// The longest row that needs no memory of its own.
const INLINE_BYTES: usize = 22;

/// Rows by group and bytes. No weight is negative or 0.
#[derive(Debug, Default)]
pub(crate) struct OrderedRows {
    rows: BTreeMap<Place, i64>,
    /// The bytes of long rows.
    bytes: usize,
}

/// What became of a row's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reweighed {
    /// How many times the row was there before.
    pub before: i64,
    /// How many times it is there now.
    pub now: i64,
    /// How much more was to be taken than there was.
    pub missing: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: u32,
    row: Bytes,
}

/// Bytes in order; short ones need no memory of their own.
#[derive(Clone, Debug)]
enum Bytes {
    Inline(u8, [u8; INLINE_BYTES]),
    Boxed(Box<[u8]>),
    /// After all bytes.
    End,
}

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        if bytes.len() > INLINE_BYTES {
            return Bytes::Boxed(bytes.into());
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Bytes::Inline(bytes.len() as u8, inline)
    }

    #[inline]
    fn get(&self) -> Option<&[u8]> {
        match self {
            Bytes::Inline(length, bytes) => Some(&bytes[..usize::from(*length)]),
            Bytes::Boxed(bytes) => Some(bytes),
            Bytes::End => None,
        }
    }

    fn boxed(&self) -> usize {
        if let Bytes::Boxed(bytes) = self { bytes.len() } else { 0 }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Bytes) -> Ordering {
        if let (Bytes::Inline(length, own), Bytes::Inline(other_length, other)) = (self, other) {
            return words(*length, own).cmp(&words(*other_length, other));
        }
        match (self.get(), other.get()) {
            (Some(own), Some(other)) => own.cmp(other),
            (own, other) => own.is_none().cmp(&other.is_none()),
        }
    }
}

/// Bytes that are filled up with zeros as numbers in the same order. Of bytes that differ only by zeros at the end, the
/// shorter ones come first.
#[inline]
fn words(length: u8, bytes: &[u8; INLINE_BYTES]) -> [u64; 3] {
    let word = |start: usize| bytes[start..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
    // The last 6 bytes, and the length behind them.
    [word(0), word(8), word(INLINE_BYTES - 8) << 16 | u64::from(length)]
}

impl OrderedRows {
    /// The number of different rows of all groups.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory held, about.
    pub fn memory(&self) -> usize {
        // A node of a B-tree is filled by two thirds.
        self.rows.len() * (size_of::<Place>() + size_of::<i64>()) * 3 / 2 + self.bytes
    }

    /// Adds to the weight of a row. It does not fall below 0.
    pub fn add(&mut self, group: u32, row: &[u8], weight: i64) -> Reweighed {
        let place = Place { group, row: Bytes::new(row) };
        let reweighed = |before: i64| {
            let sum = before.saturating_add(weight);
            Reweighed { before, now: sum.max(0), missing: sum.min(0).unsigned_abs() }
        };
        match self.rows.entry(place) {
            Entry::Vacant(vacant) => {
                let changed = reweighed(0);
                if changed.now > 0 {
                    self.bytes += vacant.key().row.boxed();
                    vacant.insert(changed.now);
                }
                changed
            }
            Entry::Occupied(mut occupied) => {
                let changed = reweighed(*occupied.get());
                if changed.now > 0 {
                    occupied.insert(changed.now);
                } else {
                    let (place, _) = occupied.remove_entry();
                    self.bytes -= place.row.boxed();
                }
                changed
            }
        }
    }

    /// Returns the rows of a group with their weights, from the first or from the last.
    pub fn of(&self, group: u32) -> impl DoubleEndedIterator<Item = (&[u8], i64)> {
        let rows = self.rows.range(all(group));
        rows.map(|(place, weight)| (place.row.get().unwrap_or_default(), *weight))
    }

    /// Removes the rows of a group.
    pub fn clear(&mut self, group: u32) {
        while let Some(place) = self.rows.range(all(group)).next().map(|(place, _)| place.clone()) {
            self.bytes -= place.row.boxed();
            self.rows.remove(&place);
        }
    }
}

/// Writes the rows of some groups, as columns: the bytes of encoded rows may change with the version of Arrow.
pub(crate) fn write_groups(
    rows: &OrderedRows,
    codec: &RowCodec,
    groups: &[u32],
    writer: &mut SnapshotWriter,
) {
    groups.iter().for_each(|group| writer.u64(rows.of(*group).count() as u64));
    let all = || groups.iter().flat_map(|group| rows.of(*group));
    let weights = Int64Array::from_iter_values(all().map(|(_, weight)| weight));
    let count = weights.values().len();
    let columns = codec.decode(all().map(|(row, _)| row));
    write_columns(writer, count, columns.map(|columns| [columns, vec![Arc::new(weights) as _]].concat()));
}

/// Reads what [`write_groups`] wrote of this many groups, which are now the groups `0..groups`. Returns the number of rows
/// of each.
pub(crate) fn read_groups(
    rows: &mut OrderedRows,
    codec: &RowCodec,
    groups: usize,
    reader: &mut SnapshotReader<'_>,
) -> Result<Vec<i64>, Cause> {
    let counts = (0..groups).map(|_| reader.i64()).collect::<Result<Vec<_>, Cause>>()?;
    let types = [codec.types(), &[DataType::Int64]].concat();
    let (count, mut columns) = read_columns(reader, &StateColumns { types, added: Vec::new() })?;
    let wrong = || damaged("the rows of groups do not have their numbers");
    let weights = columns.pop().ok_or_else(wrong)?;
    let weights = weights.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?.values().clone();
    let encoded = codec.encode(&columns)?;
    let mut next = 0;
    for (group, of_group) in counts.iter().enumerate() {
        for _ in 0..*of_group {
            let weight = weights.get(next).ok_or_else(wrong)?;
            let changed = rows.add(group as u32, encoded.row(next).identity, *weight);
            if changed.before != 0 || changed.now == 0 {
                return Err(wrong());
            }
            next += 1;
        }
    }
    if next == count { Ok(counts) } else { Err(wrong()) }
}

fn all(group: u32) -> RangeInclusive<Place> {
    Place { group, row: Bytes::new(&[]) }..=Place { group, row: Bytes::End }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_counted() {
        let mut rows = OrderedRows::default();
        let long = vec![7; 100];
        for (group, row, weight) in [(1, &[2][..], 1), (1, &[], 2), (1, &long, 1), (2, &[0], 1), (1, &[2], 4)]
        {
            rows.add(group, row, weight);
        }
        let of =
            |rows: &OrderedRows| rows.of(1).map(|(row, weight)| (row.to_vec(), weight)).collect::<Vec<_>>();
        assert_eq!(of(&rows), [(vec![], 2), (vec![2], 5), (long.clone(), 1)]);
        assert_eq!(rows.of(1).next_back(), Some((&long[..], 1)));
        let gone = rows.add(1, &[], -5);
        assert_eq!(gone, Reweighed { before: 2, now: 0, missing: 3 });
        assert_eq!(of(&rows), [(vec![2], 5), (long, 1)]);
        rows.clear(1);
        assert_eq!((rows.len(), rows.bytes), (1, 0));
    }

    #[test]
    fn short_bytes_are_ordered_as_bytes_are() {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for length in 0..30 {
            for (place, byte) in [(0, 0), (0, 1), (7, 1), (8, 255), (15, 1), (16, 1), (21, 1), (22, 1)] {
                let mut bytes = vec![0; length];
                bytes.iter_mut().skip(place).take(1).for_each(|at| *at = byte);
                all.push(bytes);
            }
        }
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            assert_eq!(Bytes::new(a).cmp(&Bytes::new(b)), a.cmp(b), "{a:?} {b:?}");
        }
    }
}
