//! Which rows a cycle had.

use std::ops::Range;
use std::path::Path;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_journal::{database, inspect};

use super::Past;
use crate::clock::SourceMark;

/// Which rows a cycle had.
#[derive(Clone, Debug)]
pub struct CycleInput {
    /// The cut of the cycle, as it was logged.
    pub cut: Cut,
    /// For each source of the query its name in the journal, and the positions of its rows.
    pub sources: Vec<(String, Range<u64>)>,
}

impl Past {
    /// The folder of the rows and cuts.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// The cut of a cycle, and for each source of the query the positions of its rows in the cycle.
    ///
    /// # Errors
    /// If the cut of the cycle, or the one before it, is gone or was never logged.
    pub fn rows_of(&self, cycle: u64) -> Result<CycleInput, Cause> {
        self.rows_between(cycle.checked_sub(1), cycle)
    }

    /// The cut of a cycle, and for each source of the query the positions of its rows from the end of an earlier cycle on; `None`:
    /// from the beginning on.
    ///
    /// # Errors
    /// If one of the cuts is gone or was never logged.
    pub fn rows_between(&self, after: Option<u64>, cycle: u64) -> Result<CycleInput, Cause> {
        let listing = inspect::list(&self.journal)?;
        let before = after.map(|before| self.cut(before)).transpose()?;
        let cut = self.cut(cycle)?;
        let names = if self.is_of_database {
            database::sources_of_query(&self.description).map(str::to_owned).collect()
        } else {
            self.sources()?
        };
        let mut rows = Vec::new();
        for name in names {
            let source = self.in_cuts(&name, &listing)?;
            let start = before.as_ref().map_or(SourceMark::START, |before| source.at(before));
            rows.push((name, start.position..source.at(&cut).position));
        }
        Ok(CycleInput { cut, sources: rows })
    }

    fn cut(&self, cycle: u64) -> Result<Cut, Cause> {
        let mut found = inspect::cuts_from(&self.journal, cycle)?;
        found.next().unwrap_or_else(|| {
            let journal = self.journal.display();
            Err(Cause::user(format!(
                "'{journal}' has no cycle {cycle}; `tidemill journal show {journal} --cuts` lists the cycles"
            )))
        })
    }
}
