//! Where rows are kept in memory: materialized views in stores, which any thread reads while a pipeline runs; the parts of an
//! answer that is computed at the end.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::memory::{MemoryRows, MemorySink, TableHandle, TableSink};
use tidemill_engine::{Cause, MemoryBudget, Sink};
use tidemill_store::StoreReader;

use crate::query::first_rows::{FirstRows, FirstRowsSink, FirstRowsSpec};
use crate::query::prepared::Output;
use crate::query::view_changes::ViewChanges;
use crate::relations::named_relations::ViewDefinition;
use crate::relations::projected::Projected;
use crate::relations::single_batch_source::SingleBatchSource;
use crate::relations::source_definition::SourceDefinition;
use crate::relations::stored_rows::StoredRows;
use crate::relations::view_clock::ViewClock;

/// The storage of rows.
#[derive(Clone)]
pub(crate) enum RowStorage {
    /// All rows of a stream.
    Rows(MemoryRows),
    /// The last row of each key.
    Table(TableHandle),
    /// The first rows in an order.
    First(FirstRows),
}

impl RowStorage {
    /// A sink that stores an output's rows with this schema, and the storage to read them.
    pub fn new(
        output: &Output,
        schema: &SchemaRef,
        (rows_max, memory): (usize, &MemoryBudget),
    ) -> Result<(Box<dyn Sink>, RowStorage), Cause> {
        match &output.table_key {
            Some(Some(key)) => {
                let (sink, table) = TableSink::new(schema, key.clone(), rows_max)?;
                Ok((Box::new(sink.memory(memory.account())), RowStorage::Table(table)))
            }
            Some(None) => {
                Err(Cause::user("the result does not contain the columns of GROUP BY; add them to SELECT"))
            }
            None => {
                let (sink, rows) = MemorySink::new(schema, rows_max);
                Ok((Box::new(sink.memory(memory.account())), RowStorage::Rows(rows)))
            }
        }
    }

    /// A sink that stores only the first rows, and the storage to read them.
    pub fn first(
        first: FirstRowsSpec,
        schema: &SchemaRef,
        (rows_max, memory): (usize, &MemoryBudget),
    ) -> (Box<dyn Sink>, RowStorage) {
        let (sink, rows) = FirstRowsSink::new(schema, first, rows_max);
        (Box::new(sink.memory(memory.account())), RowStorage::First(rows))
    }

    /// The rows after some commit.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        match self {
            RowStorage::Rows(rows) => rows.read(),
            RowStorage::Table(table) => table.read(),
            RowStorage::First(rows) => rows.read(),
        }
    }
}

/// A materialized view of a running pipeline. Clones read the same rows, which stay when the pipeline has ended.
///
/// See [`RunningQuery::views`](crate::RunningQuery::views).
#[derive(Clone)]
pub struct ViewHandle {
    name: String,
    store: StoreReader,
    clock: ViewClock,
    /// What it was started for.
    view: Arc<ViewDefinition>,
}

impl ViewHandle {
    pub(crate) fn new(name: &str, store: StoreReader, view: Arc<ViewDefinition>) -> Self {
        ViewHandle { name: name.to_string(), store, clock: ViewClock::of_query(), view }
    }

    /// The same view, whose cycles are counted by this clock.
    pub(crate) fn under(self, clock: ViewClock) -> Self {
        ViewHandle { clock, ..self }
    }

    /// The same rows of a view whose query is stopped: no other view waits for its cycles any more.
    #[must_use]
    pub fn stopped(&self) -> ViewHandle {
        self.clone().under(ViewClock::of_query())
    }

    /// Whether it was started for this view.
    pub(crate) fn is_of(&self, view: &Arc<ViewDefinition>) -> bool {
        Arc::ptr_eq(&self.view, view)
    }

    /// The same rows, for another definition of the view.
    pub(crate) fn of_view(&self, view: Arc<ViewDefinition>) -> ViewHandle {
        ViewHandle { view, ..self.clone() }
    }

    /// Whether it has everything that concerns it up to a cycle of its database.
    pub fn has_reached(&self, cycle: u64) -> bool {
        self.clock.reached(&self.store) > cycle
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows after some cycle, never part of one.
    ///
    /// # Errors
    /// If a column has more text than a batch can hold.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        self.store.latest().read()
    }

    /// Its rows by time, place and key, as of any cycle that is kept.
    pub fn store(&self) -> &StoreReader {
        &self.store
    }

    /// Its rows after the last cycle that it has, and that cycle; `None`: there was none. Under the clock of a database,
    /// cycle 7 has the same rows for all views.
    ///
    /// # Errors
    /// As [`read`](ViewHandle::read).
    pub fn read_with_cycle(&self) -> Result<(RecordBatch, Option<u64>), Cause> {
        let version = self.store.latest();
        Ok((version.read()?, version.cycle()))
    }

    /// Its rows, and then its changes as they come, each with its cycle.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let view = "CREATE MATERIALIZED VIEW n AS SELECT value FROM sequence(count => 3)";
    /// planner.execute(&parse(view, "example").unwrap()[0]).unwrap();
    /// let running = planner.pipeline_of(&["n"]).unwrap().open().unwrap().start().unwrap();
    /// let view = running.views()[0].clone();
    /// running.wait().unwrap();
    /// let mut changes = view.changes();
    /// assert_eq!(changes.schema().field(0).name(), "cycle");
    /// assert_eq!(changes.next_rows().unwrap().expect("there are rows").num_rows(), 3);
    /// assert!(changes.next_rows().unwrap().is_none());
    /// ```
    pub fn changes(&self) -> ViewChanges {
        ViewChanges::new(&self.store)
    }

    /// Its changes behind a cycle up to which they were given before, in this process or in an earlier one that had the same
    /// cycles.
    pub fn changes_after(&self, cycle: u64) -> ViewChanges {
        ViewChanges::after(&self.store, cycle)
    }

    /// Whether it is the same run of the same view.
    pub fn is_same(&self, other: &ViewHandle) -> bool {
        self.store.is_of(&other.store)
    }

    /// The view as a table that each query reads again.
    pub(crate) fn definition(&self) -> SourceDefinition {
        let view = self.clone();
        let open = move |columns: Option<&[usize]>| {
            let rows = view.read()?;
            Projected::open(SingleBatchSource::new(rows), columns)
        };
        let schema = Arc::clone(&self.store.config().schema);
        let definition = SourceDefinition::new(&self.name, schema, Arc::new(open));
        let divided_by = self.view.divided_by().map(|divided| divided.expression.clone());
        let stored = StoredRows::new(&self.name, self.store.clone(), self.clock.clone());
        let stored = Some(stored.divided_by(divided_by));
        SourceDefinition { is_table: true, is_finite: true, is_repeatable: true, stored, ..definition }
    }
}
