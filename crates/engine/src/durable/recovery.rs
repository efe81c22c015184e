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

use super::guard::SinkPlace;

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
    pub recovered: Recovered,
}

/// Finds out how to go on.
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
    let places = places(&journal.commits().read()?, names, sinks)?;
    let oldest = places.iter().map(|place| place.committed).min().flatten();
    let stored = match oldest {
        Some(oldest) => journal.snapshots().newest(Some(oldest))?,
        None => None,
    };
    if let Some(stored) = &stored {
        check_text(&stored.plan, text)?;
    }
    let mut replay = cuts.cuts_after(stored.as_ref().map(|stored| stored.cut.cycle))?;
    let cuts_forgotten = forget_cuts(&mut replay, cuts, stored.as_ref(), streams)?;
    let last = replay.last().or(stored.as_ref().map(|stored| &stored.cut));
    check_commits(&places, last)?;
    check_start(&replay, stored.as_ref(), streams)?;
    let start = stored.as_ref().map_or(vec![0; streams.len()], |stored| stored.cut.positions.clone());
    let recovered = Recovered {
        snapshot: stored.as_ref().map(|stored| stored.cut.cycle),
        cycles: replay.len() as u64,
        events: streams.iter().zip(&start).map(|(stream, start)| stream.end().saturating_sub(*start)).sum(),
        cuts_forgotten,
    };
    let first_new = places.iter().map(|place| place.committed.map_or(0, |cycle| cycle + 1)).collect();
    let (after, state) = match stored {
        Some(StoredSnapshot { cut, state, .. }) => (Some(cut), Some(state)),
        None => (None, None),
    };
    Ok(Found { resume: Resume { after, replay, sinks: first_new }, state, sinks: places, recovered })
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

/// A crash of the machine may leave cuts on the disk whose events are not. No sink has committed them, for a commit
/// waits for both; they are forgotten, and the cycles are cut anew.
fn forget_cuts(
    replay: &mut Vec<Cut>,
    cuts: &CutJournal,
    stored: Option<&StoredSnapshot>,
    streams: &[Arc<StreamProgress>],
) -> Result<u64, Cause> {
    let is_there =
        |cut: &Cut| cut.positions.iter().zip(streams).all(|(position, stream)| *position <= stream.end());
    let good = replay.iter().take_while(|cut| is_there(cut)).count();
    let forgotten = replay.len() - good;
    if forgotten > 0 {
        replay.truncate(good);
        let last = replay.last().or(stored.map(|stored| &stored.cut)).map(|cut| cut.cycle);
        cuts.discard_after(last)?;
    }
    Ok(forgotten as u64)
}

fn check_commits(places: &[SinkPlace], last: Option<&Cut>) -> Result<(), Cause> {
    let last = last.map(|cut| cut.cycle);
    match places.iter().find(|place| place.committed > last) {
        None => Ok(()),
        Some(place) => {
            let committed = place.committed.unwrap_or(0);
            let known = last.map_or("no cycle at all".into(), |last| format!("cycles up to {last} only"));
            Err(Cause::Operation(format!(
                "sink '{}' has committed cycle {committed}, but the journal knows {known}: its end is lost (a crash of \
                 the machine with sync = 'never', or another journal's folder). Restore the journal, or give the sink \
                 another name to start anew",
                place.name
            )))
        }
    }
}

/// Whether the journals have what is to be replayed.
fn check_start(
    replay: &[Cut],
    stored: Option<&StoredSnapshot>,
    streams: &[Arc<StreamProgress>],
) -> Result<(), Cause> {
    let start = stored.map_or(0, |stored| stored.cut.cycle + 1);
    if let Some(first) = replay.first().filter(|first| first.cycle != start) {
        let found = first.cycle;
        return Err(Cause::Operation(format!(
            "the log of cuts begins with cycle {found}, but cycle {start} is needed to go on; restore the journal's \
             folder, or start anew in another one"
        )));
    }
    for (index, stream) in streams.iter().enumerate() {
        let needed = stored.map_or(0, |stored| stored.cut.positions[index]);
        if stream.first() > needed || stream.end() < needed {
            let (first, end) = (stream.first(), stream.end());
            return Err(Cause::Operation(format!(
                "the journal of source {index} has positions {first} to {end}, but {needed} is needed to go on; \
                 restore the journal's folder, or start anew in another one"
            )));
        }
    }
    Ok(())
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
