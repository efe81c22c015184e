//! The first rows of every window by some order.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_row::{Row, RowConverter, Rows as KeyRows, SortField};
use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions};
use arrow_select::concat::concat_batches;
use arrow_select::take::{take_arrays, take_record_batch};
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::normal::normalise;
use crate::state_rows::state_rows;
use crate::stored_rows::{check_limit, event_times, kernel_error, read_rows, with_schema, write_rows};
use crate::watermark::{LateRows, Watermark, WatermarkSpec};

const VERSION: u8 = 1;

/// In windows with fewer rows, searching for rows to drop is not worthwhile.
const PRUNE_ROWS: usize = 4096;

/// What to keep.
#[derive(Clone, Debug)]
pub struct TopSpec {
    /// The columns of the rows.
    pub schema: SchemaRef,
    /// The columns whose combinations of values each have their own first rows. `window_end` is always one of them,
    /// whether it is named here or not.
    pub partition: Vec<usize>,
    /// The order within a partition; ties are in the order of arrival.
    pub order: Vec<OrderBy>,
    /// The number of rows of each partition; for ranks, the largest rank.
    pub count: usize,
    /// How rows are numbered.
    pub numbering: Numbering,
    /// The name of an additional column with that number (`UInt64`, from 1); `None` if not wanted.
    pub number_column: Option<String>,
    /// The column with the end of the row's window, a timestamp in nanoseconds.
    pub window_end: usize,
    /// Which watermark counts.
    pub watermark: WatermarkSpec,
    /// The largest number of rows that a partition holds.
    pub rows_max: usize,
    /// Counts the rows left out because their window is closed or they have none.
    pub late: LateRows,
}

/// One column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// The column.
    pub column: usize,
    /// From the largest value to the smallest.
    pub descending: bool,
    /// NULLs come before all values.
    pub nulls_first: bool,
}

/// How rows are numbered within their partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// `ROW_NUMBER`: 1, 2, 3 and so on.
    RowNumber,
    /// `RANK`: rows that are equal in the order have the number of the first of them.
    Rank,
    /// `DENSE_RANK`: as rank, without gaps.
    DenseRank,
}

/// The columns of the output: those of the rows, and the number if it is wanted.
pub fn output_schema(spec: &TopSpec) -> SchemaRef {
    let number = spec.number_column.iter().map(|name| Field::new(name, DataType::UInt64, false).into());
    Arc::new(Schema::new(spec.schema.fields().iter().cloned().chain(number).collect::<Vec<_>>()))
}

/// Emits the first rows of each window when the watermark closes it: window by window, partition by partition in the
/// order of their columns' values, and within each the rows in the specified order.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::top::{Numbering, OrderBy, Top, TopSpec, output_schema};
///
/// let ends = Arc::new(TimestampNanosecondArray::from(vec![10, 10, 10, 20])) as ArrayRef;
/// let counts = Arc::new(Int64Array::from(vec![5, 9, 7, 1])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("window_end", ends), ("count", counts)]).unwrap();
/// let spec = TopSpec {
///     schema: rows.schema(),
///     partition: vec![],
///     order: vec![OrderBy { column: 1, descending: true, nulls_first: false }],
///     count: 2,
///     numbering: Numbering::RowNumber,
///     number_column: None,
///     window_end: 0,
///     watermark: vec![0].into(),
///     rows_max: 1000,
///     late: Default::default(),
/// };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// let mut top = Top::new(spec).unwrap();
/// top.rows(0, Batch::from_source(rows, vec![0, 1, 2, 3].into()).as_rows(), &mut output).unwrap();
/// top.end_of_cycle(&Cut { watermarks: vec![12], ..Cut::first() }, &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().rows.column(1).as_ref(), &Int64Array::from(vec![9, 7]));
/// ```
#[derive(Debug)]
pub struct Top {
    spec: TopSpec,
    schema: SchemaRef,
    partition: RowConverter,
    order: RowConverter,
    windows: BTreeMap<i64, Window>,
    rows: usize,
    watermark: Watermark,
}

/// The rows of one window, in the order of arrival.
#[derive(Debug, Default)]
struct Window {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// The number of rows when those that cannot be among the first were last dropped.
    pruned_rows: usize,
}

