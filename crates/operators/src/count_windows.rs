//! Windows by count: a number of rows of a key that follow each other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::keys::KeyTable;
use crate::row_store::RowStore;
use crate::state::damaged;
use crate::stored_rows::{check_limit, kernel_error, read_rows, write_rows};
use crate::watermark::{Watermark, WatermarkSpec};

const VERSION: u8 = 1;
/// Up to this many rows that no window needs any more do not matter.
const FREED_ROWS_MIN: usize = 1024;

/// Which windows to make.
#[derive(Clone, Debug)]
pub struct CountWindowsSpec {
    /// The columns of the input.
    pub schema: SchemaRef,
    /// The columns whose values have windows of their own; NULL is a value like others.
    pub keys: Vec<usize>,
    /// The number of rows of a window, above 0.
    pub size: u32,
    /// From the first row of one window to the first row of the next, from 1 to the size.
    pub slide: u32,
    /// The gateways whose end is waited for with incomplete windows.
    pub watermark: WatermarkSpec,
    /// The largest number of rows, and of keys, that a partition holds.
    pub rows_max: usize,
}

/// The columns of the output: those of the input, and the bounds of the window, counted in rows of the key from 0.
pub fn output_schema(spec: &CountWindowsSpec) -> SchemaRef {
    let bounds =
        ["window_start", "window_end"].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    Arc::new(Schema::new(spec.schema.fields().iter().cloned().chain(bounds).collect::<Vec<_>>()))
}

/// Emits the rows of each window together when its last row has come, and of incomplete windows when the input has
/// ended. A row comes once for each of its windows, at the position of the row that completed the window.
///
/// So all rows of a window are in one cycle, and [`CycleAggregate`](crate::CycleAggregate) can aggregate them.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Operator, Output};
/// use tidemill_operators::count_windows::{CountWindows, CountWindowsSpec, output_schema};
///
/// let values = Arc::new(Int64Array::from(vec![5, 6, 7])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("value", values)]).unwrap();
/// let spec = CountWindowsSpec {
///     schema: rows.schema(),
///     keys: vec![],
///     size: 2,
///     slide: 1,
///     watermark: vec![0].into(),
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// let mut windows = CountWindows::new(spec).unwrap();
/// windows.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// let given = output.finish(0).unwrap();
/// assert_eq!(given.rows.column(0).as_primitive::<Int64Type>().values(), &[5, 6, 6, 7]);
/// assert_eq!(given.rows.column(1).as_primitive::<Int64Type>().values(), &[0, 0, 1, 1]);
/// assert_eq!(&given.positions[..], &[1, 1, 2, 2]);
/// ```
pub struct CountWindows {
    spec: CountWindowsSpec,
    output: SchemaRef,
    watermark: Watermark,
    keys: KeyTable,
    rows: RowStore,
    /// The rows that each key holds, by the number of the key.
    held: Vec<Held>,
    held_rows: usize,
}

/// What is held of a key.
#[derive(Debug, Default)]
struct Held {
    /// How many rows the key has had.
    count: i64,
    /// The numbers of the last of them in the store.
    rows: VecDeque<u64>,
}

/// The windows that are written together.
#[derive(Debug, Default)]
struct Windows {
    rows: Vec<u64>,
    starts: Vec<i64>,
    positions: Vec<u32>,
}

impl Held {
    /// The number, among the key's rows, of the first row that is held.
    fn first(&self) -> i64 {
        self.count - self.rows.len() as i64
    }

    /// Adds the rows of the window that begins with this one, as far as they are there.
    fn write(&self, start: i64, size: i64, position: u32, windows: &mut Windows) {
        let skipped = (start - self.first()) as usize;
        let before = windows.rows.len();
        windows.rows.extend(self.rows.iter().skip(skipped).take(size as usize));
        windows.starts.resize(windows.rows.len(), start);
        windows.positions.resize(windows.rows.len(), position);
        debug_assert!(windows.rows.len() > before, "a window has rows");
    }
}

impl CountWindows {
    /// No rows so far.
    ///
    /// # Errors
    /// If a type cannot be a key, or the slide is 0 or larger than the size.
    pub fn new(spec: CountWindowsSpec) -> Result<Self, Cause> {
        if !(1..=spec.size).contains(&spec.slide) {
            return Err(Cause::user(format!(
                "windows of {} rows cannot begin every {} rows; use a slide from 1 to the size",
                spec.size, spec.slide
            )));
        }
        Ok(CountWindows {
            output: output_schema(&spec),
            watermark: Watermark::new(spec.watermark.clone()),
            keys: KeyTable::new(&spec.schema, &spec.keys, true)?,
            rows: RowStore::new(Arc::clone(&spec.schema)),
            held: Vec::new(),
            held_rows: 0,
            spec,
        })
    }

