//! What a connector for sinks is.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Sink};

use super::formats::{Formats, OutputFormat};
use crate::statement::declared::{OptionDefinition, OptionError, OptionValues};

/// Where the rows of sinks go: `CREATE SINK ... WITH (connector = 'name', ...)`.
///
/// A program registers its own with [`Planner::register_sink`](crate::Planner::register_sink).
pub trait SinkConnector: Send + Sync {
    /// What it is, in a line.
    fn doc(&self) -> &str;

    /// Its own options. The options that all sinks have, and those of formats, are added to them.
    fn options(&self) -> &[OptionDefinition] {
        &[]
    }

    /// The formats in which it can write. Without formats, it takes rows as they are.
    fn formats(&self) -> Formats {
        Formats::NONE
    }

    /// A sink as a statement describes it. It is opened when the query starts, because only then are the columns known.
    ///
    /// # Errors
    /// If options do not fit. The error names the option; the statement adds its place.
    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError>;
}

/// Opens a sink for the rows of an output.
pub type OpenSink = dyn Fn(&SinkUse<'_>) -> Result<Box<dyn Sink>, Cause> + Send + Sync;

/// A sink as a statement describes it.
pub struct SinkRequest<'a> {
    /// The options of the connector, checked.
    pub options: &'a OptionValues<'a>,
    /// The format in which to write.
    pub format: &'a OutputFormat,
}

/// What a sink is opened for.
#[derive(Clone, Debug)]
pub struct SinkUse<'a> {
    /// The sink's name in the pipeline.
    pub name: &'a str,
    /// The columns of the rows.
    pub schema: &'a SchemaRef,
    /// The names of the key's columns, if the rows form a table.
    pub key: Vec<String>,
    /// Whether it continues after what an earlier run has committed.
    pub resume: bool,
    /// What tells a durable query from all others; `None` if it is not durable.
    pub identity: Option<u64>,
    /// Whether the query replaces another one and has not begun yet, so that there must be no rows at its target.
    pub must_be_empty: bool,
}