/// The first rows of a window: their row numbers in order, and their numbers.
struct First {
    rows: Vec<u32>,
    numbers: Vec<u64>,
}

impl Top {
    /// An empty instance.
    ///
    /// # Errors
    /// If columns of the partition or the order cannot be compared.
    pub fn new(spec: TopSpec) -> Result<Self, Cause> {
        let field = |column: usize, options| {
            SortField::new_with_options(spec.schema.field(column).data_type().clone(), options)
        };
        let options = |by: &OrderBy| SortOptions { descending: by.descending, nulls_first: by.nulls_first };
        let partition = spec.partition.iter().map(|column| field(*column, SortOptions::default())).collect();
        let order = spec.order.iter().map(|by| field(by.column, options(by))).collect();
        let converter = |fields| {
            RowConverter::new(fields)
                .map_err(|error| Cause::user(format!("rows cannot be sorted: {error}")).with_source(error))
        };
        Ok(Top {
            schema: output_schema(&spec),
            partition: converter(partition)?,
            order: converter(order)?,
            windows: BTreeMap::new(),
            rows: 0,
            watermark: Watermark::new(spec.watermark.clone()),
            spec,
        })
    }

    /// Adds rows to their windows. Leaves out rows of closed windows and of none; returns their number.
    fn push(&mut self, rows: RecordBatch) -> Result<usize, Cause> {
        let rows = with_schema(&self.spec.schema, rows)?;
        let (ends, nulls) = event_times(&rows, self.spec.window_end)?;
        let watermark = self.watermark.reached();
        let is_open = |row: &u32| {
            let row = *row as usize;
            ends[row] > watermark && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
        };
        let mut kept: Vec<u32> = (0..ends.len() as u32).filter(is_open).collect();
        kept.sort_by_key(|row| ends[*row as usize]);
        let late = ends.len() - kept.len();
        for of_window in kept.chunk_by(|a, b| ends[*a as usize] == ends[*b as usize]) {
            let batch =
                if of_window.len() == ends.len() { rows.clone() } else { take_rows(&rows, of_window)? };
            self.windows.entry(ends[of_window[0] as usize]).or_default().push(batch);
            self.rows += of_window.len();
        }
        Ok(late)
    }

    /// Drops rows that cannot be among the first, from windows that have doubled in size since the last time.
    fn prune(&mut self) -> Result<(), Cause> {
        let mut windows = std::mem::take(&mut self.windows);
        for window in windows.values_mut() {
            if window.rows > 2 * window.pruned_rows + PRUNE_ROWS {
                let rows = window.concat(&self.spec.schema)?;
                let mut first = self.first(&rows)?.rows;
                first.sort_unstable();
                let kept = take_rows(&rows, &first)?;
                self.rows -= window.rows - kept.num_rows();
                *window = Window { pruned_rows: kept.num_rows(), ..Window::of(kept) };
            }
        }
        self.windows = windows;
        Ok(())
    }

    fn first(&self, rows: &RecordBatch) -> Result<First, Cause> {
        let columns = |columns: &mut dyn Iterator<Item = usize>| -> Vec<_> {
            columns.map(|column| rows.column(column).clone()).collect()
        };
        let partition_columns = columns(&mut self.spec.partition.iter().copied());
        let order_columns = columns(&mut self.spec.order.iter().map(|by| by.column));
        let partitions = self.keys(&self.partition, &partition_columns)?;
        let orders = self.keys(&self.order, &order_columns)?;
        let partition = |row: &u32| key(partitions.as_ref(), *row);
        let order = |row: &u32| key(orders.as_ref(), *row);
        let mut sorted: Vec<u32> = (0..rows.num_rows() as u32).collect();
        // Stable, so that ties stay in the order of arrival.
        sorted.sort_by(|a, b| partition(a).cmp(&partition(b)).then_with(|| order(a).cmp(&order(b))));
        let mut first = First { rows: Vec::new(), numbers: Vec::new() };
        for of_partition in sorted.chunk_by(|a, b| partition(a) == partition(b)) {
            self.number(of_partition, order, &mut first);
        }
        Ok(first)
    }

