//! The changelog of a table that is given by upserts.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use super::input::Input;
use super::output::{Half, no_columns, write_changes};
use super::{changelog_schema, stored_batch};
use crate::encoded_rows::{RowCodec, RowTable};
use crate::keys::KeyTable;
use crate::stored_rows::{check_limit, read_rows, write_rows};

const VERSION: u8 = 1;

/// No row.
const NONE: u32 = u32::MAX;

/// What the upserts are.
#[derive(Clone, Debug)]
pub struct UpsertsSpec {
    /// The columns of the table.
    pub schema: SchemaRef,
    /// The columns of its key, in which NULL equals NULL. A table without a key has one row.
    pub keys: Vec<usize>,
    /// The largest number of rows that a partition holds.
    pub rows_max: usize,
}

/// Turns the upserts of a table into its changelog: each row replaces the one with the same key, so the old row goes and
/// the new one comes. Of several rows with one key in a cycle, the last one counts.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::changes::{Upserts, UpsertsSpec};
///
/// let upserts = |values: Vec<i64>| {
///     let keys = Arc::new(Int64Array::from(vec![7; values.len()])) as ArrayRef;
///     let values = Arc::new(Int64Array::from(values)) as ArrayRef;
///     let rows = RecordBatch::try_from_iter([("key", keys), ("value", values)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = UpsertsSpec { schema: upserts(vec![]).rows.schema(), keys: vec![0], rows_max: 1000 };
/// let mut output = Output::new(&[Upserts::output_schema(&spec)]);
/// let mut table = Upserts::new(spec).unwrap();
/// let mut changes = |values| {
///     table.rows(0, upserts(values).as_rows(), &mut output).unwrap();
///     table.end_of_cycle(&Cut::first(), &mut output).unwrap();
///     output.finish(0).unwrap().rows
/// };
/// assert_eq!(changes(vec![1, 2]).column(2).as_ref(), &Int64Array::from(vec![1]));
/// let changed = changes(vec![3]);
/// assert_eq!(changed.column(1).as_ref(), &Int64Array::from(vec![2, 3]));
/// assert_eq!(changed.column(2).as_ref(), &Int64Array::from(vec![-1, 1]));
/// ```
#[derive(Debug)]
pub struct Upserts {
    spec: UpsertsSpec,
    codec: RowCodec,
    nothing: RowCodec,
    keys: KeyTable,
    rows: RowTable,
    /// The number of each key's current row.
    current: Vec<u32>,
    /// For each key, whether the cycle has a row of it; only used while a cycle ends.
    is_seen: Vec<bool>,
    input: Input,
}

impl Upserts {
    /// Makes an instance with an empty table.
    ///
    /// # Errors
    /// If the types of the key or of the columns cannot be compared.
    pub fn new(spec: UpsertsSpec) -> Result<Self, Cause> {
        Ok(Upserts {
            codec: RowCodec::new(&spec.schema)?,
            nothing: RowCodec::ordered(Vec::new())?,
            keys: KeyTable::new(&spec.schema, &spec.keys, true)?,
            rows: RowTable::unindexed(),
            current: Vec::new(),
            is_seen: Vec::new(),
            input: Input::new(&spec.schema, false),
            spec,
        })
    }

    /// The columns of its output: the table's, and the weight.
    pub fn output_schema(spec: &UpsertsSpec) -> SchemaRef {
        changelog_schema(&spec.schema)
    }
}

impl Operator for Upserts {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let Some(given) = self.input.take()? else { return Ok(()) };
        let keys = self.keys.intern(&given.rows, &self.spec.keys)?;
        let encoded = self.codec.encode(given.rows.columns())?;
        self.current.resize(self.keys.len(), NONE);
        check_limit("a table", self.current.len(), self.spec.rows_max)?;
        // From the last row to the first: the first one that is seen of a key counts.
        let mut newest = Vec::new();
        self.is_seen.resize(self.current.len(), false);
        for (row, key) in keys.iter().enumerate().rev() {
            if !std::mem::replace(&mut self.is_seen[*key as usize], true) {
                newest.push((row, *key, self.current[*key as usize]));
            }
        }
        newest.iter().for_each(|(_, key, _)| self.is_seen[*key as usize] = false);
        let differs = |(row, _, before): &(usize, u32, u32)| {
            *before == NONE || self.rows.row(*before).identity != encoded.row(*row).identity
        };
        newest.retain(differs);
        let (mut changes, mut replaced) = (Vec::with_capacity(2 * newest.len()), Vec::new());
        for (row, key, before) in newest {
            if before != NONE {
                changes.push((before, -1));
                replaced.push(before);
            }
            let number = self.rows.intern(encoded.row(row)).number;
            changes.push((number, 1));
            self.current[key as usize] = number;
        }
        let rows = &self.rows;
        let head = Half { codec: &self.codec, row: |number| rows.row(number) };
        write_changes(&changes, head, no_columns(&self.nothing), output)?;
        self.rows.remove_all(&replaced);
        Ok(())
    }

    fn state_bytes(&self) -> usize {
        self.keys.bytes() + self.rows.memory() + 4 * self.current.capacity() + self.is_seen.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        write_rows(writer, stored_batch(&self.spec.schema, &self.codec, &self.rows, &self.current).ok());
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let rows = read_rows(reader, &self.spec.schema)?;
        let keys = self.keys.intern(&rows, &self.spec.keys)?;
        let encoded = self.codec.encode(rows.columns())?;
        self.current.resize(self.keys.len(), NONE);
        for (row, key) in keys.into_iter().enumerate() {
            self.current[key as usize] = self.rows.intern(encoded.row(row)).number;
        }
        Ok(())
    }

    /// The current rows of the table.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let used: Vec<u32> = self.current.iter().copied().filter(|number| *number != NONE).collect();
        let rows = stored_batch(&self.spec.schema, &self.codec, &self.rows, &used)?;
        Ok(Some(vec![StateRows { kind: "table", rows }]))
    }
}
