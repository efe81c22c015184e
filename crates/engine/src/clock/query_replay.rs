//! The cycles of a durable query out of the journal of its database, as long as they are not in memory.

use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_flow::GivenCycle;
use tidemill_journal::CutReader;

use super::clock_journal::ClockJournal;
use super::lost_rows::{SourceMark, ended_at};
use super::source_journal::SourceJournal;
use super::source_replay::SourceReplay;

/// Where a durable query is in the journal of its database.
pub(super) struct QueryReplay {
    cuts: CutReader,
    sources: Vec<SourceJournal>,
    /// The cut of the last cycle that the query was given, or at which it begins.
    last: Cut,
    /// The next cycle to look at.
    next: u64,
    /// The rows behind `last`; `None`: nothing was read from there on yet.
    rows: Option<Vec<SourceReplay>>,
    /// Whether all cuts concern the query.
    has_clock_timers: bool,
}

impl QueryReplay {
    /// From a cut of the query on; `None`: from the first cycle.
    pub fn new(
        journal: &Arc<ClockJournal>,
        sources: Vec<SourceJournal>,
        after: Option<&Cut>,
        has_clock_timers: bool,
    ) -> QueryReplay {
        let (next, last) = match after {
            Some(cut) => (cut.cycle + 1, cut.clone()),
            None => (0, of_marks(&Cut::first(), vec![SourceMark::START; sources.len()])),
        };
        QueryReplay { cuts: journal.cuts().reader(), sources, last, next, rows: None, has_clock_timers }
    }

    /// The next cycle that it looks at.
    pub fn next_cycle(&self) -> u64 {
        self.next
    }

    /// The query was given a cycle from memory.
    pub fn follow(&mut self, cut: &Cut) {
        self.last.clone_from(cut);
        (self.next, self.rows) = (cut.cycle + 1, None);
    }

    /// The next cycle before `end` that concerns the query. If it `is_last`, any cycle will do.
    pub fn next(&mut self, end: u64, is_last: bool) -> Result<Option<GivenCycle>, Cause> {
        while self.next < end {
            let logged = self
                .cuts
                .read(self.next)?
                .ok_or_else(|| Cause::bug(format!("the cut of cycle {} was not logged", self.next)))?;
            self.next += 1;
            let cut = Cut { last: is_last, ..of_sources(&logged, &self.sources) };
            if is_last || self.has_clock_timers || differs(&cut, &self.last) {
                let chunks = self.rows_up_to(&cut)?;
                self.last.clone_from(&cut);
                return Ok(Some(GivenCycle { cut, chunks }));
            }
        }
        Ok(None)
    }

    fn rows_up_to(&mut self, cut: &Cut) -> Result<Vec<Vec<tidemill_flow::Chunk>>, Cause> {
        let rows = self.rows.get_or_insert_with(|| {
            let places = self.last.positions.iter().copied().zip(self.last.watermarks.iter().copied());
            let sources = self.sources.iter().zip(places);
            sources.map(|(source, place)| SourceReplay::new(source, place)).collect()
        });
        rows.iter_mut().zip(&cut.positions).map(|(source, end)| source.up_to(*end)).collect()
    }
}

/// The part of a logged cut that concerns some sources.
pub(super) fn of_sources(cut: &Cut, sources: &[SourceJournal]) -> Cut {
    of_marks(cut, sources.iter().map(|source| source.in_cuts.at(cut)).collect())
}

/// A logged cut, with these sources at these places.
pub(crate) fn of_marks(cut: &Cut, marks: Vec<SourceMark>) -> Cut {
    Cut {
        positions: marks.iter().map(|mark| mark.position).collect(),
        watermarks: marks.iter().map(|mark| mark.watermark).collect(),
        idle: marks.iter().map(|mark| mark.is_idle).collect(),
        ended_at: ended_at(&marks),
        ..cut.clone()
    }
}

/// Whether a cycle between two cuts concerns those who read these sources. It is the same in every run, because it depends on
/// the cuts alone.
pub(crate) fn differs(cut: &Cut, before: &Cut) -> bool {
    let is_idle = |cut: &Cut, source: usize| cut.idle.get(source).copied().unwrap_or(false);
    let idles = (0..cut.positions.len()).any(|source| is_idle(cut, source) != is_idle(before, source));
    idles || cut.positions != before.positions || cut.watermarks != before.watermarks
}
