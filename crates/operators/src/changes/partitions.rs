//! The rows of a relation by partition, each partition in an order that the rest of the row completes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{Schema, SchemaRef, SortOptions};
use tidemill_core::error::Cause;
use tidemill_core::{FaultLog, SnapshotReader, SnapshotWriter};

use super::changelog_schema;
use super::input::{Changes, add, report_missing};
use super::order::{Halves, Keyed, keyed, sort};
use crate::encoded_rows::{Interned, OrderedRows, RowBytes, RowCodec, RowTable};
use crate::state::damaged;
use crate::state_rows::batch;
use crate::stored_rows::{read_rows, write_rows};
use crate::top::OrderBy;

/// The bytes that follow a row: how long its first part is, by which it is ordered.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Rows by partition, in order.
#[derive(Debug)]
pub(super) struct Partitions {
    /// The columns of the rows.
    pub schema: SchemaRef,
    columns: Vec<usize>,
    order: Vec<OrderBy>,
    keys: RowCodec,
    orders: RowCodec,
    /// The codec of the rows.
    pub codec: RowCodec,
    /// The values of the partitions' columns; the numbers are those of the partitions.
    groups: RowTable,
    rows: OrderedRows,
    /// How many different rows each partition has.
    counts: Vec<usize>,
    /// The rows that are spelled otherwise than their bytes say.
    spellings: BTreeMap<PlacedRow, Box<[u8]>>,
}

/// The number of a partition, and the bytes of one of its rows.
type PlacedRow = (u32, Box<[u8]>);

/// A row of a partition: the bytes by which it is ordered, those of the row itself, and the length of the first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a>(&'a [u8]);

impl<'a> Place<'a> {
    /// The values that decide the order, as bytes. Rows with the same ones are ties.
    pub fn order(self) -> &'a [u8] {
        &self.0[..self.length()]
    }

    /// The row, as bytes that equal rows share.
    pub fn identity(self) -> &'a [u8] {
        &self.0[self.length()..self.0.len() - LENGTH_BYTES]
    }

    /// All bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The place of these bytes.
    pub fn of(bytes: &'a [u8]) -> Place<'a> {
        Place(bytes)
    }

    fn length(self) -> usize {
        let length = self.0.last_chunk::<LENGTH_BYTES>();
        length.map_or(0, |length| u32::from_be_bytes(*length) as usize)
    }
}

/// The consolidated changes of a cycle, by partition and place.
pub(super) struct PlacedChanges {
    bytes: Vec<u8>,
    changes: Vec<PlacedChange>,
}

#[derive(Clone, Copy)]
struct PlacedChange {
    group: u32,
    /// Where its place and its spelling are in the bytes.
    start: usize,
    middle: usize,
    end: usize,
    weight: i64,
}

impl PlacedChanges {
    fn place(&self, change: &PlacedChange) -> &[u8] {
        &self.bytes[change.start..change.middle]
    }

    /// Empty if it is spelled as its place says.
    fn spelling(&self, change: &PlacedChange) -> &[u8] {
        &self.bytes[change.middle..change.end]
    }

    /// The partitions that change, in the order of their numbers.
    pub fn groups(&self) -> Vec<u32> {
        let mut groups: Vec<u32> = self.changes.iter().map(|change| change.group).collect();
        groups.dedup();
        groups
    }
}

impl Partitions {
    /// Makes partitions by some columns, without rows.
    ///
    /// # Errors
    /// If values of a column cannot be compared.
    pub fn new(schema: &SchemaRef, columns: &[usize], order: &[OrderBy]) -> Result<Partitions, Cause> {
        let fields: Vec<_> = columns.iter().map(|column| schema.fields()[*column].clone()).collect();
        let by = |by: &OrderBy| {
            let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
            (schema.field(by.column).data_type().clone(), options)
        };
        Ok(Partitions {
            keys: RowCodec::new(&Schema::new(fields))?,
            orders: RowCodec::ordered(order.iter().map(by).collect())?,
            codec: RowCodec::new(schema)?,
            schema: SchemaRef::clone(schema),
            columns: columns.to_vec(),
            order: order.to_vec(),
            groups: RowTable::indexed(),
            rows: OrderedRows::default(),
            counts: Vec::new(),
            spellings: BTreeMap::new(),
        })
    }

