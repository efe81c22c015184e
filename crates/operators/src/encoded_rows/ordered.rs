//! Rows of many groups, each group in the order of its rows' bytes, with how many times each row is there.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::{self, Entry};
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

/// A group with more rows than this has them in a tree, one with fewer in a list.
const LIST_ROWS: usize = 128;
/// A group with this few rows has them in a list again.
const LIST_AGAIN_ROWS: usize = 32;

/// Rows by group and bytes. No weight is negative or 0.
#[derive(Debug, Default)]
pub(crate) struct OrderedRows {
    groups: Vec<Rows>,
    /// The number of rows.
    count: usize,
    /// The bytes of lists and trees, and those of long rows.
    bytes: usize,
}

/// The rows of a group, in order. Most groups of many are small.
#[derive(Debug, Default)]
enum Rows {
    #[default]
    Nothing,
    One(Row),
    List(Vec<Row>),
    Tree(BTreeMap<Bytes, i64>),
}

/// A row, and how many times it is there.
type Row = (Bytes, i64);

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

impl Reweighed {
    fn new(before: i64, weight: i64) -> Reweighed {
        let sum = before.saturating_add(weight);
        Reweighed { before, now: sum.max(0), missing: sum.min(0).unsigned_abs() }
    }
}

/// Bytes in order; short ones need no memory of their own.
#[derive(Clone, Debug)]
enum Bytes {
    Inline(u8, [u8; INLINE_BYTES]),
    Boxed(Box<[u8]>),
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
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Bytes::Boxed(bytes) => bytes,
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
        self.get().cmp(other.get())
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

impl Rows {
    /// Bytes of memory held, without those of long rows.
    fn memory(&self) -> usize {
        match self {
            Rows::Nothing | Rows::One(_) => 0,
            Rows::List(rows) => rows.capacity() * size_of::<Row>(),
            // A node of a B-tree is filled by two thirds.
            Rows::Tree(rows) => rows.len() * size_of::<Row>() * 3 / 2,
        }
    }

    /// Adds to the weight of a row. It does not fall below 0.
    fn add(&mut self, row: Bytes, weight: i64) -> Reweighed {
        match self {
            Rows::Nothing => {
                let changed = Reweighed::new(0, weight);
                if changed.now > 0 {
                    *self = Rows::One((row, changed.now));
                }
                changed
            }
            Rows::One(only) if only.0 == row => {
                let changed = Reweighed::new(only.1, weight);
                only.1 = changed.now;
                if changed.now == 0 {
                    *self = Rows::Nothing;
                }
                changed
            }
            Rows::One(_) => {
                let changed = Reweighed::new(0, weight);
                if changed.now > 0
                    && let Rows::One(only) = std::mem::take(self)
                {
                    let mut both = vec![only, (row, changed.now)];
                    both.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                    *self = Rows::List(both);
                }
                changed
            }
            Rows::List(rows) => {
                let place = rows.binary_search_by(|other| other.0.cmp(&row));
                let changed = Reweighed::new(place.map_or(0, |place| rows[place].1), weight);
                match (place, changed.now) {
                    (Ok(place), 0) => drop(rows.remove(place)),
                    (Ok(place), now) => rows[place].1 = now,
                    (Err(_), 0) => {}
                    (Err(place), now) => rows.insert(place, (row, now)),
                }
                if rows.is_empty() {
                    *self = Rows::Nothing;
                } else if rows.len() > LIST_ROWS {
                    *self = Rows::Tree(std::mem::take(rows).into_iter().collect());
                }
                changed
            }
            Rows::Tree(rows) => {
                let entry = rows.entry(row);
                let before = if let Entry::Occupied(occupied) = &entry { *occupied.get() } else { 0 };
                let changed = Reweighed::new(before, weight);
                match (entry, changed.now) {
                    (Entry::Occupied(occupied), 0) => drop(occupied.remove_entry()),
                    (Entry::Vacant(_), 0) => {}
                    (entry, now) => *entry.or_default() = now,
                }
                if rows.len() <= LIST_AGAIN_ROWS {
                    *self = Rows::List(std::mem::take(rows).into_iter().collect());
                }
                changed
            }
        }
    }
}

/// The rows of a group in order.
enum InOrder<'a> {
    List(std::slice::Iter<'a, Row>),
    Tree(btree_map::Iter<'a, Bytes, i64>),
}

impl<'a> Iterator for InOrder<'a> {
    type Item = (&'a [u8], i64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            InOrder::List(rows) => rows.next().map(|(row, weight)| (row.get(), *weight)),
            InOrder::Tree(rows) => rows.next().map(|(row, weight)| (row.get(), *weight)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            InOrder::List(rows) => rows.size_hint(),
            InOrder::Tree(rows) => rows.size_hint(),
        }
    }
}

impl DoubleEndedIterator for InOrder<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            InOrder::List(rows) => rows.next_back().map(|(row, weight)| (row.get(), *weight)),
            InOrder::Tree(rows) => rows.next_back().map(|(row, weight)| (row.get(), *weight)),
        }
    }
}

