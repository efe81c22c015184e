//! How far streams and sinks are when a query is opened.

use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::{Guarantee, Sink};
use tidemill_journal::{Journal, StreamProgress};

use super::protocol::{JournaledRange, SinkCommit, unheard_from};

/// What is in a stream.
pub(super) fn reach(stream: &Arc<StreamProgress>) -> JournaledRange {
    JournaledRange { first: stream.first(), end: stream.end() }
}

/// How far each sink is, by its own account or by our record.
pub(crate) fn places(
    journal: &Journal,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
) -> Result<Vec<SinkCommit>, Cause> {
    let (noted, unheard) = (journal.commits().read()?, journal.away().read()?);
    let place = |(name, sink): (&String, &mut Box<dyn Sink>)| {
        let remembers = sink.guarantee() == Guarantee::ExactlyOnce;
        // What we have recorded of a sink does not depend on its target.
        let is_away = remembers && sink.away().is_some();
        let known = if remembers && !is_away { sink.last_committed()? } else { None };
        let noted = noted.get(name).copied();
        Ok(SinkCommit {
            name: name.clone(),
            remembers,
            is_brought: remembers && noted > known,
            committed: known.max(noted),
            is_away,
            unheard_from: unheard.get(name).copied(),
        })
    };
    names.iter().zip(sinks).map(place).collect()
}

/// Keeps, durably, which sinks are away, before a journal whose last cycle is `last` gets new cycles.
pub(crate) fn keep_away(journal: &Journal, sinks: &[SinkCommit], last: Option<u64>) -> Result<(), Cause> {
    let (file, away) = (journal.away(), unheard_from(sinks, last));
    if file.read()? == away { Ok(()) } else { file.write(&away) }
}

/// Fails if the target of a sink is away, for what cannot wait for it.
pub(super) fn check_there(sinks: &[Box<dyn Sink>]) -> Result<(), Cause> {
    sinks.iter().find_map(|sink| sink.away()).map_or(Ok(()), Err)
}
