//! Opening a durable query that replaces the one that its journal belongs to.

use tidemill_engine::{Cause, EventTime, ReplaceFrom, Replacement, find_replacement};

use crate::query::opened::{OpenJournal, Opened};
use crate::query::pipeline::Pipeline;
use crate::translate::UsedSource;

impl OpenJournal {
    /// Whether its query is to replace another one, and has not begun yet.
    pub fn begins_replacement(&self) -> Result<bool, Cause> {
        Ok(self.journal.is_replacement() && self.journal.query()?.is_none())
    }
}

impl Pipeline {
    /// As [`open`](Pipeline::open), but if the journal belongs to another query, this one is to replace it: it is computed from
    /// the rows that the journal has, and takes over when it has caught up. `tell` is called before anything is done.
    ///
    /// # Errors
    /// As `open`; if it is not durable, or the journal does not have the rows any more.
    pub fn open_replacing(
        self,
        from: ReplaceFrom,
        tell: impl FnOnce(Option<&Replacement>),
    ) -> Result<Opened, Cause> {
        let Pipeline { prepared, targets, durable, .. } = self;
        let durable = durable.ok_or_else(|| {
            Cause::user(
                "no source of the pipeline is durable, so there is no journal with a query to replace; run it \
                 without --replace",
            )
        })?;
        let OpenJournal { journal, folder, durability, beginning } = OpenJournal::open(durable)?;
        let event_times: Vec<Option<EventTime>> =
            prepared.dataflow.sources.iter().map(UsedSource::event_time).collect();
        let (journal, replacement) =
            find_replacement(journal, &prepared.dataflow.plan, &event_times, &durability, from)?;
        tell(replacement.as_ref());
        Opened::of(prepared, targets, Some(OpenJournal { journal, folder, durability, beginning }))
    }
}
