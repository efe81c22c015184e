//! Opens a durable query's folder: journals, cuts, and how to resume.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Clock, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{Journal, Positions, Skips, StreamProgress, StreamReader, StreamWriter};
use tidemill_plan::Plan;
use tracing::warn;

use super::description::Description;
use super::feed_start::FeedStart;
use super::guard::JournalGuard;
use super::maintenance::Maintained;
use super::protocol::Commits;
use super::recovery::{Recovered, Recoverer, Recovery};
use super::replacement::PendingTakeover;
use super::{Durability, DurableSource, SyncPolicy};

/// An open folder, with everything that a run begins with.
pub(super) struct Opened {
    /// In the plan's order.
    pub streams: Vec<(StreamWriter, StreamReader)>,
    pub kept: Maintained,
    pub resume: Resume,
    pub state: Option<Snapshot>,
    pub recovered: Recovered,
    /// For each stream the positions that are skipped.
    pub skips: Vec<Positions>,
}

impl Opened {
    /// What the feed of a source begins with.
    pub fn start_of(&self, source: usize, now: Instant, clock: &Arc<dyn Clock>) -> FeedStart {
        let after = self.resume.after.as_ref();
        let (position, watermark) =
            after.map_or((0, i64::MIN), |cut| (cut.positions[source], cut.watermarks[source]));
        let (replay_end, replay_watermark) = self
            .resume
            .replay
            .last()
            .map_or((position, watermark), |cut| (cut.positions[source], cut.watermarks[source]));
        let (skipped, clock) = (self.skips[source].clone(), Arc::clone(clock));
        FeedStart { position, watermark, replay_end, replay_watermark, skipped, now, clock }
    }
}

/// Opens the folder of a query.
pub(super) fn open(
    journal: Journal,
    plan: &Plan,
    durability: &Durability,
    sinks: &mut [Box<dyn Sink>],
    sources: &mut [DurableSource],
) -> Result<Opened, Cause> {
    let mut streams = Vec::new();
    for (source, planned) in sources.iter_mut().zip(&plan.sources) {
        let stream = journal.stream(&planned.name, source.source.schema(), &source.stream)?;
        if !stream.0.offsets().is_empty() {
            source.source.resume(stream.0.offsets())?;
        }
        streams.push(stream);
    }
    let progress: Vec<_> = streams.iter().map(|(writer, _)| writer.progress()).collect();
    let cuts = journal.cuts()?;
    let named = cuts.last().map_or_else(Vec::new, |cut| cut.positions);
    for ((writer, _), named) in streams.iter().zip(named) {
        writer.check_end(named)?;
    }
    let names: Vec<String> = plan.sinks.iter().map(|sink| sink.name.clone()).collect();
    let description = Description::new(plan, sources, durability);
    let of_plan: Vec<String> = plan.sources.iter().map(|source| source.name.clone()).collect();
    let recoverer = Recoverer {
        journal: &journal,
        cuts: &cuts,
        description: &description,
        names: &names,
        stream_names: &of_plan,
        streams: &progress,
    };
    let Recovery { resume, last, state, sinks, retention, mut recovered } = recoverer.recover(sinks)?;
    streams.iter().try_for_each(|(writer, _)| writer.note_opening())?;
    // What this one releases, the other would need.
    if !journal.is_replacement() && journal.give_up_replacement()? {
        warn!("the query that was to replace this one is given up, because this one runs again");
    }
    let stream_names: Vec<&str> = plan.sources.iter().map(|source| source.name.as_str()).collect();
    let skips = skips(&journal, &stream_names, &progress)?;
    let starts =
        (0..streams.len()).map(|stream| resume.after.as_ref().map_or(0, |cut| cut.positions[stream]));
    let ahead = starts.zip(&skips).map(|(start, positions)| positions.within(start..u64::MAX));
    let ahead = stream_names.iter().zip(ahead).filter(|(_, positions)| !positions.is_empty());
    recovered.skips = ahead.map(|(name, positions)| ((*name).to_owned(), positions)).collect();
    let waits = sources.iter().map(|source| source.sync != SyncPolicy::Never).collect();
    let takeover = journal.is_replacement().then(|| {
        let begins =
            resume.after.as_ref().map_or_else(|| vec![0; progress.len()], |cut| cut.positions.clone());
        PendingTakeover::new(begins, &progress)
    });
    let commits = Commits::new(sinks, resume.after.as_ref().map(|cut| cut.cycle), last);
    let guard = Arc::new(JournalGuard::new(progress.clone(), waits, cuts.clone(), &journal, commits));
    let kept = Maintained {
        journal,
        cuts,
        progress,
        guard,
        retention,
        text: description.text().to_owned(),
        snapshot_cycle: None,
        part: None,
        takeover,
    };
    Ok(Opened { streams, kept, resume, state, recovered, skips })
}

/// For each stream the positions that are skipped. Those that its journal does not have are forgotten: removed rows do not
/// come back, and what is written behind the end of a journal that has lost its end are other rows.
fn skips(
    journal: &Journal,
    names: &[&str],
    progress: &[Arc<StreamProgress>],
) -> Result<Vec<Positions>, Cause> {
    let known = journal.skips()?;
    let there = names.iter().zip(progress).map(|(name, progress)| {
        let range = progress.first()..progress.end();
        known.get(*name).map_or(Positions::default(), |positions| positions.within(range))
    });
    let there: Vec<Positions> = there.collect();
    let mut kept: Skips = known.clone();
    kept.extend(names.iter().zip(&there).map(|(name, positions)| ((*name).to_owned(), positions.clone())));
    kept.retain(|_, positions| !positions.is_empty());
    if kept != known {
        journal.set_skips(&kept)?;
    }
    Ok(there)
}