    /// The number of different rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory held, about.
    pub fn memory(&self) -> usize {
        self.groups.memory() + self.rows.memory() + size_of::<usize>() * self.counts.capacity()
    }

    /// Finds the places of changes, and adds up those of the same row. What comes behind the last row of a full partition is
    /// left out.
    pub fn place(&mut self, given: &Changes, is_full: impl Fn(u32) -> bool) -> Result<PlacedChanges, Cause> {
        let pick = |columns: &mut dyn Iterator<Item = usize>| -> Vec<ArrayRef> {
            columns.map(|column| given.rows.column(column).clone()).collect()
        };
        let keys = self.keys.encode(&pick(&mut self.columns.iter().copied()))?;
        let orders = self.orders.encode(&pick(&mut self.order.iter().map(|by| by.column)))?;
        let rows = self.codec.encode(given.rows.columns())?;
        let mut placed = PlacedChanges { bytes: Vec::new(), changes: Vec::new() };
        let groups = self.groups.intern_all(&keys, given.rows.num_rows());
        for (row, Interned { number: group, .. }) in groups.into_iter().enumerate() {
            let (order, bytes) = (orders.row(row).identity, rows.row(row));
            let start = placed.bytes.len();
            placed.bytes.extend_from_slice(order);
            placed.bytes.extend_from_slice(bytes.identity);
            placed.bytes.extend_from_slice(&(order.len() as u32).to_be_bytes());
            if is_full(group) {
                let last = self.rows.of(group).next_back();
                if last.is_some_and(|(last, _)| placed.bytes[start..] > *last) {
                    placed.bytes.truncate(start);
                    continue;
                }
            }
            let middle = placed.bytes.len();
            if bytes.spelling != bytes.identity {
                placed.bytes.extend_from_slice(bytes.spelling);
            }
            let (end, weight) = (placed.bytes.len(), given.weight(row));
            placed.changes.push(PlacedChange { group, start, middle, end, weight });
        }
        self.counts.resize(self.counts.len().max(self.groups.numbers()), 0);
        consolidate(&mut placed)?;
        Ok(placed)
    }

    /// Adds changes. A row that goes more often than it came is reported.
    pub fn apply(&mut self, placed: &PlacedChanges, cycle: u64, faults: &FaultLog) {
        for change in &placed.changes {
            let place = placed.place(change);
            let changed = self.rows.add(change.group, place, change.weight);
            if changed.missing > 0 {
                let identity = Place(place).identity();
                let row = RowBytes { identity, spelling: identity };
                report_missing(faults, &self.codec, &self.schema, row, cycle);
            }
            let count = &mut self.counts[change.group as usize];
            let key = || (change.group, Box::from(place));
            match (changed.before > 0, changed.now > 0) {
                (false, true) => {
                    *count += 1;
                    if change.middle < change.end {
                        self.spellings.insert(key(), Box::from(placed.spelling(change)));
                    }
                }
                (true, false) => {
                    *count -= 1;
                    if !self.spellings.is_empty() {
                        self.spellings.remove(&key());
                    }
                }
                _ => {}
            }
        }
    }

    /// Removes those of some partitions that have no rows.
    pub fn release(&mut self, groups: &[u32]) {
        let is_empty = |group: &u32| self.counts[*group as usize] == 0;
        let empty: Vec<u32> = groups.iter().copied().filter(is_empty).collect();
        self.groups.remove_all(&empty);
    }

    /// Removes the rows of a partition behind a place.
    pub fn truncate(&mut self, group: u32, last: &[u8]) {
        let behind: Vec<(Vec<u8>, i64)> = self
            .rows
            .of(group)
            .rev()
            .take_while(|(place, _)| *place > last)
            .map(|(place, weight)| (place.to_vec(), weight))
            .collect();
        for (place, weight) in behind {
            self.rows.add(group, &place, -weight);
            self.counts[group as usize] -= 1;
            self.spellings.remove(&(group, place.into()));
        }
    }

