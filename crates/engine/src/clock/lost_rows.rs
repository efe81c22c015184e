//! Where sources are at logged cuts, some of which name rows that a crash of the machine has taken (decision 0061).

use std::ops::Range;
use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_journal::{CutJournal, Epoch, LostRows};

/// Where a source is at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceMark {
    pub position: u64,
    pub watermark: i64,
    pub is_idle: bool,
    /// The event time that it had reached when it ended; `i64::MIN`: it has not.
    pub ended_at: i64,
}

impl SourceMark {
    /// Before its first row.
    pub const START: SourceMark =
        SourceMark { position: 0, watermark: i64::MIN, is_idle: false, ended_at: i64::MIN };

    /// Where the record of a cut says that a source is. Sources are added over time, so old cuts lack the newer ones.
    fn recorded(cut: &Cut, source: usize) -> SourceMark {
        let (Some(position), Some(watermark)) = (cut.positions.get(source), cut.watermarks.get(source))
        else {
            return SourceMark::START;
        };
        let is_idle = cut.idle.get(source).copied().unwrap_or(false);
        let ended_at = cut.ended_at.get(source).copied().unwrap_or(i64::MIN);
        SourceMark { position: *position, watermark: *watermark, is_idle, ended_at }
    }
}

/// A source in the cuts of a database: its place there, and what was lost of its rows.
#[derive(Clone)]
pub(crate) struct SourceInCuts {
    pub index: usize,
    lost: Arc<[LostRows]>,
}

impl SourceInCuts {
    /// With what the epochs of the journal say of it.
    pub fn new(index: usize, epochs: &[Epoch]) -> SourceInCuts {
        let lost = epochs.iter().filter_map(|epoch| match epoch {
            Epoch::Lost(lost) if lost.source == index => Some(lost.clone()),
            Epoch::Lost(_) | Epoch::Opened { .. } => None,
        });
        SourceInCuts { index, lost: lost.collect() }
    }

    /// Where the source is at a logged cut. A cut that names rows which are lost changes nothing of it.
    pub fn at(&self, cut: &Cut) -> SourceMark {
        match self.lost.iter().find(|lost| lost.cycles.contains(&cut.cycle)) {
            Some(LostRows { position, watermark, is_idle, .. }) => {
                let (position, watermark, is_idle) = (*position, *watermark, *is_idle);
                SourceMark { position, watermark, is_idle, ended_at: i64::MIN }
            }
            None => SourceMark::recorded(cut, self.index),
        }
    }

    /// What is lost if the journal of the source has no more rows than these: the last cuts name others.
    pub fn lost_behind(&self, there: Range<u64>, cuts: &CutJournal) -> Result<LostRows, Cause> {
        let mut reader = cuts.reader();
        let mut mark = |cycle| -> Result<SourceMark, Cause> {
            let cut = reader.read(cycle)?;
            let cut = cut.ok_or_else(|| Cause::bug(format!("the cut of cycle {cycle} was not logged")))?;
            Ok(self.at(&cut))
        };
        let (start, end) = (cuts.start(), cuts.end());
        // The first cut that names such rows, by halves: positions do not decrease.
        let (mut first, mut behind) = (start, end);
        while first < behind {
            let middle = first + (behind - first) / 2;
            if mark(middle)?.position > there.end { behind = middle } else { first = middle + 1 }
        }
        let before = if first > start {
            mark(first - 1)?
        } else {
            // No query needs its rows: what it has belongs to the next cycle.
            SourceMark::START
        };
        Ok(LostRows {
            source: self.index,
            cycles: first..=end.saturating_sub(1),
            position: before.position.max(there.start),
            watermark: before.watermark,
            is_idle: before.is_idle,
        })
    }
}

/// The event times that sources had reached when they ended, for a cut; empty if none has.
pub(super) fn ended_at(marks: &[SourceMark]) -> Vec<i64> {
    let has_ended = marks.iter().any(|mark| mark.ended_at > i64::MIN);
    if has_ended { marks.iter().map(|mark| mark.ended_at).collect() } else { Vec::new() }
}
