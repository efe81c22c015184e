//! Grouping: computes where each row goes so that the rows of one partition, and the partitions of one worker, are
//! adjacent.

use tidemill_core::Run;

use crate::order::{self, Sorter};
use crate::placement::Placement;
use crate::route::{BROADCAST, OMIT};

/// Where the rows of a batch go, computed by [`Grouper`].
#[derive(Debug, Default)]
pub struct Destinations {
    /// The place of each row. A row that goes nowhere has the place after all others. Empty if most rows go nowhere:
    /// then only the copies below exist.
    pub of_rows: Vec<u32>,
    /// Rows that go to additional places, ascending.
    pub copied_rows: Vec<u32>,
    /// One place for each of those rows.
    pub of_copies: Vec<u32>,
    /// The number of places.
    pub count: u32,
    /// The places of each partition that has rows, in the order of (worker, partition).
    pub runs: Vec<Run>,
}

/// Computes places, and keeps the memory needed for that.
#[derive(Debug, Default)]
pub struct Grouper {
    places: Destinations,
    /// For each partition first the number of its rows, then its next free place.
    next: Vec<u32>,
    /// For each row its partition.
    ranks: Vec<u32>,
    sorter: Sorter,
}

impl Grouper {
    /// Computes the place of each row; rows of one partition keep their order. Returns `false`, and does nothing more,
    /// if some row is for no existing partition.
    ///
    /// ```
    /// use tidemill_core::Run;
    /// use tidemill_split::{Placement, group::Grouper};
    /// // Partitions 0 and 2 are on worker 0, partition 1 on worker 1.
    /// let placement = Placement::spread(3, 2);
    /// let mut grouper = Grouper::default();
    /// assert!(grouper.group(&[2, 1, 1, 2], &placement));
    /// assert_eq!(grouper.places().of_rows, [0, 2, 3, 1]);
    /// let (first, second) = (Run { partition: 2, start: 0, end: 2 }, Run { partition: 1, start: 2, end: 4 });
    /// assert_eq!(grouper.places().runs, [first, second]);
    /// assert!(!grouper.group(&[3], &placement));
    /// ```
    pub fn group(&mut self, partitions: &[u32], placement: &Placement) -> bool {
        self.clear();
        if is_sparse(partitions, placement) {
            let exist = partitions.iter().all(|partition| *partition < placement.partitions());
            if exist {
                self.by_sorting(partitions, placement);
            }
            return exist;
        }
        let none = self.count(partitions, placement);
        if none > 0 {
            return false;
        }
        self.make_runs(placement, 0);
        let next = &mut self.next[..];
        self.places.of_rows.extend(partitions.iter().map(|partition| place(next, *partition)));
        true
    }

    /// The same for rows that may be broadcast or go nowhere. Each run of rows is broadcast to the partitions `p` for
    /// which `p mod nodes` is the run's number.
    ///
    /// # Panics
    /// If a row is for a partition that does not exist, which is a bug of the caller.
    ///
    /// ```
    /// use tidemill_core::Run;
    /// use tidemill_split::{BROADCAST, OMIT, Placement, group::Grouper};
    /// let (placement, all) = (Placement::spread(3, 1), Run { partition: 0, start: 0, end: 3 });
    /// let mut grouper = Grouper::default();
    /// grouper.group_copies(&[1, OMIT, BROADCAST], &[all], 1, &placement);
    /// let places = grouper.places();
    /// assert_eq!((places.count, &places.of_rows[..]), (4, &[1, 4, 0][..]));
    /// assert_eq!((&places.copied_rows[..], &places.of_copies[..]), (&[2, 2][..], &[2, 3][..]));
    /// ```
    pub fn group_copies(&mut self, destinations: &[u32], runs: &[Run], nodes: u32, placement: &Placement) {
        self.clear();
        let number_of = |wanted| destinations.iter().filter(|destination| **destination == wanted).count();
        let (broadcast, omitted) = (number_of(BROADCAST), number_of(OMIT));
        if broadcast == 0 && is_sparse(destinations, placement) {
            return self.by_sorting(destinations, placement);
        }
        self.count(destinations, placement);
        if broadcast > 0 {
            self.count_copies(destinations, runs, nodes, placement.partitions());
        }
        self.make_runs(placement, 0);
        let only_copies = omitted > destinations.len() / 2;
        for run in runs {
            let outputs = || (run.partition..placement.partitions()).step_by(nodes as usize);
            let end = run.end as usize;
            let mut row = run.start as usize;
            while row < end {
                if !only_copies {
                    row += self.place_routed(&destinations[row..end]);
                }
                match destinations[..end].get(row) {
                    None => break,
                    Some(&OMIT) if only_copies => {}
                    Some(&OMIT) => self.places.of_rows.push(self.places.count),
                    Some(&BROADCAST) => self.add_copies(row as u32, outputs(), only_copies),
                    Some(&partition) => self.add_copies(row as u32, partition..partition + 1, only_copies),
                }
                row += 1;
            }
        }
    }