    /// Takes out the rows of a partition up to a place in the order, given by its values. Returns their columns, and how many
    /// times each was there.
    pub fn take_up_to(&mut self, group: u32, last: &[ArrayRef]) -> Result<(Vec<ArrayRef>, Vec<i64>), Cause> {
        let encoded = self.orders.encode(last)?;
        let last = encoded.row(0).identity;
        let due = self.of(group).take_while(|(place, _)| place.order() <= last);
        let due: Vec<(Box<[u8]>, i64)> =
            due.map(|(place, weight)| (Box::from(place.bytes()), weight)).collect();
        let spellings = due.iter().map(|(place, _)| self.spelling(group, Place(place)));
        let columns = self.codec.decode(spellings)?;
        let weights = due.iter().map(|(_, weight)| *weight).collect();
        for (place, weight) in due {
            self.rows.add(group, &place, -weight);
            self.counts[group as usize] -= 1;
            self.spellings.remove(&(group, place));
        }
        Ok((columns, weights))
    }

    /// Returns the values by which the first row of a partition is ordered; `None` if it has no rows.
    pub fn first_order(&self, group: u32) -> Result<Option<Vec<ArrayRef>>, Cause> {
        let first = self.of(group).next();
        first.map(|(place, _)| self.orders.decode(std::iter::once(place.order()))).transpose()
    }

    /// Returns the rows of a partition in order, with how many times each is there.
    pub fn of(&self, group: u32) -> impl Iterator<Item = (Place<'_>, i64)> {
        self.rows.of(group).map(|(place, weight)| (Place(place), weight))
    }

    /// Returns how a row is spelled.
    pub fn spelling<'a>(&'a self, group: u32, place: Place<'a>) -> &'a [u8] {
        if self.spellings.is_empty() {
            return place.identity();
        }
        let spelling = self.spellings.get(&(group, Box::from(place.0)));
        spelling.map_or(place.identity(), |spelling| spelling)
    }

    /// Returns all rows with their weights, partition by partition and in order.
    pub fn contents(&self) -> Result<RecordBatch, Cause> {
        let all = || self.groups.all().flat_map(|group| self.of(group).map(move |row| (group, row)));
        let rows = all().map(|(group, (place, _))| self.spelling(group, place));
        let mut columns = self.codec.decode(rows)?;
        let weights = Int64Array::from_iter_values(all().map(|(_, (_, weight))| weight));
        columns.push(Arc::new(weights));
        batch(&changelog_schema(&self.schema), columns, self.rows.len())
    }

    /// Writes all rows.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        write_rows(writer, self.contents().ok());
    }

    /// Reads what [`snapshot`](Partitions::snapshot) wrote.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let rows = read_rows(reader, &changelog_schema(&self.schema))?;
        let changes = Changes::weighted(&self.schema, rows)?;
        let placed = self.place(&changes, |_| false)?;
        self.apply(&placed, 0, &FaultLog::default());
        if self.rows.len() == changes.rows.num_rows() {
            Ok(())
        } else {
            Err(damaged("a row of a partition occurs twice, or a negative number of times"))
        }
    }
}

/// Adds up the weights of the same row. Of its spellings the smallest stays, whatever came first.
fn consolidate(placed: &mut PlacedChanges) -> Result<(), Cause> {
    let changes = std::mem::take(&mut placed.changes);
    let places: Vec<Halves<'_, '_>> =
        changes.iter().map(|change| -> Halves<'_, '_> { (placed.place(change), &[]) }).collect();
    // The number of the partition, and the first 4 bytes of the place behind those that all have in common.
    let mut order: Vec<Keyed> = keyed(&places);
    for (key, row) in &mut order {
        *key = u64::from(changes[*row as usize].group) << 32 | *key >> 32;
    }
    let spelling = |change| match placed.spelling(change) {
        [] => Place(placed.place(change)).identity(),
        spelling => spelling,
    };
    sort(&mut order, |a, b| {
        a.0.cmp(&b.0).then_with(|| {
            let (a, b) = (&changes[a.1 as usize], &changes[b.1 as usize]);
            let order = placed.place(a).cmp(placed.place(b));
            order.then_with(|| spelling(a).cmp(spelling(b)))
        })
    });
    let changes: Vec<PlacedChange> = order.into_iter().map(|(_, row)| changes[row as usize]).collect();
    let is_same =
        |a: &PlacedChange, b: &PlacedChange| a.group == b.group && placed.place(a) == placed.place(b);
    let mut consolidated = Vec::with_capacity(changes.len());
    for same in changes.chunk_by(is_same) {
        let mut weight = 0;
        for change in same {
            weight = add(weight, change.weight)?;
        }
        consolidated.push(PlacedChange { weight, ..same[0] });
    }
    placed.changes = consolidated;
    Ok(())
}
