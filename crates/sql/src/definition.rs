//! What a source of rows is, however it was defined: by CREATE SOURCE or TABLE, by a file's name, by a generator.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Expr, TableSource};
use tidemill_engine::{Cause, EventTime, Source, StreamSettings, SyncPolicy};

/// Opens a source that reads these of its columns (numbers in the raw schema); `None`: all.
pub type Open = dyn Fn(Option<&[usize]>) -> Result<Box<dyn Source>, Cause> + Send + Sync;

/// A source of rows, ready to be opened.
#[derive(Clone)]
pub struct SourceDefinition {
    /// Its name in plans and messages.
    pub name: String,
    /// The columns that the source itself has.
    pub raw: SchemaRef,
    /// The columns that queries see.
    pub schema: SchemaRef,
    /// How queries' columns come of the source's own, one for each; `None`: they are the same.
    pub computed: Option<Vec<Expr>>,
    /// Its event time.
    pub event_time: Option<EventTime>,
    /// Whether its rows come in the order of event time.
    pub ordered: bool,
    /// After so long without rows it counts as idle.
    pub idle_after: Option<Duration>,
    /// Whether it is read once, at the start, as a table.
    pub is_table: bool,
    /// If it is a table: the numbers of the columns by which its rows are told apart; none if it may have rows that are
    /// equal in any of them.
    pub key: Vec<usize>,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// Whether opening it once more gives the same rows at once: files do, sockets and standard input do not.
    pub is_repeatable: bool,
    /// How its rows are journaled in a pipeline; `None`: they are not.
    pub durable: Option<DurableStream>,
    /// Opens it.
    pub open: Arc<Open>,
}

/// How the rows of a source are journaled.
#[derive(Clone, Debug, Default)]
pub struct DurableStream {
    /// The limits of its journal.
    pub stream: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
}

impl fmt::Debug for SourceDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SourceDefinition").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A definition as DataFusion's planner sees it.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub definition: Arc<SourceDefinition>,
    /// Whether it stands for the rows that came too late.
    pub late: bool,
}

impl TableSource for Scanned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.definition.schema)
    }
}

/// The definition behind a scan.
pub(crate) fn scanned(source: &dyn TableSource) -> Option<&Scanned> {
    (source as &dyn Any).downcast_ref()
}
