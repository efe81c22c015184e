//! Hours as rows of a table, shown while a run continues.

use crate::terminal;

/// A table whose headings are shown above its first row.
pub(super) struct ShownTable {
    headings: Option<String>,
    shown: anyhow::Result<()>,
}

impl ShownTable {
    pub(super) fn new(headings: String) -> ShownTable {
        ShownTable { headings: Some(headings), shown: Ok(()) }
    }

    /// Shows a row, unless one before could not be shown.
    pub(super) fn show(&mut self, row: &str) {
        if let Some(headings) = self.headings.take() {
            self.shown = terminal::show(&headings);
        }
        if self.shown.is_ok() {
            self.shown = terminal::show(row);
        }
    }

    /// Whether all rows were shown.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.shown
    }
}
