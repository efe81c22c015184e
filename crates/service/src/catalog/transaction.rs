//! Whether the queries of a session read the views as they are, or all at one cycle.

use tidemill_engine::{Cause, MemoryAccount, MemoryBudget};
use tidemill_sql::Catalog;

use crate::catalog::catalog_store::CatalogStore;

/// The transaction of a session, if there is one.
#[derive(Default)]
pub(crate) struct Transaction {
    progress: Progress,
    /// What it holds of views that they do not have any more.
    outlived: MemoryAccount,
}

#[derive(Default)]
enum Progress {
    #[default]
    None,
    /// Nothing was read in it yet.
    Begun,
    /// The views at the cycle that all its queries read, and how often the catalogue had changed by then.
    Reading(u64, Box<Catalog>),
}

impl Transaction {
    pub fn begin(&mut self) {
        self.progress = Progress::Begun;
    }

    pub fn is_begun(&self) -> bool {
        !matches!(self.progress, Progress::None)
    }

    pub fn end(&mut self) {
        *self = Transaction::default();
    }

    /// The catalogue that the next query reads, and how often it had changed by then.
    pub fn catalog(&mut self, kept: &CatalogStore) -> (u64, Catalog) {
        if let Progress::Begun = self.progress {
            let (changes, catalog) = kept.readable_at();
            self.progress = Progress::Reading(changes, Box::new(catalog.at_one_cycle()));
        }
        match &self.progress {
            Progress::Reading(changes, catalog) => (*changes, catalog.as_ref().clone()),
            Progress::None | Progress::Begun => kept.readable_at(),
        }
    }

    /// Counts what it holds of views that they have dropped or replaced since it began, without as much of it as is `counted` elsewhere.
    pub fn count_outlived_rows(&mut self, counted: u64, readers: &MemoryBudget) -> Result<(), Cause> {
        let Progress::Reading(_, catalog) = &self.progress else { return Ok(()) };
        let outlived = catalog.outlived_bytes().saturating_sub(counted);
        let more = outlived.saturating_sub(self.outlived.bytes());
        if more == 0 {
            return Ok(());
        }
        if self.outlived.bytes() == 0 {
            self.outlived = readers.query(None).account();
        }
        self.outlived
            .grow("a transaction that reads what views have replaced or dropped since it began", more)
    }

    pub fn forget_outlived_rows(&mut self) {
        self.outlived = MemoryAccount::default();
    }
}