    /// The same if broadcast rows are shared: they get the first places, and each other row one behind them. Returns the
    /// number of shared rows.
    ///
    /// # Panics
    /// If a row is for a partition that does not exist, which is a bug of the caller.
    ///
    /// ```
    /// use tidemill_core::Run;
    /// use tidemill_split::{BROADCAST, OMIT, Placement, group::Grouper};
    /// let mut grouper = Grouper::default();
    /// let shared = grouper.group_shared(&[1, OMIT, BROADCAST, 0], &Placement::spread(3, 1));
    /// assert_eq!((shared, &grouper.places().of_rows[..]), (1, &[2, 3, 0, 1][..]));
    /// let run = |partition: u32, start| Run { partition, start, end: start + 1 };
    /// assert_eq!(grouper.places().runs, [run(0, 1), run(1, 2)]);
    /// ```
    pub fn group_shared(&mut self, destinations: &[u32], placement: &Placement) -> u32 {
        self.clear();
        let shared = destinations.iter().filter(|destination| **destination == BROADCAST).count() as u32;
        self.count(destinations, placement);
        self.make_runs(placement, shared);
        let (next, omitted) = (&mut self.next[..], self.places.count);
        let mut next_shared = 0;
        self.places.of_rows.extend(destinations.iter().map(|destination| match *destination {
            OMIT => omitted,
            BROADCAST => {
                next_shared += 1;
                next_shared - 1
            }
            partition => place(next, partition),
        }));
        shared
    }

    /// Assigns places to the leading rows that are each for one partition; returns how many they are.
    fn place_routed(&mut self, destinations: &[u32]) -> usize {
        let is_special = |destination: &u32| matches!(*destination, BROADCAST | OMIT);
        let count = destinations.iter().position(is_special).unwrap_or(destinations.len());
        let next = &mut self.next[..];
        self.places.of_rows.extend(destinations[..count].iter().map(|partition| place(next, *partition)));
        count
    }

    /// The places computed last.
    pub fn places(&self) -> &Destinations {
        &self.places
    }

    fn clear(&mut self) {
        let Destinations { of_rows, copied_rows, of_copies, count, runs } = &mut self.places;
        [of_rows, copied_rows, of_copies].into_iter().for_each(Vec::clear);
        runs.clear();
        *count = 0;
    }

    /// Counts the rows of each partition; returns how many rows are for none.
    fn count(&mut self, partitions: &[u32], placement: &Placement) -> u32 {
        let none = placement.partitions() as usize;
        self.next.clear();
        self.next.resize(none + 1, 0);
        let next = &mut self.next[..];
        // Counted with the others, because a test for each row would cost more.
        partitions.iter().for_each(|partition| next[(*partition as usize).min(none)] += 1);
        next[none]
    }

    fn count_copies(&mut self, destinations: &[u32], runs: &[Run], nodes: u32, partitions: u32) {
        for run in runs {
            let rows = &destinations[run.start as usize..run.end as usize];
            let copies = rows.iter().filter(|destination| **destination == BROADCAST).count() as u32;
            for partition in (run.partition..partitions).step_by(nodes as usize) {
                self.next[partition as usize] += copies;
            }
        }
    }

    /// Turns counts into first places, from this one on.
    fn make_runs(&mut self, placement: &Placement, mut start: u32) {
        for partition in placement.in_order() {
            let rows = std::mem::replace(&mut self.next[*partition as usize], start);
            if rows > 0 {
                self.places.runs.push(Run { partition: *partition, start, end: start + rows });
                start += rows;
            }
        }
        self.places.count = start;
    }

