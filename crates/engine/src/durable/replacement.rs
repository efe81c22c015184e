//! Replacing the query of a journal by another one, which is computed from the journal's earliest rows on while the old one's
//! state stays. Once all sinks have what the journal had at the start, the new query takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, CutLog, Guarantee, Sink};
use tidemill_journal::{CutJournal, Journal, StoredSnapshot, StreamProgress};
use tidemill_plan::{Plan, SourcePlan};

use super::Durability;
use super::description::Description;
use super::reach::check_there;
use crate::feed_settings::EventTime;

/// From where on a query that replaces another one is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceFrom {
    /// From the first row that there ever was. If the journal does not have it any more, the query is not replaced.
    First,
    /// From the first row that the journal still has.
    Kept,
}

/// What a replacement reads and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The streams that the new query reads and the journal has, each with its first position and one past its last.
    pub streams: Vec<(String, u64, u64)>,
    /// The sources that the journal has no rows of: they begin with what comes from now on.
    pub new: Vec<String>,
    /// The streams that the new query does not read. Their rows stay.
    pub unread: Vec<String>,
    /// Whether an earlier run has begun it. Its sinks continue where they are.
    pub is_continued: bool,
}

/// Whether a replacement has taken over. Clones refer to the same one.
#[derive(Clone, Debug, Default)]
pub struct Takeover(Arc<AtomicBool>);

impl Takeover {
    /// Whether the new query has taken over, and the state of the old one is removed.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Finds out what it takes to replace the query of a journal by that of a plan, whose sources have these event times. Returns the
/// journal to run it with; `None`: the journal has no query yet, or has this one, so there is nothing to replace. Only the
/// rest of an earlier attempt to replace it by a third query is removed.
///
/// # Errors
/// If the journal no longer has the rows that are asked for, or the disk fails.
pub fn find_replacement(
    journal: Journal,
    plan: &Plan,
    event_times: &[Option<EventTime>],
    durability: &Durability,
    from: ReplaceFrom,
) -> Result<(Journal, Option<Replacement>), Cause> {
    let description = Description::of(plan, &named(event_times, plan), durability);
    match journal.query()? {
        Some(known) if description.check(&known).is_err() => {}
        _ => return Ok((journal, None)),
    }
    let begun = journal.replacement()?;
    let is_continued = begun.query()?.is_some_and(|known| description.check(&known).is_ok());
    let begun = if is_continued {
        begun
    } else {
        journal.give_up_replacement()?;
        journal.replacement()?
    };
    let replacement = Replacement { is_continued, ..streams(&journal, plan)? };
    if from == ReplaceFrom::First && !is_continued {
        replacement.streams.iter().try_for_each(check_complete)?;
    }
    Ok((begun, Some(replacement)))
}

/// The event times with the names of their columns.
fn named(event_times: &[Option<EventTime>], plan: &Plan) -> Vec<Option<(String, i64)>> {
    let name = |(event_time, planned): (&Option<EventTime>, &SourcePlan)| {
        let event_time = (*event_time)?;
        let fields = planned.streams.first().map(|schema| schema.fields());
        let column = fields.and_then(|fields| fields.get(event_time.column));
        Some((column.map_or("?", |field| field.name()).to_owned(), event_time.delay_ns))
    };
    event_times.iter().zip(&plan.sources).map(name).collect()
}

fn streams(journal: &Journal, plan: &Plan) -> Result<Replacement, Cause> {
    let listing = journal.list()?;
    let is_read = |name: &str| plan.sources.iter().any(|source| source.name == name);
    let (read, unread): (Vec<_>, Vec<_>) = listing.streams.into_iter().partition(|log| is_read(&log.name));
    let is_new = |name: &&String| !read.iter().any(|log| log.name == **name);
    let new = plan.sources.iter().map(|source| &source.name).filter(is_new).cloned().collect();
    Ok(Replacement {
        new,
        unread: unread.into_iter().map(|log| log.name).collect(),
        streams: read.into_iter().map(|log| (log.name, log.first, log.end)).collect(),
        is_continued: false,
    })
}

fn check_complete((name, first, _): &(String, u64, u64)) -> Result<(), Cause> {
    if *first == 0 {
        return Ok(());
    }
    Err(Cause::user(format!(
        "the journal of '{name}' begins at position {first}; the {first} rows before it were removed when all sinks \
         had their results, so the new query cannot have them. To compute it from position {first} on, use \
         --replace=from-kept. \
         retain = '...' at the source keeps more rows from now on"
    )))
}

/// Begins a replacement, before its description is written: nothing of it counts without that.
pub(super) fn begin(
    journal: &Journal,
    cuts: &CutJournal,
    description: &Description,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
    streams: &[Arc<StreamProgress>],
) -> Result<(), Cause> {
    check_there(sinks)?;
    names.iter().zip(sinks).try_for_each(|(name, sink)| check_empty(name, sink.as_mut()))?;
    let positions: Vec<u64> = streams.iter().map(|stream| stream.first()).collect();
    if positions.iter().all(|position| *position == 0) {
        return Ok(());
    }
    // As if a first cycle had taken in what is gone, and all sinks had its results.
    let (watermarks, idle) = (vec![i64::MIN; positions.len()], vec![false; positions.len()]);
    let cut = Cut { positions, watermarks, idle, ..Cut::first() };
    cuts.clone().append(&cut)?;
    cuts.sync()?;
    journal.commits().write(&names.iter().map(|name| (name.clone(), cut.cycle)).collect())?;
    let state = Snapshot { cycle: cut.cycle, ..Snapshot::default() };
    journal.snapshots().write(&StoredSnapshot { cut, plan: description.text().to_owned(), state })
}

/// A sink of a new query must not have rows of another.
pub(super) fn check_empty(name: &str, sink: &mut dyn Sink) -> Result<(), Cause> {
    if sink.guarantee() != Guarantee::ExactlyOnce {
        return Ok(());
    }
    let Some(cycle) = sink.last_committed()? else { return Ok(()) };
    Err(Cause::user(format!(
        "sink '{name}' has the rows of another query, up to its cycle {cycle}, and the rows of two queries are not \
         mixed. Give the sink another name and another target (a file, folder or table that does not exist yet), or \
         move away what it has (a file together with its manifest)"
    )))
}

/// When a replacement takes over.
pub(crate) struct PendingTakeover {
    /// For each stream, the end of what it had when the run began.
    pub targets: Vec<u64>,
    /// Where the replacement began.
    pub begins: Vec<u64>,
    pub takeover: Takeover,
}

impl PendingTakeover {
    pub fn new(begins: Vec<u64>, streams: &[Arc<StreamProgress>]) -> PendingTakeover {
        let targets = streams.iter().map(|stream| stream.end()).collect();
        PendingTakeover { targets, begins, takeover: Takeover::default() }
    }

    /// Whether the sinks, which have the cycles up to `committed`, have everything that there was.
    pub fn is_due(&self, committed: Option<u64>, cuts: &CutJournal) -> Result<bool, Cause> {
        let reached = match committed {
            Some(cycle) => cuts.cut(cycle)?.map(|cut| cut.positions),
            None => None,
        };
        let reached = reached.as_ref().unwrap_or(&self.begins);
        Ok(reached.iter().zip(&self.targets).all(|(reached, target)| reached >= target))
    }

    pub fn done(&self) {
        self.takeover.0.store(true, Ordering::SeqCst);
    }
}
