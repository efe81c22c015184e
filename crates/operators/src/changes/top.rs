//! The first rows of each partition of a relation that may change.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, FaultLog, Operator, Output, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use super::changelog_schema;
use super::input::Input;
use super::output::{Half, no_columns, write_changes};
use super::partitions::{Partitions, Place};
use crate::encoded_rows::{RowBytes, RowCodec};
use crate::stored_rows::check_limit;
use crate::top::{Numbering, OrderBy};

const VERSION: u8 = 1;

/// What to keep.
#[derive(Clone, Debug)]
pub struct ChangingTopSpec {
    /// The columns of the rows, without the weight.
    pub schema: SchemaRef,
    /// Whether the input has weights.
    pub changes: bool,
    /// The columns whose combinations of values each have their own first rows; NULL is a value like any other.
    pub partition: Vec<usize>,
    /// The order within a partition. The rest of the row decides ties.
    pub order: Vec<OrderBy>,
    /// How many numbers to leave out (OFFSET).
    pub skip: usize,
    /// How many numbers follow (LIMIT); `None`: all. For ranks, several rows can have a number.
    pub fetch: Option<usize>,
    /// How rows are numbered.
    pub numbering: Numbering,
    /// The name of an additional column with that number (`UInt64`, from 1); `None` if not wanted.
    pub number_column: Option<String>,
    /// The largest number of different rows that a partition of the operator holds.
    pub rows_max: usize,
}

/// Keeps the rows of each partition in order, and writes what changes of the first ones.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::changes::{ChangingTopSpec, Top};
/// use tidemill_operators::top::{Numbering, OrderBy};
///
/// let rows = |values: Vec<i64>| {
///     let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = ChangingTopSpec {
///     schema: rows(vec![]).rows.schema(),
///     changes: false,
///     partition: vec![],
///     order: vec![OrderBy { column: 0, descending: true, nulls_first: true }],
///     skip: 0,
///     fetch: Some(2),
///     numbering: Numbering::RowNumber,
///     number_column: None,
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[Top::output_schema(&spec)]);
/// let mut top = Top::new(spec).unwrap();
/// let mut changes = |values| {
///     top.rows(0, rows(values).as_rows(), &mut output).unwrap();
///     top.end_of_cycle(&Cut::first(), &mut output).unwrap();
///     output.finish(0).unwrap().rows
/// };
/// assert_eq!(changes(vec![1, 5, 7]).column(0).as_ref(), &Int64Array::from(vec![5, 7]));
/// let changed = changes(vec![6]); // 5 goes, and 6 comes
/// assert_eq!(changed.column(0).as_ref(), &Int64Array::from(vec![5, 6]));
/// assert_eq!(changed.column(1).as_ref(), &Int64Array::from(vec![-1, 1]));
/// ```
#[derive(Debug)]
pub struct Top {
    spec: ChangingTopSpec,
    input: Input,
    faults: FaultLog,
    partitions: Partitions,
    /// The partitions for which no row counts that comes behind their last one: rows only come, and there are enough.
    is_full: Vec<bool>,
    numbers: RowCodec,
    nothing: RowCodec,
}

/// First rows of some partitions, one list after the other.
#[derive(Debug, Default)]
struct Chosen {
    bytes: Vec<u8>,
    rows: Vec<ChosenRow>,
}

/// A chosen row: where its place and its spelling are, its number if it is wanted, and how many times it is chosen.
#[derive(Clone, Copy, Debug)]
struct ChosenRow {
    start: usize,
    middle: usize,
    end: usize,
    number: u64,
    count: i64,
}

impl Chosen {
    fn push(&mut self, place: Place<'_>, spelling: &[u8], number: u64, count: i64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(place.bytes());
        let middle = self.bytes.len();
        if spelling != place.identity() {
            self.bytes.extend_from_slice(spelling);
        }
        self.rows.push(ChosenRow { start, middle, end: self.bytes.len(), number, count });
    }

    fn place(&self, row: &ChosenRow) -> Place<'_> {
        Place::of(&self.bytes[row.start..row.middle])
    }

    fn row(&self, row: usize) -> RowBytes<'_> {
        let row = &self.rows[row];
        let identity = self.place(row).identity();
        let spelling = if row.middle == row.end { identity } else { &self.bytes[row.middle..row.end] };
        RowBytes { identity, spelling }
    }
}

impl Top {
    /// Makes an instance without rows.
    ///
    /// # Errors
    /// If values of a column cannot be compared.
    pub fn new(spec: ChangingTopSpec) -> Result<Self, Cause> {
        Ok(Top {
            input: Input::new(&spec.schema, spec.changes),
            faults: FaultLog::default(),
            partitions: Partitions::new(&spec.schema, &spec.partition, &spec.order)?,
            is_full: Vec::new(),
            numbers: RowCodec::ordered(vec![(DataType::UInt64, SortOptions::default())])?,
            nothing: RowCodec::ordered(Vec::new())?,
            spec,
        })
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: those of the rows, the number if it is wanted, and the weight.
    pub fn output_schema(spec: &ChangingTopSpec) -> SchemaRef {
        let number = spec.number_column.iter().map(|name| Field::new(name, DataType::UInt64, false).into());
        let fields = spec.schema.fields().iter().cloned().chain(number).collect::<Vec<_>>();
        changelog_schema(&Arc::new(Schema::new(fields)))
    }

    /// The largest number that is chosen.
    fn last_number(&self) -> u64 {
        self.spec.fetch.map_or(u64::MAX, |fetch| self.spec.skip as u64 + fetch as u64)
    }

    /// Returns the rows of a partition with their numbers.
    fn numbered(&self, group: u32) -> impl Iterator<Item = Numbered<'_>> {
        let (mut seen, mut number) = (0, 0);
        let mut before: Option<Place<'_>> = None;
        self.partitions.of(group).map(move |(place, weight)| {
            let is_tie = before.is_some_and(|before| before.order() == place.order());
            number = match self.spec.numbering {
                Numbering::Rank | Numbering::DenseRank if is_tie => number,
                Numbering::DenseRank => number + 1,
                Numbering::RowNumber | Numbering::Rank => seen + 1,
            };
            let numbered = Numbered { place, weight, number, seen };
            seen += weight.unsigned_abs();
            before = Some(place);
            numbered
        })
    }

