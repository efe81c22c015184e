//! The changes of a materialized view as rows: the cycle, what became of the row, the row.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::Cause;
use tidemill_store::{Change, Follower, StoreReader};

use crate::logical::points;
use crate::relations::point_column::point_field;

/// The columns before those of the view.
const OWN: usize = 2;
/// The most rows that are given together.
const ROWS_MAX: usize = 8192;

/// The changes of a materialized view: first its rows as they are, then what each cycle changes, without a gap and each
/// cycle exactly as it was.
///
/// A row of a change has the cycle after which it counts, `insert` or `delete`, and the columns of the view. A row that was
/// replaced is deleted and inserted in the same cycle, with its old and its new values. Within a cycle, what is deleted
/// comes first.
///
/// See [`ViewHandle::changes`](crate::ViewHandle::changes).
pub struct ViewChanges {
    follower: Follower,
    schema: SchemaRef,
    /// The coordinates of the point that rows have in queries, if that is a column of its own.
    point: Option<[usize; 2]>,
    /// What is known and was not given yet.
    parts: VecDeque<Part>,
    /// The last cycle of which everything was given.
    given: Option<u64>,
}

/// Rows that share a cycle and a kind of change.
struct Part {
    cycle: u64,
    change: &'static str,
    rows: RecordBatch,
}

impl ViewChanges {
    pub(crate) fn new(store: &StoreReader) -> ViewChanges {
        ViewChanges::of(Follower::new(store))
    }

    /// Continues behind a cycle of which everything was given before.
    pub(crate) fn after(store: &StoreReader, cycle: u64) -> ViewChanges {
        ViewChanges { given: Some(cycle), ..ViewChanges::of(Follower::after(store, cycle)) }
    }

    fn of(follower: Follower) -> ViewChanges {
        let config = follower.reader().config();
        let (columns, point) = (&config.schema, point_field(&config.schema, config.point));
        let coordinates = config.point.filter(|_| point.is_some());
        let own: [_; OWN] = [("cycle", DataType::Int64), ("change", DataType::Utf8)];
        let own = own.map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)));
        let fields = own.into_iter().chain(columns.fields().iter().cloned());
        let fields: Vec<_> = fields.chain(point.map(Arc::new)).collect();
        let schema = Arc::new(Schema::new(fields));
        ViewChanges { follower, schema, point: coordinates, parts: VecDeque::new(), given: None }
    }

    /// The last cycle of which everything was given, if what was given last does not end within a cycle.
    pub fn given(&self) -> Option<u64> {
        match self.parts.front() {
            None => self.follower.cycle(),
            Some(next) => self.given.filter(|given| *given != next.cycle),
        }
    }

    /// The columns: `cycle`, `change`, and those of the view, as queries see them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows, of one cycle or of several; `None`: there are none yet. It does not wait.
    ///
    /// # Errors
    /// If so many cycles have come since the last call that the view no longer keeps what lies between.
    pub fn next_rows(&mut self) -> Result<Option<RecordBatch>, Cause> {
        let mut known: usize = self.parts.iter().map(|part| part.rows.num_rows()).sum();
        while known < ROWS_MAX
            && let Some(Change { cycle, removed, added }) = self.follower.next_change()?
        {
            let removed = removed.into_iter().map(|rows| Part { cycle, change: "delete", rows });
            let added = added.into_iter().map(|rows| Part { cycle, change: "insert", rows });
            for part in removed.chain(added) {
                known += part.rows.num_rows();
                self.parts.push_back(part);
            }
        }
        match known {
            0 => Ok(None),
            _ => self.taken().map(Some),
        }
    }

    /// Takes the first rows of what is known: whole cycles, or a part of one that is too large.
    fn taken(&mut self) -> Result<RecordBatch, Cause> {
        let (mut taken, mut room) = (Vec::new(), ROWS_MAX);
        while room > 0
            && let Some(next) = self.parts.front()
            && (taken.is_empty() || Some(next.cycle) == self.given || self.rows_of(next.cycle) <= room)
            && let Some(Part { cycle, change, rows }) = self.parts.pop_front()
        {
            let count = rows.num_rows().min(room);
            if count < rows.num_rows() {
                let rest = rows.slice(count, rows.num_rows() - count);
                self.parts.push_front(Part { cycle, change, rows: rest });
            }
            room -= count;
            self.given = Some(cycle);
            taken.push(Part { cycle, change, rows: rows.slice(0, count) });
        }
        self.together(&taken)
    }

    /// How many rows of a cycle are next.
    fn rows_of(&self, cycle: u64) -> usize {
        let of_cycle = self.parts.iter().take_while(|part| part.cycle == cycle);
        of_cycle.map(|part| part.rows.num_rows()).sum()
    }

    fn together(&self, parts: &[Part]) -> Result<RecordBatch, Cause> {
        let counted = || parts.iter().map(|part| (part, part.rows.num_rows()));
        let cycles = counted().flat_map(|(part, count)| std::iter::repeat_n(part.cycle as i64, count));
        let changes = counted().flat_map(|(part, count)| std::iter::repeat_n(part.change, count));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(cycles.collect::<Int64Array>()),
            Arc::new(changes.map(Some).collect::<StringArray>()),
        ];
        let failed = |error| {
            Cause::resource(format!("the changes do not fit into one batch: {error}")).with_source(error)
        };
        for index in 0..self.schema.fields().len() - OWN - usize::from(self.point.is_some()) {
            let column: Vec<_> = parts.iter().map(|part| part.rows.column(index).as_ref()).collect();
            columns.push(concat(&column).map_err(failed)?);
        }
        if let Some([x, y]) = self.point {
            let points = points(&columns[OWN + x], &columns[OWN + y]);
            columns.push(points.map_err(|error| Cause::bug(error.to_string()).with_source(error))?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)
    }
}
