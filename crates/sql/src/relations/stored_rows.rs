//! Rows of a source that are in a store of this process.

use datafusion::logical_expr::Expr;
use tidemill_engine::Cause;
use tidemill_store::{StoreReader, Version};

use crate::relations::view_clock::ViewClock;

/// Rows in a store, as of its newest version or of an earlier one.
#[derive(Clone)]
pub struct StoredRows {
    name: String,
    reader: StoreReader,
    clock: ViewClock,
    /// The expression that divides the rows among fragments.
    divided_by: Option<Expr>,
    /// What is read; `None`: the newest version.
    version: Option<Result<Version, Cause>>,
}

impl StoredRows {
    /// The rows of a view as they are whenever they are read.
    pub(crate) fn new(name: &str, reader: StoreReader, clock: ViewClock) -> StoredRows {
        StoredRows { name: name.to_owned(), reader, clock, divided_by: None, version: None }
    }

    /// The same, and what divides the rows among fragments.
    #[must_use]
    pub(crate) fn divided_by(self, expression: Option<Expr>) -> StoredRows {
        StoredRows { divided_by: expression, ..self }
    }

    /// The expression that divides the rows among fragments.
    pub(crate) fn divider(&self) -> Option<&Expr> {
        self.divided_by.as_ref()
    }

    /// The rows of this version, or why they cannot be read.
    #[must_use]
    pub fn at(&self, version: Result<Version, Cause>) -> StoredRows {
        StoredRows { version: Some(version), ..self.clone() }
    }

    /// The view.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The store.
    pub fn reader(&self) -> &StoreReader {
        &self.reader
    }

    /// Who counts its cycles.
    pub(crate) fn clock(&self) -> &ViewClock {
        &self.clock
    }

    /// The version that was chosen for a query, or for all queries of a transaction.
    pub(crate) fn chosen(&self) -> Option<Result<Version, Cause>> {
        self.version.clone()
    }

    /// The version that a query reads now.
    ///
    /// # Errors
    /// Why a transaction cannot read it.
    pub fn version(&self) -> Result<Version, Cause> {
        self.version.clone().unwrap_or_else(|| Ok(self.reader.latest()))
    }
}
