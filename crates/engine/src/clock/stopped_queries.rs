//! Queries that are stopped and may continue: what the journal of a database keeps for them, and when it no longer does
//! (decision 0098).

use std::collections::BTreeMap;

use tidemill_journal::{CutJournal, StreamProgress};

use super::need::Need;

/// For a query that is stopped, the journal of a source keeps rows up to this part of its limit.
const PART_OF_LIMIT: u64 = 2;
/// The most bytes of cuts that are kept for a query that is stopped.
const CUT_BYTES_MAX: u64 = 4 << 30;

/// What the journal of a database keeps for a query that is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedRows {
    /// The query continues behind this cycle; `None`: with the first one.
    pub after: Option<u64>,
    /// The rows behind it, of those of its sources that other queries read meanwhile.
    pub rows: u64,
    /// When the first cycle behind it was closed, in nanoseconds since 1970; `None`: there is none yet.
    pub waits_since_ns: Option<u64>,
    /// Whether they were too many: they are no longer kept, and are removed when there is need of their room.
    pub is_let_go: bool,
}

/// A query that is stopped.
#[derive(Clone, Default)]
pub(super) struct StoppedQuery {
    pub need: Need,
    pub waits_since_ns: Option<u64>,
    pub is_let_go: bool,
}

/// A source that is open.
pub(super) struct JournaledSource<'a> {
    pub progress: &'a StreamProgress,
    /// The most bytes that its journal may have.
    pub bytes_max: u64,
    /// The first position that a query needs which runs.
    pub needed: Option<u64>,
}

impl StoppedQuery {
    /// Looks whether what it needs is there, and not too much.
    pub fn let_go_if_due(
        &mut self,
        sources: &BTreeMap<usize, JournaledSource<'_>>,
        cuts: &CutJournal,
    ) -> bool {
        let next = self.need.after.map_or(0, |cycle| cycle + 1);
        let cut_bytes = share(cuts.bytes(), cuts.start()..cuts.end(), next);
        let is_due = next < cuts.start()
            || cut_bytes > CUT_BYTES_MAX
            || self.need.positions.iter().any(|(source, position)| {
                sources.get(source).is_some_and(|source| source.is_too_much(*position))
            });
        let is_new = is_due && !self.is_let_go;
        self.is_let_go |= is_due;
        is_new
    }

    pub fn kept(&self, sources: &BTreeMap<usize, JournaledSource<'_>>) -> RetainedRows {
        let rows = |(source, position): &(usize, u64)| {
            sources.get(source).map_or(0, |source| source.progress.end().saturating_sub(*position))
        };
        RetainedRows {
            after: self.need.after,
            rows: self.need.positions.iter().map(rows).sum(),
            waits_since_ns: self.waits_since_ns,
            is_let_go: self.is_let_go,
        }
    }
}

impl JournaledSource<'_> {
    /// Whether the rows from a position on are too many to be kept for a query that is stopped, or are not there any more.
    fn is_too_much(&self, position: u64) -> bool {
        let (first, end) = (self.progress.first(), self.progress.end());
        // What a query needs that runs is kept anyway.
        let is_alone = self.needed.is_none_or(|needed| position < needed);
        let bytes = share(self.progress.bytes(), first..end, position);
        position < first || (is_alone && bytes > self.bytes_max / PART_OF_LIMIT)
    }
}

/// About how many of the bytes of a log are behind a position.
fn share(bytes: u64, positions: std::ops::Range<u64>, position: u64) -> u64 {
    let behind = positions.end.saturating_sub(position.max(positions.start));
    let all = u128::from(positions.end.saturating_sub(positions.start)).max(1);
    u64::try_from(u128::from(bytes) * u128::from(behind) / all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_log_is_that_of_its_positions() {
        assert_eq!(share(1000, 50..150, 100), 500);
        assert_eq!(share(1000, 50..150, 0), 1000);
        assert_eq!(share(1000, 50..150, 150), 0);
        assert_eq!(share(0, 7..7, 3), 0);
        assert_eq!(share(u64::MAX, 0..u64::MAX, 0), u64::MAX);
    }
}