    /// Assigns a row a place in each of these partitions. The first is its own place, unless only copies have places.
    fn add_copies(&mut self, row: u32, partitions: impl Iterator<Item = u32>, only_copies: bool) {
        let Destinations { of_rows, copied_rows, of_copies, .. } = &mut self.places;
        let next = &mut self.next[..];
        let mut places = partitions.map(|partition| place(next, partition));
        if !only_copies {
            of_rows.extend(places.next());
        }
        of_copies.extend(places);
        copied_rows.resize(of_copies.len(), row);
    }

    /// Visits only partitions that have rows.
    fn by_sorting(&mut self, partitions: &[u32], placement: &Placement) {
        let ranks = placement.ranks();
        let rank = |partition: &u32| if *partition == OMIT { u32::MAX } else { ranks[*partition as usize] };
        self.ranks.clear();
        self.ranks.extend(partitions.iter().map(rank));
        let order = self.sorter.sort(&self.ranks, ranks.len());
        let places = &mut self.places;
        places.count = order.len() as u32;
        places.of_rows.resize(partitions.len(), places.count);
        for (place, row) in (0..).zip(order) {
            let row = *row as usize;
            places.of_rows[row] = place;
            match places.runs.last_mut() {
                Some(run) if run.partition == partitions[row] => run.end = place + 1,
                _ => places.runs.push(Run { partition: partitions[row], start: place, end: place + 1 }),
            }
        }
    }
}

fn is_sparse(rows: &[u32], placement: &Placement) -> bool {
    order::is_sparse(rows.len(), placement.partitions() as usize)
}

/// Takes the next free place of a partition.
#[inline(always)]
fn place(next: &mut [u32], partition: u32) -> u32 {
    let next = &mut next[partition as usize];
    *next += 1;
    *next - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rows of each partition that is on a worker, ordered by worker and partition.
    fn naive(destinations: &[u32], placement: &Placement) -> Vec<(u32, u32, Vec<u32>)> {
        let is_for = |partition, to: u32| to == partition || to == BROADCAST;
        let rows = |partition| {
            let rows = (0..).zip(destinations).filter(|(_, to)| is_for(partition, **to));
            rows.map(|(row, _)| row).collect::<Vec<u32>>()
        };
        let mut expected: Vec<_> =
            (0..placement.partitions()).map(|p| (placement.worker_of(p), p, rows(p))).collect();
        expected.retain(|(.., rows)| !rows.is_empty());
        expected.sort();
        expected
    }

    fn found(places: &Destinations, placement: &Placement) -> Vec<(u32, u32, Vec<u32>)> {
        let mut row_at = vec![u32::MAX; places.count as usize];
        let own = (0..).zip(&places.of_rows).filter(|(_, place)| **place < places.count);
        let copies = places.copied_rows.iter().copied().zip(&places.of_copies);
        for (row, place) in own.chain(copies) {
            assert_eq!(std::mem::replace(&mut row_at[*place as usize], row), u32::MAX, "a place taken twice");
        }
        let rows = |run: &Run| row_at[run.start as usize..run.end as usize].to_vec();
        let group = |run: &Run| (placement.worker_of(run.partition), run.partition, rows(run));
        places.runs.iter().map(group).collect()
    }

    fn destinations() -> impl Strategy<Value = Vec<u32>> {
        (0..=5u32, 0..=5u32).prop_flat_map(|(broadcast, omitted)| {
            let to = prop_oneof![4 => 0..40u32, broadcast => Just(BROADCAST), omitted * 4 => Just(OMIT)];
            prop::collection::vec(to, 0..60)
        })
    }

    proptest! {
        #[test]
        fn rows_are_placed_as_a_naive_one_places_them(
            to in destinations(), worker_of in prop::collection::vec(0..3u32, 40)
        ) {
            let placement = Placement::new(3, worker_of);
            let expected = naive(&to, &placement);
            let mut grouper = Grouper::default();
            let is_one = |to: &u32| *to < 40;
            prop_assert_eq!(grouper.group(&to, &placement), to.iter().all(is_one));
            if to.iter().all(is_one) {
                prop_assert_eq!(&found(grouper.places(), &placement), &expected);
            }
            let all = Run { partition: 0, start: 0, end: to.len() as u32 };
            grouper.group_copies(&to, &[all], 1, &placement);
            prop_assert_eq!(&found(grouper.places(), &placement), &expected);
            if !to.contains(&BROADCAST) {
                grouper.clear();
                grouper.by_sorting(&to, &placement);
                prop_assert_eq!(&found(grouper.places(), &placement), &expected);
            }
        }
    }
}
