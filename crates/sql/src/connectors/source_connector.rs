//! What a connector for sources is.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;

use super::formats::{Formats, InputFormat};
use crate::definition::Open;
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
}

impl SourceRequest<'_> {
    /// The declared columns.
    ///
    /// # Errors
    /// If there are none. `what` names what is read, such as `a socket`.
    pub fn declared_columns(&self, what: &str) -> Result<SchemaRef, OptionError> {
        self.columns.clone().ok_or_else(|| {
            let message = format!("{what} is read only while the query runs, so declare its columns");
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
    /// When its rows come.
    pub liveness: Liveness,
    /// Opens it.
    pub open: Arc<Open>,
}

/// When the rows of a source come. Rows that come as they happen can be held against the clock, so a source of such rows
/// refuses times of the far future (`max_ahead`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// As they happen.
    Live,
    /// They are there already, and must give the same results on any day.
    Stored,
    /// Nobody knows, as with standard input.
    Unknown,
}
