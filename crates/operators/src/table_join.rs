//! Joins of a stream with the current rows of a table that changes.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_arrays;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Expression, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::join::{JoinKind, condition, joined_schema};
use crate::keys::{KeyTable, NO_KEY};
use crate::row_store::{NO_ROW, RowStore};
use crate::stored_rows::{CycleRows, check_limit, kernel_error, read_rows, write_rows};

const VERSION: u8 = 1;

/// With fewer stored rows, compacting is not worthwhile.
const COMPACT_ROWS: usize = 4096;

/// What to join: input 0 brings the table's upserts, input 1 the stream's rows.
#[derive(Clone, Debug)]
pub struct TableJoinSpec {
    /// The columns of the stream.
    pub stream: SchemaRef,
    /// The columns of the table.
    pub table: SchemaRef,
    /// The stream's columns that must equal `table_keys`, pairwise and with equal types; NULL equals nothing.
    pub stream_keys: Vec<usize>,
    /// The table's key: for each of its values the table has one row, the latest. A table without a key has one row,
    /// which matches every row of the stream.
    pub table_keys: Vec<usize>,
    /// What happens to the stream's rows without a match.
    pub kind: JoinKind,
    /// An additional condition: Boolean, over the stream's columns followed by the table's. NULL is not a match.
    pub residual: Option<Arc<dyn Expression>>,
    /// The largest number of table rows that a partition holds.
    pub rows_max: usize,
}

/// The columns of the output: the stream's, then the table's.
pub fn output_schema(spec: &TableJoinSpec) -> SchemaRef {
    joined_schema(&spec.stream, &spec.table, spec.kind)
}

/// Joins each row of a stream with the table's row of its key. A row sees the upserts up to its own position, and those
/// that the end of its own cycle caused: an aggregate upserts once per cycle, and its result then includes the row
/// itself.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::join::JoinKind;
/// use tidemill_operators::table_join::{TableJoin, TableJoinSpec, output_schema};
///
/// let rows = |values: Vec<i64>, positions: Vec<u32>| {
///     let keys = Arc::new(Int64Array::from(vec![7; values.len()])) as ArrayRef;
///     let values = Arc::new(Int64Array::from(values)) as ArrayRef;
///     let rows = RecordBatch::try_from_iter([("key", keys), ("value", values)]).unwrap();
///     Batch::from_source(rows, positions.into())
/// };
/// let (upserts, stream) = (rows(vec![100, 200], vec![1, 3]), rows(vec![1, 2, 3], vec![0, 2, 4]));
/// let spec = TableJoinSpec {
///     stream: stream.rows.schema(),
///     table: upserts.rows.schema(),
///     stream_keys: vec![0],
///     table_keys: vec![0],
///     kind: JoinKind::Inner,
///     residual: None,
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// output.begin_cycle(5); // events at positions 0 to 4
/// let mut join = TableJoin::new(spec).unwrap();
/// join.rows(0, upserts.as_rows(), &mut output).unwrap();
/// join.rows(1, stream.as_rows(), &mut output).unwrap();
/// join.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// // The first row came before the table had one.
/// let joined = output.finish(0).unwrap().rows;
/// assert_eq!(joined.column(3).as_ref(), &Int64Array::from(vec![100, 200]));
/// ```
#[derive(Debug)]
pub struct TableJoin {
    spec: TableJoinSpec,
    schema: SchemaRef,
    keys: KeyTable,
    store: RowStore,
    /// The number of each key's current row.
    current: Vec<u64>,
    upserts: CycleRows,
    stream: CycleRows,
}

impl TableJoin {
    /// An instance with an empty table.
    ///
    /// # Errors
    /// If the types of the keys differ or cannot be compared.
    pub fn new(spec: TableJoinSpec) -> Result<Self, Cause> {
        let keys = KeyTable::new(&spec.table, &spec.table_keys, false)?;
        keys.check_types(&spec.stream, &spec.stream_keys)?;
        Ok(TableJoin {
            schema: output_schema(&spec),
            keys,
            store: RowStore::new(spec.table.clone()),
            current: Vec::new(),
            upserts: CycleRows::default(),
            stream: CycleRows::default(),
            spec,
        })
    }

