//! Opens a durable query's folder: journals, cuts, and how to resume.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Clock, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{Journal, StreamReader, StreamWriter};
use tidemill_plan::Plan;

use super::description::Description;
use super::feed_start::FeedStart;
use super::guard::Guard;
use super::maintenance::Maintained;
use super::recovery::{self, Recovered, Recovery};
use super::{Durability, DurableSource, SyncPolicy};

/// An open folder, with everything that a run begins with.
pub(super) struct Opened {
    /// In the plan's order.
    pub streams: Vec<(StreamWriter, StreamReader)>,
    pub kept: Maintained,
    pub resume: Resume,
    pub state: Option<Snapshot>,
    pub recovered: Recovered,
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
        FeedStart { position, watermark, replay_end, replay_watermark, now, clock: Arc::clone(clock) }
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
        if !stream.0.places().is_empty() {
            source.source.go_on(stream.0.places())?;
        }
        streams.push(stream);
    }
    let progress: Vec<_> = streams.iter().map(|(writer, _)| writer.progress()).collect();
    let cuts = journal.cuts()?;
    let names: Vec<String> = plan.sinks.iter().map(|sink| sink.name.clone()).collect();
    let description = Description::new(plan, sources, durability);
    let found = recovery::find(&journal, &cuts, &description, &names, sinks, &progress)?;
    let Recovery { resume, state, sinks, retention, recovered } = found;
    let waits = sources.iter().map(|source| source.sync != SyncPolicy::Never).collect();
    let guard = Arc::new(Guard::new(progress.clone(), waits, cuts.clone(), journal.commits(), sinks));
    let kept = Maintained {
        journal,
        cuts,
        progress,
        guard,
        retention,
        text: description.text().to_owned(),
        snapshot_cycle: None,
    };
    Ok(Opened { streams, kept, resume, state, recovered })
}
