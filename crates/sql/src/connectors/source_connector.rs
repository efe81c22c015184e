//! What a connector for sources is.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::memory::PushTarget;
use tidemill_engine::EventTime;

use super::formats::{Formats, InputFormat};
use crate::relations::source_definition::OpenSource;
use crate::statement::Options;
use crate::statement::declared::{OptionDefinition, OptionError, OptionValues};

/// Where the rows of sources come from: `CREATE SOURCE ... WITH (connector = 'name', ...)`.
///
/// A program registers its own with [`Planner::register_source`](crate::Planner::register_source).
pub trait SourceConnector: Send + Sync {
    /// What it is, in a line.
    fn doc(&self) -> &str;

    /// Its own options. The options that all sources have, and those of formats, are added to them.
    fn options(&self) -> &[OptionDefinition] {
        &[]
    }

    /// Its options in a statement that gives these, where some belong to the value of another one.
    ///
    /// # Errors
    /// If such a value is unknown.
    fn options_given(&self, _given: &Options) -> Result<Cow<'_, [OptionDefinition]>, OptionError> {
        Ok(self.options().into())
    }

    /// The formats that its rows may have. Without formats, it makes rows itself.
    fn formats(&self) -> Formats {
        Formats::NONE
    }

    /// A source as a statement describes it. It is opened when a query runs that reads it.
    ///
    /// # Errors
    /// If options or columns do not fit. The error names the option; the statement adds its place.
    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError>;
}

/// How long a query that is much slower than others holds back those who push rows. It is less than
/// [`PushTarget::PATIENCE`], so that a query that is stuck does not end the source.
const SENDERS_WAIT_MAX: Duration = Duration::from_secs(10);

/// A source as a statement describes it.
pub struct SourceRequest<'a> {
    /// The source's name.
    pub name: &'a str,
    /// The declared columns; `None`: the source says which it has.
    pub columns: Option<SchemaRef>,
    /// The options of the connector, checked.
    pub options: &'a OptionValues<'a>,
    /// The format of the rows.
    pub format: &'a InputFormat,
    /// Whether its rows go into a journal, so that the source may let go of what was acknowledged.
    pub is_durable: bool,
    /// Whether it is a table (`CREATE TABLE`), which is read to its end before the streams.
    pub is_table: bool,
}

impl SourceRequest<'_> {
    /// The declared columns.
    ///
    /// # Errors
    /// If there are none. `what` names what is read, such as `a socket`.
    pub fn declared_columns(&self, what: &str) -> Result<SchemaRef, OptionError> {
        self.columns.clone().ok_or_else(|| {
            let message = format!(
                "{what} is read only while the query runs, so its columns cannot be \
                inferred; declare them"
            );
            OptionError::new("connector", message)
        })
    }
}

/// A source that can be opened.
pub struct DefinedSource {
    /// Its columns.
    pub columns: SchemaRef,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// Whether opening it again gives the same rows at once.
    pub is_repeatable: bool,
    /// Whether opening it again gives all its rows again, although it may not end.
    pub starts_over: bool,
    /// Whether a durable query that resumes may read records again that an earlier run has read, because it continues where
    /// the last journaled row was read.
    pub reads_again: bool,
    /// When its rows come.
    pub liveness: Liveness,
    /// The event time that it knows itself; a WATERMARK in the statement replaces it. If nothing is late, the rows are in
    /// order.
    pub event_time: Option<EventTime>,
    /// Whether it is a table even if the statement says that it is a source.
    pub is_table: bool,
    /// Where rows are put into it, if the program does that itself.
    pub push: Option<PushTarget>,
    /// Opens it.
    pub open: Arc<OpenSource>,
}

impl DefinedSource {
    /// A source of these columns that never ends, gives other rows each time it is opened, as they happen, and has no
    /// event time. Override the fields that differ.
    pub fn new(columns: SchemaRef, open: Arc<OpenSource>) -> DefinedSource {
        DefinedSource {
            columns,
            is_finite: false,
            is_repeatable: false,
            starts_over: false,
            reads_again: false,
            liveness: Liveness::Live,
            event_time: None,
            is_table: false,
            push: None,
            open,
        }
    }

    /// How long it waits for a query that is much slower than others.
    pub(super) fn waits_max(&self) -> Duration {
        match (&self.push, self.liveness) {
            (Some(_), _) => SENDERS_WAIT_MAX,
            (None, Liveness::Live) => Duration::ZERO,
            (None, Liveness::Stored | Liveness::Unknown) => Duration::MAX,
        }
    }
}

/// When the rows of a source come. Rows that come as they happen can be held against the clock, so a source of such rows
/// refuses times of the far future (`max_ahead`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// As they happen.
    Live,
    /// They are there already, and must give the same results on any day.
    Stored,
    /// Nobody knows, as with standard input and pipes. They are held against the clock as well, unless that is switched off.
    Unknown,
}