impl OrderedRows {
    /// The number of different rows of all groups.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes of memory held, about.
    pub fn memory(&self) -> usize {
        self.groups.capacity() * size_of::<Rows>() + self.bytes
    }

    /// Adds to the weight of a row. It does not fall below 0.
    pub fn add(&mut self, group: u32, row: &[u8], weight: i64) -> Reweighed {
        let index = group as usize;
        if index >= self.groups.len() {
            self.groups.resize_with(index + 1, Rows::default);
        }
        let (rows, row) = (&mut self.groups[index], Bytes::new(row));
        let (boxed, memory) = (row.boxed(), rows.memory());
        let changed = rows.add(row, weight);
        self.bytes = self.bytes + rows.memory() - memory;
        match (changed.before > 0, changed.now > 0) {
            (false, true) => (self.count, self.bytes) = (self.count + 1, self.bytes + boxed),
            (true, false) => (self.count, self.bytes) = (self.count - 1, self.bytes - boxed),
            _ => {}
        }
        changed
    }

    /// Returns the rows of a group with their weights, from the first or from the last.
    #[inline]
    pub fn of(&self, group: u32) -> impl DoubleEndedIterator<Item = (&[u8], i64)> {
        match self.groups.get(group as usize) {
            None | Some(Rows::Nothing) => InOrder::List([].iter()),
            Some(Rows::One(only)) => InOrder::List(std::slice::from_ref(only).iter()),
            Some(Rows::List(rows)) => InOrder::List(rows.iter()),
            Some(Rows::Tree(rows)) => InOrder::Tree(rows.iter()),
        }
    }

    /// Removes the rows of a group.
    pub fn clear(&mut self, group: u32) {
        let Some(rows) = self.groups.get_mut(group as usize).map(std::mem::take) else { return };
        self.bytes -= rows.memory();
        match rows {
            Rows::Nothing => {}
            Rows::One(only) => self.forget(&only.0),
            Rows::List(rows) => rows.iter().for_each(|(row, _)| self.forget(row)),
            Rows::Tree(rows) => rows.keys().for_each(|row| self.forget(row)),
        }
    }

    fn forget(&mut self, row: &Bytes) {
        self.count -= 1;
        self.bytes -= row.boxed();
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
    fn a_group_that_grows_and_shrinks_stays_in_order() {
        let mut rows = OrderedRows::default();
        let mut wanted: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        // Up to 300 rows and down to none, in an order without one, short rows and long ones.
        for step in 0..600_u32 {
            let number = step * 7 % 300;
            let row = [&number.to_be_bytes()[..], &vec![1; (number % 40) as usize]].concat();
            let weight = if step < 300 { 2 } else { -2 };
            rows.add(3, &row, weight);
            *wanted.entry(row).or_default() += weight;
            wanted.retain(|_, weight| *weight > 0);
            assert!(rows.of(3).map(|(row, weight)| (row.to_vec(), weight)).eq(wanted.clone()), "{step}");
            assert!(rows.of(3).rev().map(|(row, _)| row).eq(wanted.keys().rev()), "{step}");
            assert_eq!(rows.len(), wanted.len());
        }
        assert_eq!(rows.bytes, 0);
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