    /// Numbers the rows of one partition, up to the specified number.
    fn number<K: PartialEq>(&self, sorted: &[u32], order: impl Fn(&u32) -> K, first: &mut First) {
        let mut number = 0;
        for (index, row) in sorted.iter().enumerate() {
            let is_tie = index > 0 && order(&sorted[index - 1]) == order(row);
            number = match self.spec.numbering {
                Numbering::RowNumber => index as u64 + 1,
                Numbering::Rank | Numbering::DenseRank if is_tie => number,
                Numbering::Rank => index as u64 + 1,
                Numbering::DenseRank => number + 1,
            };
            if number > self.spec.count as u64 {
                break;
            }
            first.rows.push(*row);
            first.numbers.push(number);
        }
    }

    fn keys(&self, converter: &RowConverter, columns: &[ArrayRef]) -> Result<Option<KeyRows>, Cause> {
        match columns {
            [] => Ok(None),
            _ => {
                let normal = |column: &ArrayRef| normalise(column, column.data_type());
                let columns = columns.iter().map(normal).collect::<Result<Vec<_>, Cause>>()?;
                converter.convert_columns(&columns).map(Some).map_err(kernel_error)
            }
        }
    }

    fn emit(&self, window: Window, output: &mut Output) -> Result<(), Cause> {
        let rows = window.concat(&self.spec.schema)?;
        let first = self.first(&rows)?;
        let mut columns =
            take_arrays(rows.columns(), &UInt32Array::from(first.rows), None).map_err(kernel_error)?;
        let positions = vec![output.end_position(); first.numbers.len()];
        if self.spec.number_column.is_some() {
            columns.push(Arc::new(UInt64Array::from(first.numbers)));
        }
        let rows = RecordBatch::try_new(self.schema.clone(), columns).map_err(kernel_error)?;
        output.port(0).push_batch(rows, &positions)
    }
}

impl Window {
    fn of(rows: RecordBatch) -> Window {
        let mut window = Window::default();
        window.push(rows);
        window
    }

    fn push(&mut self, rows: RecordBatch) {
        self.rows += rows.num_rows();
        self.bytes += bytes_of_rows(&rows);
        self.batches.push(rows);
    }

    fn concat(&self, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
        concat_batches(schema, &self.batches).map_err(kernel_error)
    }
}

fn key(keys: Option<&KeyRows>, row: u32) -> Option<Row<'_>> {
    keys.map(|keys| keys.row(row as usize))
}

fn take_rows(rows: &RecordBatch, numbers: &[u32]) -> Result<RecordBatch, Cause> {
    take_record_batch(rows, &UInt32Array::from(numbers.to_vec())).map_err(kernel_error)
}

impl Operator for Top {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let late = self.push(rows.to_batch())?;
        self.spec.late.add(late);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let watermark = self.watermark.advance(cut);
        while let Some(first) = self.windows.first_entry().filter(|window| *window.key() <= watermark) {
            let window = first.remove();
            self.rows -= window.rows;
            self.emit(window, output)?;
        }
        self.prune()?;
        check_limit("the first rows of windows", self.rows, self.spec.rows_max)
    }

    fn next_timer(&self) -> Option<i64> {
        self.windows.keys().next().map(|end| self.watermark.timer(*end))
    }

    fn state_bytes(&self) -> usize {
        self.windows.values().map(|window| window.bytes).sum()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        writer.u64(self.windows.len() as u64);
        for window in self.windows.values() {
            writer.u64(window.pruned_rows as u64);
            write_rows(writer, window.concat(&self.spec.schema).ok());
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        for _ in 0..reader.u64()? {
            let pruned_rows = reader.u64()? as usize;
            let rows = read_rows(reader, &self.spec.schema)?;
            let (ends, _) = event_times(&rows, self.spec.window_end)?;
            let Some(end) = ends.first() else { continue };
            self.rows += rows.num_rows();
            self.windows.insert(*end, Window { pruned_rows, ..Window::of(rows) });
        }
        Ok(())
    }

    /// The rows of open windows that may still be among the first.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let schema = &self.spec.schema;
        let windows = self.windows.values().map(|window| window.concat(schema));
        let windows = windows.collect::<Result<Vec<_>, Cause>>()?;
        Ok(Some(vec![state_rows("rows", schema, &windows)?]))
    }
}
