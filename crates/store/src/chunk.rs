//! Rows that were stored together: columns that do not change, what is known about them, and where they are.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_select::concat::concat;
use tidemill_core::Cause;
use tidemill_core::memory::bytes_of_column;

use crate::area::Area;
use crate::chunk_files::ChunkPlace;
use crate::columns;
use crate::config::{Contents, StoreConfig};
use crate::grid::Grid;

/// The cycle at which a row that was not replaced yet is replaced.
pub(crate) const NEVER: u64 = u64::MAX;

/// Rows with consecutive numbers.
pub(crate) struct Chunk {
    /// The number of its first row: how many rows were stored before.
    pub first: u64,
    pub rows: RecordBatch,
    pub times: Option<Times>,
    pub points: Option<Points>,
    /// In a fragment, the numbers of its rows among the rows of all fragments.
    pub numbers: Option<ScalarBuffer<u64>>,
    /// For each row, how many rows before it the previous row with the same hash of its key is; 0 if there is none.
    /// Empty without a key.
    pub back: Box<[AtomicU32]>,
    /// For each row of a changelog, how many rows behind it the next row with the same hash of its key is; 0 if there is none. Only the
    /// writer uses it. Empty without a key.
    pub ahead: Box<[AtomicU32]>,
    pub table: Option<TableRows>,
    /// Where it is kept, once it is complete and a snapshot has named it.
    pub place: OnceLock<ChunkPlace>,
    bytes: usize,
}

/// The times of a chunk's rows.
pub(crate) struct Times {
    pub values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    /// The least and the largest; the other way round if all are NULL.
    pub range: (i64, i64),
    /// The largest time of all rows up to the last of this chunk.
    pub latest: i64,
}

/// The points of a chunk's rows.
pub(crate) struct Points {
    pub x: ScalarBuffer<f64>,
    pub y: ScalarBuffer<f64>,
    /// The box around all points.
    pub area: Area,
    has_rows_without: bool,
    /// Only for chunks that are complete.
    pub grid: Option<Grid>,
}

/// What is known about each row of a table, or of a changelog.
pub(crate) struct TableRows {
    /// The cycle that replaced the row, took it back, or stored it again.
    pub ended: Box<[AtomicU64]>,
    /// How many keys of a table came before the row's key, or how many rows of a changelog came before the row.
    pub ordinals: Box<[AtomicU64]>,
}

impl Times {
    pub fn at(&self, row: usize) -> Option<i64> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then(|| self.values[row])
    }

    fn has_nulls(&self) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0)
    }
}

