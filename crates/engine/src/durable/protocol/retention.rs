//! Retention: what a run that resumes from the commits could need, and what is no longer needed.

use std::collections::BTreeMap;

use tidemill_core::Cut;

/// At most this many snapshots are kept. A sink that is far behind needs an old one, and the others save it recomputation.
const SNAPSHOTS_MAX: usize = 8;

/// What is no longer needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// For each stream, the position before the first row that is needed.
    pub positions: Vec<u64>,
    /// The cycle of the snapshot from which a run would resume. Older snapshots are removed, and so are the cuts up to
    /// its own.
    pub snapshot: u64,
}

/// The snapshots that are kept, and what they need.
pub(crate) struct Retention {
    /// By cycle, the positions of its cut, where a run that begins with the snapshot continues.
    snapshots: BTreeMap<u64, Vec<u64>>,
    released: Option<u64>,
}

impl Retention {
    /// Begins with the cuts of the existing snapshots.
    pub fn new(snapshots: impl IntoIterator<Item = Cut>) -> Self {
        let snapshots = snapshots.into_iter().map(|cut| (cut.cycle, cut.positions)).collect();
        Retention { snapshots, released: None }
    }

    /// Whether a snapshot of this cycle is useful: no run begins with one that is older than the one that is kept.
    pub fn wants(&self, cycle: u64) -> bool {
        self.released < Some(cycle)
    }

    /// Reports that a snapshot is safe on disk.
    pub fn stored(&mut self, cut: &Cut) {
        self.snapshots.insert(cut.cycle, cut.positions.clone());
    }

    /// A snapshot to remove because there are too many: the one before the newest. The oldest may be all that a sink has, and
    /// the newest is where the next run begins if the sinks catch up.
    pub fn surplus(&mut self) -> Option<u64> {
        if self.snapshots.len() <= SNAPSHOTS_MAX {
            return None;
        }
        let cycle = *self.snapshots.keys().rev().nth(1)?;
        self.snapshots.remove(&cycle);
        Some(cycle)
    }

    /// What can be removed now that a run that began now would find the cycles up to `committed` in all sinks; `None`:
    /// nothing more than before.
    pub fn release(&mut self, committed: Option<u64>) -> Option<Release> {
        let (snapshot, positions) = self.snapshots.range(..=committed?).next_back()?;
        if self.released >= Some(*snapshot) {
            return None;
        }
        let release = Release { positions: positions.clone(), snapshot: *snapshot };
        self.released = Some(release.snapshot);
        self.snapshots = self.snapshots.split_off(&release.snapshot);
        Some(release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(cycle: u64) -> Cut {
        Cut { cycle, positions: vec![cycle * 10], watermarks: vec![0], ..Cut::first() }
    }

    #[test]
    fn a_sink_that_is_behind_keeps_the_oldest_and_the_newest_and_few_others() {
        let mut retention = Retention::new([cut(3)]);
        let mut removed = Vec::new();
        for cycle in 4..40 {
            retention.stored(&cut(cycle));
            removed.extend(retention.surplus());
        }
        assert_eq!(retention.snapshots.keys().copied().collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 9, 39]);
        assert_eq!(removed, (10..39).collect::<Vec<_>>());
        assert_eq!(retention.release(Some(2)), None);
        let release = |snapshot: u64| Some(Release { positions: vec![snapshot * 10], snapshot });
        assert_eq!(retention.release(Some(30)), release(9));
        assert_eq!(retention.release(Some(39)), release(39));
    }
}
