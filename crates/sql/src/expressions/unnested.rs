//! The transform for UNNEST: a row for each element of a row's lists.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use tidemill_engine::{Cause, Cut, MemoryBudget, Transform, Transformed, bytes_of_rows};

/// What a column of the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnested {
    /// The value of this column of the row.
    Whole(usize),
    /// The elements of this column, a list, one after the other.
    Elements(usize),
}

/// Makes a row for each element. If there are several lists, the row's shorter ones are filled up with NULL.
#[derive(Clone, Debug)]
pub(crate) struct Unnest {
    pub columns: Vec<Unnested>,
    pub output: SchemaRef,
    /// Whether a row without elements gives one row, with NULL.
    pub keeps_empty: bool,
    pub memory: MemoryBudget,
}

/// The elements of a list column: where those of each row begin and end among the values.
struct Lists {
    values: ArrayRef,
    bounds: Vec<(u64, u64)>,
}

impl Lists {
    fn of(column: &ArrayRef) -> Result<Lists, ArrowError> {
        let rows = 0..column.len();
        let (values, bounds): (&ArrayRef, Vec<(u64, u64)>) = match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let offsets = lists.value_offsets();
                (lists.values(), rows.map(|row| (offsets[row] as u64, offsets[row + 1] as u64)).collect())
            }
            DataType::LargeList(_) => {
                let lists = column.as_list::<i64>();
                let offsets = lists.value_offsets();
                (lists.values(), rows.map(|row| (offsets[row] as u64, offsets[row + 1] as u64)).collect())
            }
            DataType::FixedSizeList(_, _) => {
                let lists = column.as_fixed_size_list();
                let length = lists.value_length() as u64;
                let bound = |row: usize| lists.value_offset(row) as u64;
                (lists.values(), rows.map(|row| (bound(row), bound(row) + length)).collect())
            }
            other => return Err(ArrowError::NotYetImplemented(format!("UNNEST of {other}"))),
        };
        // What stands under a NULL does not count.
        let known = |(row, (start, end))| if column.is_null(row) { (start, start) } else { (start, end) };
        Ok(Lists { values: Arc::clone(values), bounds: bounds.into_iter().enumerate().map(known).collect() })
    }

    fn length(&self, row: usize) -> usize {
        (self.bounds[row].1 - self.bounds[row].0) as usize
    }
}

/// The most rows that are made at once, and about the most bytes of them.
const ROWS_AT_ONCE: usize = 1 << 18;
const BYTES_AT_ONCE: usize = 32 << 20;

/// Elements that are made rows together: those of a row from the first place to the one behind the last.
type Stretch = (usize, Range<usize>);

impl Unnest {
    /// Divides the elements so that each piece is not too large.
    fn pieces(&self, rows: &RecordBatch, lists: &[Option<Lists>]) -> Vec<Vec<Stretch>> {
        let least = usize::from(self.keeps_empty);
        let longest =
            |row| lists.iter().flatten().map(|lists| lists.length(row)).max().unwrap_or(0).max(least);
        let bytes = bytes_of_rows(rows) / rows.num_rows().max(1);
        let at_once = (BYTES_AT_ONCE / bytes.max(1)).clamp(1, ROWS_AT_ONCE);
        let (mut pieces, mut piece, mut room) = (Vec::new(), Vec::new(), at_once);
        for row in 0..rows.num_rows() {
            let (mut place, length) = (0, longest(row));
            while place < length {
                let end = length.min(place + room);
                piece.push((row, place..end));
                room -= end - place;
                place = end;
                if room == 0 {
                    pieces.push(std::mem::take(&mut piece));
                    room = at_once;
                }
            }
        }
        if !piece.is_empty() || pieces.is_empty() {
            pieces.push(piece);
        }
        pieces
    }

    /// The lists of each column of the output that has any.
    fn lists(&self, rows: &RecordBatch) -> Result<Vec<Option<Lists>>, ArrowError> {
        let lists = |column: &Unnested| match column {
            Unnested::Whole(_) => Ok(None),
            Unnested::Elements(index) => Lists::of(rows.column(*index)).map(Some),
        };
        self.columns.iter().map(lists).collect()
    }

    fn rows(
        &self,
        rows: &RecordBatch,
        lists: &[Option<Lists>],
        piece: &[Stretch],
    ) -> Result<Transformed, ArrowError> {
        let causes = piece.iter().flat_map(|(row, places)| std::iter::repeat_n(*row as u32, places.len()));
        let causes: Vec<u32> = causes.collect();
        let whole = UInt32Array::from(causes.clone());
        let column = |(column, lists): (&Unnested, &Option<Lists>)| match (column, lists) {
            (_, Some(lists)) => {
                let element = |row: usize, place: usize| {
                    (place < lists.length(row)).then(|| lists.bounds[row].0 + place as u64)
                };
                let places = piece.iter();
                let places = places.flat_map(|(row, places)| places.clone().map(move |place| (*row, place)));
                let places: UInt64Array = places.map(|(row, place)| element(row, place)).collect();
                take(&lists.values, &places, None)
            }
            (Unnested::Whole(index) | Unnested::Elements(index), None) => {
                take(rows.column(*index), &whole, None)
            }
        };
        let columns = self.columns.iter().zip(lists).map(column).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(causes.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?;
        Ok(Transformed { rows, causes: Some(causes) })
    }
}

impl Transform for Unnest {
    fn apply(&mut self, rows: &RecordBatch, cut: &Cut) -> Result<Transformed, Cause> {
        let (mut made, mut causes) = (Vec::new(), Vec::new());
        let mut account = self.memory.account();
        let schema = Arc::clone(&self.output);
        self.apply_in_pieces(rows, cut, &mut |piece| {
            account.grow("UNNEST", bytes_of_rows(&piece.rows) as u64)?;
            causes.extend(piece.causes.into_iter().flatten());
            made.push(piece.rows);
            Ok(())
        })?;
        Ok(Transformed { rows: concat_batches(&schema, &made).map_err(too_many)?, causes: Some(causes) })
    }

    fn apply_in_pieces(
        &mut self,
        rows: &RecordBatch,
        _cut: &Cut,
        pass_on: &mut dyn FnMut(Transformed) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let lists = self.lists(rows).map_err(too_many)?;
        for piece in self.pieces(rows, &lists) {
            pass_on(self.rows(rows, &lists, &piece).map_err(too_many)?)?;
        }
        Ok(())
    }
}

fn too_many(error: ArrowError) -> Cause {
    Cause::resource(format!(
        "the rows that UNNEST makes of one batch are too many: {error}; use smaller cycles (cycle_events)"
    ))
    .with_source(error)
}
