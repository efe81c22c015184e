//! What an earlier run left, and how to go on from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, Guarantee, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{CutJournal, Journal, StoredSnapshot, StreamProgress};
use tidemill_plan::Plan;

use super::protocol::{Left, Reach, Retention, SinkPlace};

/// What was found from earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The cycle whose state was taken over.
    pub snapshot: Option<u64>,
    /// Cycles after it that are made again.
    pub cycles: u64,
    /// Events that are in the journal and not in the state.
    pub events: u64,
    /// Cuts at the end of the log that were forgotten: their events had not reached the disk, and no sink has them.
    pub cuts_forgotten: u64,
}

/// How a run goes on.
pub(super) struct Found {
    pub resume: Resume,
    pub state: Option<Snapshot>,
    pub sinks: Vec<SinkPlace>,
    pub retention: Retention,
    pub recovered: Recovered,
}

/// Finds out how to go on, and removes what does not count any more.
pub(super) fn find(
    journal: &Journal,
    cuts: &CutJournal,
    text: &str,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
    streams: &[Arc<StreamProgress>],
) -> Result<Found, Cause> {
    match journal.query()? {
        Some(known) => check_text(&known, text)?,
        None => journal.set_query(text)?,
    }
    let sinks = places(&journal.commits().read()?, names, sinks)?;
    let stored = match Left::snapshot_max(&sinks) {
        Some(cycle) => journal.snapshots().newest(Some(cycle))?,
        None => None,
    };
    if let Some(stored) = &stored {
        check_text(&stored.plan, text)?;
    }
    let snapshot = stored.as_ref().map(|stored| &stored.cut);
    let reach = |stream: &Arc<StreamProgress>| Reach { first: stream.first(), end: stream.end() };
    let left = Left {
        sinks: &sinks,
        snapshot,
        cuts: cuts.cuts_after(snapshot.map(|cut| cut.cycle))?,
        cuts_end: cuts.end(),
        streams: &streams.iter().map(reach).collect::<Vec<_>>(),
    };
    let way = left.way()?;
    forget_behind(way.last, journal, cuts)?;
    let retention = retention(journal, snapshot, &way.replay)?;
    let events = |(stream, start): (&Arc<StreamProgress>, &u64)| stream.end().saturating_sub(*start);
    let recovered = Recovered {
        snapshot: snapshot.map(|cut| cut.cycle),
        cycles: way.replay.len() as u64,
        events: streams.iter().zip(&way.positions).map(events).sum(),
        cuts_forgotten: way.cuts_forgotten,
    };
    let (after, state) = stored.map(|StoredSnapshot { cut, state, .. }| (cut, state)).unzip();
    let resume = Resume { after, replay: way.replay, sinks: way.first_new };
    Ok(Found { resume, state, sinks, retention, recovered })
}

/// Removes the cuts and snapshots of later cycles: their events are lost, and others will have their numbers.
fn forget_behind(last: Option<u64>, journal: &Journal, cuts: &CutJournal) -> Result<(), Cause> {
    journal.snapshots().remove_after(last)?;
    cuts.discard_after(last)
}

/// The snapshots that are there: the one to go on from, and those of cycles that are made again.
fn retention(journal: &Journal, snapshot: Option<&Cut>, replay: &[Cut]) -> Result<Retention, Cause> {
    let there = journal.snapshots().cycles()?;
    let newer = replay.iter().filter(|cut| there.contains(&cut.cycle));
    Ok(Retention::new(snapshot.into_iter().chain(newer).cloned()))
}

/// How far each sink is: by its own word, or by our note.
fn places(
    noted: &BTreeMap<String, u64>,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
) -> Result<Vec<SinkPlace>, Cause> {
    let place = |(name, sink): (&String, &mut Box<dyn Sink>)| {
        let remembers = sink.guarantee() == Guarantee::ExactlyOnce;
        let committed = if remembers { sink.last_committed()? } else { noted.get(name).copied() };
        Ok(SinkPlace { name: name.clone(), remembers, committed })
    };
    names.iter().zip(sinks).map(place).collect()
}

/// The query as text: what must be the same for its state to be taken over.
pub(super) fn describe(plan: &Plan, query: &str) -> String {
    let mut text = String::new();
    for source in &plan.sources {
        let _ = writeln!(text, "source {}", source.name);
    }
    for operator in &plan.operators {
        let _ = writeln!(text, "operator {} in {} partitions", operator.name, operator.partitions);
    }
    for sink in &plan.sinks {
        let _ = writeln!(text, "sink {}", sink.name);
    }
    text.push_str(query);
    text
}

fn check_text(stored: &str, text: &str) -> Result<(), Cause> {
    if stored == text {
        return Ok(());
    }
    let differing = stored.lines().zip(text.lines()).find(|(before, now)| before != now);
    let (before, now) = differing.unwrap_or(("(shorter)", "(longer)"));
    Err(Cause::User(format!(
        "the query is not the one whose state is in the journal: it had '{before}' where now is '{now}'. Run the \
         query as it was, or use another journal folder"
    )))
}
