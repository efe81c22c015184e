//! The past of a durable query: its logged cycles again, with the same rows and the same results, read beside a query that
//! runs or one that is stopped. Nothing is written, locked or acknowledged (decision 0075).

mod input_rows;
mod past_cycles;
mod past_records;
mod past_run;
mod past_sink;
mod past_state;

use std::path::{Path, PathBuf};

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_journal::inspect::{self, Listing};
use tidemill_journal::{BeganAt, Skips, StoredSnapshot, database};

use crate::clock::SourceInCuts;
use crate::durable::sources_of;
pub use input_rows::CycleInput;
pub use past_run::{PastQuery, PastRun, PastSource};
pub use past_sink::PastCycle;
pub use past_state::{OperatorRows, PastState};

/// The folder of a durable query, to be read.
pub struct Past {
    /// Where its snapshots are.
    folder: PathBuf,
    /// Where its rows and cuts are.
    journal: PathBuf,
    /// What the folder belongs to.
    description: String,
    /// Whether its cycles are those of a database: only some of them concern it.
    is_of_database: bool,
    /// The rows that are left out.
    left_out: Skips,
}

/// Where reading the past begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PastStart {
    /// With the first cycle of the query. If what it read first is gone, a query of a database begins with the oldest state
    /// that it has kept.
    #[default]
    Beginning,
    /// With the oldest state that it has kept.
    Oldest,
    /// With the newest state before this cycle.
    Before(u64),
    /// With the state after this cycle.
    After(u64),
}

impl Past {
    /// Opens the folder of a durable query: the journal of a pipeline, or what a query of a database has of its own, which is
    /// beside the rows and cuts of the database.
    ///
    /// # Errors
    /// If the folder does not belong to a query, or cannot be read.
    ///
    /// ```
    /// let folder = tempfile::tempdir()?;
    /// let error = tidemill_engine::Past::open(folder.path()).err().unwrap();
    /// assert!(error.to_string().contains("is not the journal of a query"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open(folder: &Path) -> Result<Past, Cause> {
        let not_one =
            |hint: &str| Cause::user(format!("'{}' is not the journal of a query{hint}", folder.display()));
        let description = inspect::query(folder)?.ok_or_else(|| not_one(""))?;
        if database::sources(&description).is_some() {
            return Err(not_one(
                ", but that of a database; replay a query of it with --data FOLDER --query NAME",
            ));
        }
        let is_of_database = database::sources_of_query(&description).next().is_some();
        let journal = match folder.parent() {
            Some(above) if is_of_database => above.to_owned(),
            _ => folder.to_owned(),
        };
        Ok(Past { folder: folder.to_owned(), journal, description, is_of_database, left_out: Skips::new() })
    }

    /// Returns the same past without some rows of its sources. Their event times count as before, so that nothing else is early
    /// or late because of that, and each cycle ends where it did.
    #[must_use]
    pub fn without(self, left_out: Skips) -> Past {
        Past { left_out, ..self }
    }

    /// Whether its rows and cuts are those of a database.
    pub fn is_of_database(&self) -> bool {
        self.is_of_database
    }

    /// The cycles whose states are kept, ascending.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn states(&self) -> Result<Vec<u64>, Cause> {
        Ok(inspect::list(&self.folder)?.snapshots)
    }

    /// The last cycle that was closed at this time, in nanoseconds since 1970, or before.
    ///
    /// # Errors
    /// If all cycles that are still there are later, or the cuts cannot be read.
    pub fn cycle_at(&self, time_ns: u64) -> Result<u64, Cause> {
        let first = inspect::list(&self.journal)?.cuts.first;
        let mut found = None;
        for cut in inspect::cuts_from(&self.journal, first)? {
            let cut = cut?;
            if cut.closed_at_ns > time_ns {
                break;
            }
            found = Some(cut.cycle);
        }
        found.ok_or_else(|| {
            Cause::user(format!(
                "no cycle of '{}' that is still there was closed at that time or before; `tidemill journal show \
                 --cuts` lists the cuts",
                self.journal.display()
            ))
        })
    }

    /// The sources in the order of the cuts.
    fn sources(&self) -> Result<Vec<String>, Cause> {
        if !self.is_of_database {
            return Ok(sources_of(&self.description).into_iter().map(str::to_owned).collect());
        }
        let of_database = inspect::query(&self.journal)?.unwrap_or_default();
        let sources = database::sources(&of_database).unwrap_or_default();
        Ok(sources.into_iter().map(str::to_owned).collect())
    }

    /// Where a source stands in the cuts.
    fn in_cuts(&self, stream: &str, listing: &Listing) -> Result<SourceInCuts, Cause> {
        let index = self.sources()?.iter().position(|known| known == stream).ok_or_else(|| {
            Cause::user(format!("the journal '{}' has no source '{stream}'", self.journal.display()))
        })?;
        Ok(SourceInCuts::new(index, &listing.epochs))
    }

    /// The state to begin with.
    fn state(&self, start: PastStart) -> Result<Option<StoredSnapshot>, Cause> {
        if start == PastStart::Beginning {
            match inspect::beginning(&self.folder)? {
                Some(BeganAt::First) => return Ok(None),
                Some(BeganAt::After(cut)) => {
                    let state = Snapshot { cycle: cut.cycle, ..Snapshot::default() };
                    return Ok(Some(StoredSnapshot { cut, plan: self.description.clone(), state }));
                }
                // It is a pipeline, or an earlier version has begun it.
                None => {}
            }
        }
        let cycles = self.states()?;
        let wanted = match start {
            PastStart::Beginning if !self.is_of_database || cycles.is_empty() => return Ok(None),
            PastStart::Beginning | PastStart::Oldest => cycles.first().copied(),
            PastStart::Before(cycle) => cycles.iter().rev().find(|state| **state < cycle).copied(),
            PastStart::After(cycle) => cycles.contains(&cycle).then_some(cycle),
        };
        match wanted {
            Some(cycle) => inspect::snapshot(&self.folder, cycle).map(Some),
            None => Err(self.no_state(start, &cycles)),
        }
    }

    fn no_state(&self, start: PastStart, cycles: &[u64]) -> Cause {
        let wanted = match start {
            PastStart::Before(cycle) => format!(" before cycle {cycle}"),
            PastStart::After(cycle) => format!(" after cycle {cycle}"),
            PastStart::Beginning | PastStart::Oldest => String::new(),
        };
        let kept = match cycles {
            [] => "it has none at all".to_owned(),
            cycles => {
                let cycles: Vec<String> = cycles.iter().map(u64::to_string).collect();
                format!("it has those after the cycles {}", cycles.join(", "))
            }
        };
        Cause::user(format!("'{}' has no state{wanted} to begin with; {kept}", self.folder.display()))
    }
}

/// A cut, and the state of the operators at its end.
fn begun(stored: Option<StoredSnapshot>) -> (Option<Cut>, Option<Snapshot>) {
    stored.map(|StoredSnapshot { cut, state, .. }| (cut, state)).unzip()
}
