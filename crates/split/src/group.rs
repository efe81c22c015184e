//! Grouping: the place of each row if those of one partition stand together, and the partitions of one worker.

use tidemill_core::Run;

use crate::placement::Placement;

/// Below this many partitions per row, counting is cheaper than comparing.
const PARTITIONS_PER_ROW_FOR_COUNTING: usize = 8;

/// Reusable buffers of grouping.
#[derive(Debug, Default)]
pub struct Grouper {
    places: Vec<u32>,
    runs: Vec<Run>,
    /// Of each partition how many rows it has, then its next free place.
    next: Vec<u32>,
    /// Rank and row, as one number.
    pairs: Vec<u64>,
}

impl Grouper {
    /// Finds the place of each row, rows of one partition in their order. `false`, and nothing more, if some row is
    /// for no partition that there is.
    ///
    /// ```
    /// use tidemill_core::Run;
    /// use tidemill_split::{Placement, group::Grouper};
    /// // Partitions 0 and 2 are on worker 0, partition 1 on worker 1.
    /// let placement = Placement::spread(3, 2);
    /// let mut grouper = Grouper::default();
    /// assert!(grouper.group(&[2, 1, 1, 2], &placement));
    /// assert_eq!(grouper.places(), [0, 2, 3, 1]);
    /// let (first, second) = (Run { partition: 2, start: 0, end: 2 }, Run { partition: 1, start: 2, end: 4 });
    /// assert_eq!(grouper.runs(), [first, second]);
    /// assert!(!grouper.group(&[3], &placement));
    /// ```
    pub fn group(&mut self, partitions: &[u32], placement: &Placement) -> bool {
        self.places.clear();
        self.runs.clear();
        let counted_max = partitions.len().saturating_mul(PARTITIONS_PER_ROW_FOR_COUNTING);
        match placement.partitions() as usize <= counted_max {
            true => self.by_counting(partitions, placement),
            false => self.by_comparing(partitions, placement),
        }
    }

    /// Where each row goes.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The runs of places of the partitions that have rows, in the order of (worker, partition).
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn by_counting(&mut self, partitions: &[u32], placement: &Placement) -> bool {
        let none = placement.partitions() as usize;
        self.next.clear();
        self.next.resize(none + 1, 0);
        let next = &mut self.next[..];
        // Counted with the others, for a question about each row would cost more.
        partitions.iter().for_each(|partition| next[(*partition as usize).min(none)] += 1);
        if next[none] > 0 {
            return false;
        }
        let mut start = 0;
        for partition in placement.in_order() {
            let rows = std::mem::replace(&mut next[*partition as usize], start);
            if rows > 0 {
                self.runs.push(Run { partition: *partition, start, end: start + rows });
                start += rows;
            }
        }
        self.places.extend(partitions.iter().map(|partition| {
            let next = &mut next[*partition as usize];
            *next += 1;
            *next - 1
        }));
        true
    }

    /// Touches only the partitions that have rows.
    fn by_comparing(&mut self, partitions: &[u32], placement: &Placement) -> bool {
        let ranks = placement.ranks();
        if partitions.iter().any(|partition| *partition as usize >= ranks.len()) {
            return false;
        }
        let rank = |partition: u32| u64::from(ranks[partition as usize]);
        self.pairs.clear();
        self.pairs.extend((0..).zip(partitions).map(|(row, partition)| rank(*partition) << 32 | row));
        self.pairs.sort_unstable();
        self.places.resize(partitions.len(), 0);
        for (place, pair) in (0..).zip(&self.pairs) {
            let row = *pair as u32 as usize;
            self.places[row] = place;
            match self.runs.last_mut() {
                Some(run) if run.partition == partitions[row] => run.end = place + 1,
                _ => self.runs.push(Run { partition: partitions[row], start: place, end: place + 1 }),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_give_what_sorting_gives(
            partitions in prop::collection::vec(0..40u32, 0..300),
            worker_of in prop::collection::vec(0..3u32, 40),
        ) {
            let placement = Placement::new(3, worker_of);
            let mut expected: Vec<usize> = (0..partitions.len()).collect();
            expected.sort_by_key(|row| (placement.worker_of(partitions[*row]), partitions[*row]));
            for way in [Grouper::by_counting, Grouper::by_comparing] {
                let mut grouper = Grouper::default();
                prop_assert!(way(&mut grouper, &partitions, &placement));
                let mut rows = vec![usize::MAX; partitions.len()];
                (0..).zip(&grouper.places).for_each(|(row, place)| rows[*place as usize] = row);
                prop_assert_eq!(&rows, &expected);
                let of_runs = |run: &Run| vec![run.partition; (run.end - run.start) as usize];
                let in_runs: Vec<u32> = grouper.runs.iter().flat_map(of_runs).collect();
                prop_assert_eq!(in_runs, expected.iter().map(|row| partitions[*row]).collect::<Vec<u32>>());
                prop_assert!(grouper.runs.iter().all(|run| run.start < run.end));
            }
        }
    }
}