    /// Takes the cycle's upserts and finds the table row for each stream row: the one that the end of the cycle wrote,
    /// or else the last upsert up to the row.
    fn match_rows(
        &mut self,
        stream: Option<&(RecordBatch, Vec<u32>)>,
        end_position: u32,
    ) -> Result<Vec<u64>, Cause> {
        let upserts = self.upserts.take(&self.spec.table)?;
        let (upsert_keys, upsert_positions, first) = match upserts {
            Some((rows, positions)) => {
                (self.keys.intern(&rows, &self.spec.table_keys)?, positions, self.store.append(rows)?)
            }
            None => (Vec::new(), Vec::new(), 0),
        };
        let (keys, positions) = match stream {
            Some((rows, positions)) => (self.keys.find(rows, &self.spec.stream_keys)?, positions.as_slice()),
            None => (Vec::new(), [].as_slice()),
        };
        self.current.resize(self.keys.len(), NO_ROW);
        let before_end = upsert_positions.partition_point(|position| *position < end_position);
        let mut at_end = vec![NO_ROW; if before_end < upsert_keys.len() { self.keys.len() } else { 0 }];
        for (index, key) in upsert_keys.iter().enumerate().skip(before_end) {
            set(&mut at_end, *key, first + index as u64);
        }
        let row_of = |rows: &[u64], key: u32| rows.get(key as usize).copied().filter(|row| *row != NO_ROW);
        let mut next = 0;
        let mut matches = Vec::with_capacity(keys.len());
        for (key, position) in keys.iter().zip(positions) {
            while next < before_end && upsert_positions[next] <= *position {
                set(&mut self.current, upsert_keys[next], first + next as u64);
                next += 1;
            }
            let row = row_of(&at_end, *key).or_else(|| row_of(&self.current, *key));
            matches.push(row.unwrap_or(NO_ROW));
        }
        for (index, key) in upsert_keys.iter().enumerate().skip(next) {
            set(&mut self.current, *key, first + index as u64);
        }
        Ok(matches)
    }

    /// Joined rows and their positions, without those for which the additional condition does not hold.
    fn join(
        &self,
        stream: &(RecordBatch, Vec<u32>),
        mut matches: Vec<u64>,
        cut: &Cut,
    ) -> Result<(RecordBatch, Vec<u32>), Cause> {
        let (rows, positions) = stream;
        if let Some(residual) = &self.spec.residual {
            let columns = [rows.columns().to_vec(), self.store.gather(&matches)?].concat();
            let schema = joined_schema(&self.spec.stream, &self.spec.table, JoinKind::Left);
            let pairs = RecordBatch::try_new(schema, columns).map_err(kernel_error)?;
            let holds = condition(residual.as_ref(), &pairs, cut)?;
            for (matched, _) in matches.iter_mut().zip(holds.values().iter()).filter(|(_, holds)| !holds) {
                *matched = NO_ROW;
            }
        }
        if self.spec.kind == JoinKind::Inner {
            let kept = (0..matches.len() as u32).filter(|row| matches[*row as usize] != NO_ROW);
            let kept: UInt32Array = kept.collect();
            let positions = kept.values().iter().map(|row| positions[*row as usize]).collect();
            matches.retain(|matched| *matched != NO_ROW);
            let columns = take_arrays(rows.columns(), &kept, None).map_err(kernel_error)?;
            return Ok((self.joined(columns, &matches)?, positions));
        }
        Ok((self.joined(rows.columns().to_vec(), &matches)?, positions.clone()))
    }

    fn joined(&self, columns: Vec<arrow_array::ArrayRef>, matches: &[u64]) -> Result<RecordBatch, Cause> {
        let columns = [columns, self.store.gather(matches)?].concat();
        RecordBatch::try_new(self.schema.clone(), columns).map_err(kernel_error)
    }

    /// The current row of each key.
    fn current_rows(&self) -> Result<RecordBatch, Cause> {
        let kept: Vec<u64> = self.current.iter().copied().filter(|row| *row != NO_ROW).collect();
        self.store.rows(&kept)
    }

    /// Releases replaced rows, once they are more than half.
    fn compact(&mut self) -> Result<(), Cause> {
        if self.store.len() <= 2 * self.current.len() + COMPACT_ROWS {
            return Ok(());
        }
        let mut kept = self.current.clone();
        kept.sort_unstable();
        self.store.keep(&kept)?;
        for row in &mut self.current {
            *row = kept.partition_point(|kept| *kept < *row) as u64;
        }
        Ok(())
    }
}

/// Records the row of a key. A row whose key is NULL can match nothing and is not kept.
fn set(rows: &mut [u64], key: u32, row: u64) {
    if key != NO_KEY {
        rows[key as usize] = row;
    }
}

impl Operator for TableJoin {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        match input {
            0 => self.upserts.push(&rows),
            _ => self.stream.push(&rows),
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let stream = self.stream.take(&self.spec.stream)?;
        let matches = self.match_rows(stream.as_ref(), output.end_position())?;
        check_limit("the table of a join", self.current.len(), self.spec.rows_max)?;
        if let Some(stream) = stream {
            let (rows, positions) = self.join(&stream, matches, cut)?;
            if rows.num_rows() > 0 {
                output.port(0).push_batch(rows, &positions)?;
            }
        }
        self.compact()
    }

    fn state_bytes(&self) -> usize {
        self.keys.bytes() + self.store.bytes() + 8 * self.current.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        write_rows(writer, self.current_rows().ok());
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let rows = read_rows(reader, &self.spec.table)?;
        let keys = self.keys.intern(&rows, &self.spec.table_keys)?;
        let first = self.store.append(rows)?;
        self.current = (first..first + keys.len() as u64).collect();
        Ok(())
    }

    /// The current rows of the table.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "table", rows: self.current_rows()? }]))
    }
}