    /// Adds the first rows of a partition to the chosen ones, and returns where they are.
    fn choose(&self, group: u32, chosen: &mut Chosen) -> Range<usize> {
        let (skip, last) = (self.spec.skip as u64, self.last_number());
        let with_number = self.spec.number_column.is_some();
        let first = chosen.rows.len();
        for Numbered { place, weight, number, seen } in self.numbered(group) {
            if number > last {
                break;
            }
            let spelling = self.partitions.spelling(group, place);
            if self.spec.numbering != Numbering::RowNumber {
                if number > skip {
                    chosen.push(place, spelling, if with_number { number } else { 0 }, weight);
                }
                continue;
            }
            let (from, to) = (seen.max(skip), last.min(seen + weight.unsigned_abs()));
            if with_number {
                (from..to).for_each(|before| chosen.push(place, spelling, before + 1, 1));
            } else if from < to {
                chosen.push(place, spelling, 0, (to - from) as i64);
            }
        }
        first..chosen.rows.len()
    }

    /// Releases rows that can never be among the first, because rows only come.
    fn prune(&mut self, groups: &[u32]) {
        if self.spec.changes || self.spec.fetch.is_none() {
            return;
        }
        let last_number = self.last_number();
        for group in groups {
            let mut last = Vec::new();
            let mut rows = self.numbered(*group);
            let is_behind = rows.any(|row| {
                let is_behind = row.number > last_number;
                if !is_behind {
                    last.clear();
                    last.extend_from_slice(row.place.bytes());
                }
                is_behind
            });
            drop(rows);
            if is_behind {
                self.partitions.truncate(*group, &last);
                if self.spec.numbering == Numbering::RowNumber {
                    self.is_full.resize(self.is_full.len().max(*group as usize + 1), false);
                    self.is_full[*group as usize] = true;
                }
            }
        }
    }
}

/// A row with its number, and the number of rows before it.
struct Numbered<'a> {
    place: Place<'a>,
    weight: i64,
    number: u64,
    seen: u64,
}

/// Adds the differences of two lists of rows in the same order: the place of a row, and by how many copies there are more
/// of it.
fn differences(chosen: &Chosen, old: Range<usize>, new: Range<usize>, changes: &mut Vec<(u32, i64)>) {
    let (mut o, mut n) = (old.start, new.start);
    loop {
        let old_row = chosen.rows[..old.end].get(o);
        let new_row = chosen.rows[..new.end].get(n);
        let order = match (old_row, new_row) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => {
                let places = chosen.place(a).cmp(&chosen.place(b));
                places.then_with(|| a.number.cmp(&b.number))
            }
        };
        let count = |row: Option<&ChosenRow>| row.map_or(0, |row| row.count);
        let (change, row) = match order {
            Ordering::Less => (-count(old_row), o),
            Ordering::Greater => (count(new_row), n),
            Ordering::Equal => (count(new_row) - count(old_row), o),
        };
        if change != 0 {
            changes.push((row as u32, change));
        }
        o += usize::from(order != Ordering::Greater);
        n += usize::from(order != Ordering::Less);
    }
}

impl Operator for Top {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let Some(given) = self.input.take()? else { return Ok(()) };
        let is_full = |group: u32| self.is_full.get(group as usize).is_some_and(|is_full| *is_full);
        let placed = self.partitions.place(&given, is_full)?;
        let groups = placed.groups();
        let mut chosen = Chosen::default();
        let old: Vec<Range<usize>> = groups.iter().map(|group| self.choose(*group, &mut chosen)).collect();
        self.partitions.apply(&placed, cut.cycle, &self.faults);
        let mut changes = Vec::new();
        for (group, old) in groups.iter().zip(old) {
            let new = self.choose(*group, &mut chosen);
            differences(&chosen, old, new, &mut changes);
        }
        let head = Half { codec: &self.partitions.codec, row: |row: u32| chosen.row(row as usize) };
        if self.spec.number_column.is_some() {
            let number = |row: u32| chosen.rows[row as usize].number;
            let mut numbers: Vec<u64> = changes.iter().map(|(row, _)| number(*row)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let column: ArrayRef = Arc::new(UInt64Array::from(numbers.clone()));
            let encoded = self.numbers.encode(&[column])?;
            let tail = |row: u32| encoded.row(numbers.partition_point(|other| *other < number(row)));
            write_changes(&changes, head, Half { codec: &self.numbers, row: tail }, output)?;
        } else {
            write_changes(&changes, head, no_columns(&self.nothing), output)?;
        }
        self.prune(&groups);
        self.partitions.release(&groups);
        check_limit("ORDER BY with LIMIT", self.partitions.len(), self.spec.rows_max)
    }

    fn state_bytes(&self) -> usize {
        self.partitions.memory() + self.is_full.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.partitions.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.partitions.restore(reader)
    }

    /// The rows that are or may be among the first.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "rows", rows: self.partitions.contents()? }]))
    }
}