impl Chunk {
    /// Rows that begin at this number, with what the configuration says about them. `latest` is the largest time of all
    /// rows before.
    pub fn new(config: &StoreConfig, first: u64, rows: RecordBatch, latest: i64) -> Result<Chunk, Cause> {
        let wrong = |column: usize| Cause::bug(format!("column {column} of a store has changed its type"));
        let times = match config.time {
            None => None,
            Some(column) => {
                let (values, nulls) = columns::integers(rows.column(column)).ok_or_else(|| wrong(column))?;
                Some(times_of(values, nulls, latest))
            }
        };
        let points = match config.point {
            None => None,
            Some([x, y]) => {
                let x = columns::coordinates(rows.column(x)).ok_or_else(|| wrong(x))?;
                let y = columns::coordinates(rows.column(y)).ok_or_else(|| wrong(y))?;
                Some(points_of(x, y))
            }
        };
        let numbers = |column: usize| {
            let numbers = rows.column(column).as_primitive_opt::<UInt64Type>();
            numbers.map(|numbers| numbers.values().clone()).ok_or_else(|| wrong(column))
        };
        let numbers = config.numbers.map(numbers).transpose()?;
        let count = rows.num_rows();
        let links =
            |is_linked: bool| (0..if is_linked { count } else { 0 }).map(|_| AtomicU32::new(0)).collect();
        let back = links(config.key.is_some());
        let ahead = links(config.key.is_some() && config.contents == Contents::Changes);
        let table = (config.contents != Contents::AllRows).then(|| TableRows {
            ended: (0..count).map(|_| AtomicU64::new(NEVER)).collect(),
            ordinals: (0..count).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut chunk = Chunk {
            first,
            rows,
            times,
            points,
            numbers,
            back,
            ahead,
            table,
            place: OnceLock::new(),
            bytes: 0,
        };
        chunk.bytes = chunk.count_bytes();
        Ok(chunk)
    }

    /// One chunk out of several that follow each other; its columns are in memory of its own. Complete ones get a grid.
    pub fn merged(config: &StoreConfig, chunks: &[Arc<Chunk>], is_complete: bool) -> Result<Chunk, Cause> {
        let rows = copied(chunks)?;
        let mut merged = Chunk::new(config, chunks[0].first, rows, i64::MIN)?;
        if let Some(times) = &mut merged.times {
            let latest = chunks.iter().filter_map(|chunk| chunk.times.as_ref().map(|times| times.latest));
            times.latest = latest.max().unwrap_or(i64::MIN);
        }
        let links = |of: fn(&Chunk) -> &[AtomicU32]| {
            let links = chunks.iter().flat_map(|chunk| of(chunk));
            links.map(|link| AtomicU32::new(link.load(Ordering::Relaxed))).collect()
        };
        merged.back = links(|chunk| &chunk.back);
        merged.ahead = links(|chunk| &chunk.ahead);
        if let Some(table) = &mut merged.table {
            let parts = || chunks.iter().filter_map(|chunk| chunk.table.as_ref());
            let copy = |value: &AtomicU64| AtomicU64::new(value.load(Ordering::Relaxed));
            table.ended = parts().flat_map(|table| table.ended.iter()).map(copy).collect();
            table.ordinals = parts().flat_map(|table| table.ordinals.iter()).map(copy).collect();
        }
        if is_complete {
            merged.complete();
        }
        Ok(merged)
    }

    /// Sorts its rows by their points.
    pub fn complete(&mut self) {
        if let Some(points) = self.points.as_mut().filter(|points| points.grid.is_none()) {
            points.grid = Grid::new(&points.x, &points.y, &points.area);
            self.bytes = self.count_bytes();
        }
    }

    /// The place of a row in the order of the store.
    pub fn order(&self, row: usize) -> u64 {
        match (&self.table, &self.numbers) {
            (Some(table), _) => table.ordinals[row].load(Ordering::Relaxed),
            (None, Some(numbers)) => numbers[row],
            (None, None) => self.first + row as u64,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// One past the number of its last row.
    pub fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// Its bytes, with those of its indexes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn count_bytes(&self) -> usize {
        let columns: usize = self.rows.columns().iter().map(bytes_of).sum();
        let per_row = (self.back.len() + self.ahead.len()) * size_of::<u32>()
            + self.table.as_ref().map_or(0, |table| table.ended.len() * 2 * size_of::<u64>());
        let grid = self.points.as_ref().and_then(|points| points.grid.as_ref()).map_or(0, Grid::bytes);
        columns + per_row + grid
    }

    /// The number of the previous row with the same hash of its key.
    pub fn before(&self, number: u64) -> Option<u64> {
        let back = self.back[(number - self.first) as usize].load(Ordering::Acquire);
        (back > 0).then(|| number - u64::from(back))
    }

    /// Notes which row before has the same hash of its key. One that is too far back was dropped long ago.
    pub fn set_before(&self, row: usize, before: Option<u64>) {
        let number = self.first + row as u64;
        let back = before.and_then(|before| u32::try_from(number - before).ok()).unwrap_or(0);
        self.back[row].store(back, Ordering::Release);
    }

    /// The number of the next row with the same hash of its key.
    pub fn after(&self, number: u64) -> Option<u64> {
        let ahead = self.ahead[(number - self.first) as usize].load(Ordering::Relaxed);
        (ahead > 0).then(|| number + u64::from(ahead))
    }

    /// Notes which row behind has the same hash of its key.
    pub fn set_after(&self, number: u64, after: u64) {
        let ahead = u32::try_from(after - number).unwrap_or(0);
        self.ahead[(number - self.first) as usize].store(ahead, Ordering::Relaxed);
    }

    /// Whether a version that was published after this cycle shows the row, as far as its table says.
    pub fn is_shown(&self, row: usize, cycle: u64) -> bool {
        self.table.as_ref().is_none_or(|table| table.ended[row].load(Ordering::Relaxed) > cycle)
    }

    /// Whether a row's time is in this range.
    pub fn is_in_time(&self, row: usize, range: Option<(i64, i64)>) -> bool {
        let Some((from, to)) = range else { return true };
        let time = self.times.as_ref().and_then(|times| times.at(row));
        time.is_some_and(|time| from <= time && time <= to)
    }

    /// Whether a row's point is in this box.
    pub fn is_in_area(&self, row: usize, area: Option<&Area>) -> bool {
        let Some(area) = area else { return true };
        self.points.as_ref().is_some_and(|points| area.contains(points.x[row], points.y[row]))
    }

    /// Whether rows of this chunk can be in this range of time.
    pub fn may_be_in_time(&self, range: Option<(i64, i64)>) -> bool {
        let Some((from, to)) = range else { return true };
        self.times.as_ref().is_some_and(|times| times.range.0 <= to && from <= times.range.1)
    }

    /// Whether rows of this chunk can be in this box.
    pub fn may_be_in_area(&self, area: Option<&Area>) -> bool {
        let Some(area) = area else { return true };
        self.points.as_ref().is_some_and(|points| area.meets(&points.area))
    }

    /// Whether all rows are in this range of time and in this box.
    pub fn is_all_in(&self, range: Option<(i64, i64)>, area: Option<&Area>) -> bool {
        let in_time = range.is_none_or(|(from, to)| {
            let covers = |times: &Times| !times.has_nulls() && from <= times.range.0 && times.range.1 <= to;
            self.times.as_ref().is_some_and(covers)
        });
        let covers = |points: &Points, area: &Area| !points.has_rows_without && area.covers(&points.area);
        let in_area = |area: &Area| self.points.as_ref().is_some_and(|points| covers(points, area));
        in_time && area.is_none_or(in_area)
    }
}

fn times_of(values: ScalarBuffer<i64>, nulls: Option<NullBuffer>, latest: i64) -> Times {
    let least_and_most = |(least, most): (i64, i64), value: i64| (least.min(value), most.max(value));
    let start = (i64::MAX, i64::MIN);
    let range = match nulls.as_ref().filter(|nulls| nulls.null_count() > 0) {
        None => values.iter().copied().fold(start, least_and_most),
        Some(nulls) => nulls.valid_indices().map(|row| values[row]).fold(start, least_and_most),
    };
    Times { values, nulls, range, latest: latest.max(range.1) }
}

fn points_of(x: ScalarBuffer<f64>, y: ScalarBuffer<f64>) -> Points {
    let (mut area, mut has_rows_without) = (Area::NOTHING, false);
    for (x, y) in x.iter().zip(y.iter()) {
        if x.is_nan() || y.is_nan() { has_rows_without = true } else { area.include(*x, *y) }
    }
    Points { x, y, area, has_rows_without, grid: None }
}

/// The rows of all chunks, in memory of their own: a batch may be a small part of a large message.
fn copied(chunks: &[Arc<Chunk>]) -> Result<RecordBatch, Cause> {
    let column = |index: usize| -> Result<ArrayRef, Cause> {
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(chunks.len() + 1);
        for chunk in chunks {
            let column = chunk.rows.column(index);
            // A single array would be returned as it is.
            if chunks.len() == 1 && column.len() > 1 {
                parts.extend([column.slice(0, 1), column.slice(1, column.len() - 1)])
            } else {
                parts.push(column.clone())
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        concat(&parts).map_err(|error| too_large(&error))
    };
    let schema = chunks[0].rows.schema();
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>, Cause>>()?;
    let rows = chunks.iter().map(|chunk| chunk.len()).sum();
    batch_of(&schema, columns, rows)
}

/// A batch of these columns; there may be none.
pub(crate) fn batch_of(
    schema: &arrow_schema::SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, Cause> {
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| {
        Cause::bug(format!("rows do not have a store's columns: {error}")).with_source(error)
    })
}

pub(crate) fn too_large(error: &arrow_schema::ArrowError) -> Cause {
    Cause::resource(format!("the rows do not fit into one batch: {error}; ask for fewer rows or columns"))
}

/// The bytes of a column's own share of its buffers.
pub(crate) fn bytes_of(column: &ArrayRef) -> usize {
    bytes_of_column(column)
}
