//! The definition of a source of rows, whatever defined it: CREATE SOURCE or TABLE, a file name, or a generator.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::logical_expr::{Expr, TableSource};
use tidemill_connect::formats::{as_json_field, is_json_field};
use tidemill_connect::memory::PushTarget;
use tidemill_engine::{AdmissionClock, Cause, EventTime, Source, StreamSettings, SyncPolicy};
use tidemill_store::StoreConfig;

use crate::relations::gateway_rows::GatewayRows;
use crate::relations::projected::Projected;
use crate::relations::single_batch_source::SingleBatchSource;
use crate::relations::source_changes::SourceChanges;
use crate::relations::stored_rows::StoredRows;

/// Opens a source that reads these of its columns (indexes into the raw schema); `None`: all.
pub type OpenSource = dyn Fn(Option<&[usize]>) -> Result<Box<dyn Source>, Cause> + Send + Sync;

/// A source of rows that can be opened.
#[derive(Clone)]
pub struct SourceDefinition {
    /// Its name in plans and messages.
    pub name: String,
    /// The source's own columns.
    pub raw: SchemaRef,
    /// The columns that queries see.
    pub schema: SchemaRef,
    /// How the columns for queries are computed from the source's own, one expression for each; `None`: they are the
    /// same.
    pub computed: Option<Vec<Expr>>,
    /// Its event time.
    pub event_time: Option<EventTime>,
    /// Whether its rows come in the order of event time.
    pub ordered: bool,
    /// After this long without rows it counts as idle.
    pub idle_after: Option<Duration>,
    /// How far its event times may be ahead of the time of day; `None`: unbounded.
    pub max_ahead: Option<Duration>,
    /// What says the time of day for that.
    pub clock: AdmissionClock,
    /// Whether it is read once, at the start, as a table.
    pub is_table: bool,
    /// For a table, and for a source whose rows replace others: the indexes of the columns that identify its rows; empty if rows may be
    /// equal in all columns.
    pub key: Vec<usize>,
    /// What its rows mean for the relation that queries read; `None`: each is one more.
    pub changes: Option<SourceChanges>,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// Whether opening it again gives the same rows at once: files do, sockets and standard input do not.
    pub is_repeatable: bool,
    /// Whether each query reads it from its beginning, although it may not end: a file that is followed. What cannot be read
    /// again is read once for all queries of a database.
    pub starts_over: bool,
    /// How long it waits for a query that is much slower than others. One whose rows come as they happen does not wait.
    pub waits_max: Duration,
    /// How its rows are journaled in a pipeline; `None` if they are not.
    pub durable: Option<DurableStream>,
    /// The gateway at which its rows enter, if it is not the process that runs a query.
    pub gateway: Option<String>,
    /// If its rows are in a store of this process: how they are found there by time, place and key.
    pub stored: Option<StoredRows>,
    /// If its rows are in stores at gateways.
    pub at_gateways: Option<GatewayRows>,
    /// Where rows are put into it, if the program does that itself.
    pub push: Option<PushTarget>,
    /// Opens it.
    pub open: Arc<OpenSource>,
}

impl SourceDefinition {
    /// A stream of these columns that has no event time, never ends, gives different rows each time it is opened, and
    /// is not journaled. Override the fields that differ.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_connect::generator::{Sequence, SequenceConfig};
    /// use tidemill_connect::generator::sequence::sequence_schema;
    /// use tidemill_sql::{Projected, SourceDefinition};
    ///
    /// let config = SequenceConfig { count: Some(9), ..Default::default() };
    /// let open = move |columns: Option<&[usize]>| Projected::open(Sequence::new(config)?, columns);
    /// let nine = SourceDefinition::new("nine", sequence_schema(), Arc::new(open));
    /// let nine = SourceDefinition { is_finite: true, is_repeatable: true, ..nine };
    /// assert!((nine.open)(Some(&[0])).unwrap().is_finite());
    /// ```
    pub fn new(name: &str, schema: SchemaRef, open: Arc<OpenSource>) -> SourceDefinition {
        SourceDefinition {
            name: name.to_string(),
            raw: Arc::clone(&schema),
            schema,
            computed: None,
            event_time: None,
            ordered: false,
            idle_after: None,
            max_ahead: None,
            clock: AdmissionClock::default(),
            is_table: false,
            key: Vec::new(),
            changes: None,
            is_finite: false,
            is_repeatable: false,
            starts_over: false,
            waits_max: Duration::MAX,
            durable: None,
            gateway: None,
            stored: None,
            at_gateways: None,
            push: None,
            open,
        }
    }

    /// A table of rows that are known.
    pub(crate) fn of_rows(name: &str, rows: RecordBatch) -> SourceDefinition {
        SourceDefinition::of_batches(name, rows.schema(), vec![rows])
    }

    /// It with the columns marked as JSON that are JSON in the plan of its view: stores do not keep what fields say.
    pub(crate) fn with_json_of(self, columns: &Schema) -> SourceDefinition {
        let is_same = columns.fields().len() == self.schema.fields().len();
        if !is_same || !columns.fields().iter().any(|field| is_json_field(field)) {
            return self;
        }
        let field = |(own, column): (&FieldRef, &FieldRef)| {
            let own = own.as_ref().clone();
            if is_json_field(column) { as_json_field(own) } else { own }
        };
        let fields: Vec<Field> = self.schema.fields().iter().zip(columns.fields()).map(field).collect();
        SourceDefinition { schema: Arc::new(Schema::new(fields)), ..self }
    }

    /// A table of rows that are known, in batches of these columns.
    pub(crate) fn of_batches(name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> SourceDefinition {
        let columns = Arc::clone(&schema);
        let open = move |chosen: Option<&[usize]>| {
            Projected::open(SingleBatchSource::of_batches(Arc::clone(&columns), batches.clone()), chosen)
        };
        let definition = SourceDefinition::new(name, schema, Arc::new(open));
        SourceDefinition { is_table: true, is_finite: true, is_repeatable: true, ..definition }
    }
}

/// How the rows of a source are journaled.
#[derive(Clone, Debug, Default)]
pub struct DurableStream {
    /// The limits of its journal.
    pub stream: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
    /// The version of the catalogue that defined it: a later source of the same name has another journal in a database.
    pub version: u64,
}

impl SourceDefinition {
    /// The name of its journal in a database, if it is journaled there.
    pub(crate) fn stream_name(&self) -> Option<String> {
        let version = self.durable.as_ref()?.version;
        Some(format!("{}-{version}", self.name))
    }
}

impl SourceDefinition {
    /// If its rows are found by time, place and key: what its stores hold, and the expression that divides them.
    pub(crate) fn searched(&self) -> Option<(&StoreConfig, Option<&Expr>)> {
        let here = self.stored.as_ref().map(|stored| (stored.reader().config(), stored.divider()));
        here.or_else(|| self.at_gateways.as_ref().map(|rows| (&*rows.config, rows.divided_by.as_ref())))
    }
}

impl fmt::Debug for SourceDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SourceDefinition").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A definition in the form that DataFusion's planner needs.
#[derive(Clone, Debug)]
pub(crate) struct ScannedSource {
    pub definition: Arc<SourceDefinition>,
    /// Whether it represents the rows that came too late.
    pub late: bool,
}

impl TableSource for ScannedSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.definition.schema)
    }
}

/// The definition behind a scan.
pub(crate) fn scanned(source: &dyn TableSource) -> Option<&ScannedSource> {
    (source as &dyn Any).downcast_ref()
}