    /// Takes a row of a key; adds the window that it completes.
    fn add(&mut self, key: u32, row: u64, position: u32, windows: &mut Windows) {
        let (size, slide) = (i64::from(self.spec.size), i64::from(self.spec.slide));
        let held = &mut self.held[key as usize];
        held.rows.push_back(row);
        held.count += 1;
        self.held_rows += 1;
        let start = held.count - size;
        if start < 0 || start % slide != 0 {
            return;
        }
        held.write(start, size, position, windows);
        let passed = (start + slide - held.first()) as usize;
        held.rows.drain(..passed);
        self.held_rows -= passed;
    }

    fn write(&self, windows: Windows, output: &mut Output) -> Result<(), Cause> {
        if windows.rows.is_empty() {
            return Ok(());
        }
        let size = i64::from(self.spec.size);
        let ends = windows.starts.iter().map(|start| start + size).collect::<Int64Array>();
        let mut columns: Vec<ArrayRef> = self.rows.rows(&windows.rows)?.columns().to_vec();
        columns.push(Arc::new(Int64Array::from(windows.starts)));
        columns.push(Arc::new(ends));
        let rows = RecordBatch::try_new(Arc::clone(&self.output), columns).map_err(kernel_error)?;
        output.port(0).push_batch(rows, &windows.positions)
    }

    /// Forgets rows that no window needs, once they are the majority.
    fn compact(&mut self) -> Result<(), Cause> {
        let freed = self.rows.len() - self.held_rows;
        if freed < self.held_rows.max(FREED_ROWS_MIN) {
            return Ok(());
        }
        let kept = self.held_numbers();
        self.rows.keep(&kept)?;
        let renumber = |row: &mut u64| *row = kept.binary_search(row).unwrap_or_default() as u64;
        self.held.iter_mut().for_each(|held| held.rows.iter_mut().for_each(renumber));
        Ok(())
    }

    /// The numbers of all rows that are held, ascending.
    fn held_numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.held.iter().flat_map(|held| held.rows.iter().copied()).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Operator for CountWindows {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let keys = self.keys.intern(&batch, &self.spec.keys)?;
        check_limit("a window by count", self.keys.len(), self.spec.rows_max)?;
        self.held.resize_with(self.keys.len(), Held::default);
        let first = self.rows.append(batch)?;
        let mut windows = Windows::default();
        for ((key, position), row) in keys.into_iter().zip(rows.positions()).zip(first..) {
            self.add(key, row, *position, &mut windows);
        }
        check_limit("a window by count", self.held_rows, self.spec.rows_max)?;
        self.write(windows, output)?;
        self.compact()
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        if self.watermark.advance(cut) < i64::MAX || self.held_rows == 0 {
            return Ok(());
        }
        let (size, slide) = (i64::from(self.spec.size), i64::from(self.spec.slide));
        let mut windows = Windows::default();
        for held in &mut self.held {
            // The first row that is held is the first of the next window.
            for start in (held.first()..held.count).step_by(slide as usize) {
                held.write(start, size, output.end_position(), &mut windows);
            }
            held.rows.clear();
            // If rows come after all, they begin with the next window.
            held.count += (slide - held.count % slide) % slide;
        }
        self.held_rows = 0;
        self.write(windows, output)
    }

    fn next_timer(&self) -> Option<i64> {
        (self.held_rows > 0).then_some(i64::MAX)
    }

    fn state_bytes(&self) -> usize {
        let held = self.held.capacity() * size_of::<Held>() + 8 * self.held_rows;
        held + self.rows.bytes() + self.keys.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        self.keys.snapshot(writer);
        let numbers = self.held_numbers();
        write_rows(writer, self.rows.rows(&numbers).ok());
        writer.u64(self.held.len() as u64);
        for held in &self.held {
            writer.i64(held.count);
            writer.u64(held.rows.len() as u64);
            for row in &held.rows {
                writer.u64(numbers.binary_search(row).unwrap_or_default() as u64);
            }
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        self.keys.restore(reader)?;
        let rows = read_rows(reader, &self.spec.schema)?;
        let known = rows.num_rows() as u64;
        self.rows.append(rows)?;
        let keys = reader.u64()?;
        if keys > self.keys.len() as u64 {
            return Err(damaged("it has rows of more keys than there are"));
        }
        for _ in 0..keys {
            let count = reader.i64()?;
            let held = reader.u64()?;
            let slide = i64::from(self.spec.slide);
            let fits = held <= known
                && (held as i64..=i64::MAX / 2).contains(&count)
                && (count - held as i64) % slide == 0;
            if !fits || held >= u64::from(self.spec.size) {
                return Err(damaged("a window by count has a wrong number of rows"));
            }
            let numbers = (0..held).map(|_| reader.u64()).collect::<Result<VecDeque<_>, _>>()?;
            if numbers.iter().any(|row| *row >= known) {
                return Err(damaged("a window by count names a row that is not there"));
            }
            self.held_rows += numbers.len();
            self.held.push(Held { count, rows: numbers });
        }
        Ok(())
    }

    /// The rows of windows that are not complete, in the order of arrival.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "rows", rows: self.rows.rows(&self.held_numbers())? }]))
    }
}
