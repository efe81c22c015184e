//! Which partitions to move from busy workers to idle ones, so that the busiest has less to do.

/// A partition of an operator, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionLoad {
    /// The number of the operator.
    pub operator: usize,
    /// The number of the partition.
    pub partition: u32,
    /// The worker that holds it.
    pub worker: u32,
    /// What it costs in a time: all costs are in the same unit.
    pub cost: f64,
    /// Whether it may move.
    pub can_move: bool,
}

/// One partition that goes to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The number of the operator.
    pub operator: usize,
    /// The number of the partition.
    pub partition: u32,
    /// The worker that holds it.
    pub from: u32,
    /// The worker that shall hold it.
    pub to: u32,
}

/// Moves, and what they bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebalanced {
    /// In the order in which each of them brings most.
    pub moves: Vec<Move>,
    /// What the busiest worker has to do now.
    pub busiest: f64,
    /// What it has to do after all moves.
    pub busiest_after: f64,
}

/// The most moves that are planned ahead.
const MOVES_MAX: usize = 256;
/// A partition that costs a smaller part of its worker's work than this is not worth a move.
const SHARE_MIN: f64 = 0.001;

/// Moves partitions one by one from the busiest worker to the least busy one, as long as that helps. The one is chosen that
/// brings the two workers closest to each other. A partition that costs more than the difference of the two stays: its costs
/// would only be elsewhere. What the result is depends on the arguments alone.
///
/// ```
/// use tidemill_split::rebalance::{Move, PartitionLoad, rebalance};
/// let load = |partition, worker, cost| PartitionLoad { operator: 0, partition, worker, cost, can_move: true };
/// let rebalanced = rebalance(&[load(0, 0, 6.0), load(1, 1, 1.0), load(2, 0, 5.0), load(3, 1, 0.0)], 2);
/// assert_eq!(rebalanced.moves, [Move { operator: 0, partition: 2, from: 0, to: 1 }]);
/// assert_eq!((rebalanced.busiest, rebalanced.busiest_after), (11.0, 6.0));
/// ```
///
/// # Panics
/// If a partition is on a worker that does not exist.
pub fn rebalance(loads: &[PartitionLoad], workers: u32) -> Rebalanced {
    let mut works = vec![0.0; workers as usize];
    loads.iter().for_each(|load| works[load.worker as usize] += load.cost);
    let busiest = works.iter().copied().fold(0.0, f64::max);
    let is_candidate = |load: &&PartitionLoad| load.can_move && load.cost > busiest * SHARE_MIN;
    let mut candidates: Vec<PartitionLoad> = loads.iter().filter(is_candidate).copied().collect();
    let mut moves: Vec<Move> = Vec::new();
    while moves.len() < MOVES_MAX {
        let (from, to) = extremes(&works);
        let Some(index) = best(&candidates, from, works[from] - works[to]) else { break };
        let PartitionLoad { operator, partition, cost, .. } = candidates.swap_remove(index);
        works[from] -= cost;
        works[to] += cost;
        moves.push(Move { operator, partition, from: from as u32, to: to as u32 });
    }
    Rebalanced { moves, busiest, busiest_after: works.iter().copied().fold(0.0, f64::max) }
}

/// The busiest and the least busy worker: of several, the first.
fn extremes(works: &[f64]) -> (usize, usize) {
    let (mut most, mut least) = (0, 0);
    for (worker, work) in works.iter().enumerate() {
        most = if *work > works[most] { worker } else { most };
        least = if *work < works[least] { worker } else { least };
    }
    (most, least)
}

/// The candidate of a worker whose cost is closest to half of this difference, and less than all of it: of several, the first
/// by operator and partition.
fn best(candidates: &[PartitionLoad], worker: usize, difference: f64) -> Option<usize> {
    let fits = |load: &PartitionLoad| load.worker as usize == worker && load.cost < difference;
    let distance = |load: &PartitionLoad| (load.cost - difference / 2.0).abs();
    let rank = |load: &PartitionLoad| (load.operator, load.partition);
    let fitting = candidates.iter().enumerate().filter(|(_, load)| fits(load));
    let best = fitting
        .min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)).then_with(|| rank(a).cmp(&rank(b))));
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(partition: u32, worker: u32, cost: f64) -> PartitionLoad {
        PartitionLoad { operator: 0, partition, worker, cost, can_move: true }
    }

    #[test]
    fn one_partition_with_all_the_work_stays_and_others_leave_its_worker() {
        let alone = [load(0, 0, 8.0), load(1, 1, 0.0)];
        assert_eq!(rebalance(&alone, 2).moves, []);
        let beside = [load(0, 0, 8.0), load(2, 0, 3.0), load(4, 0, 2.0), load(1, 1, 6.0)];
        let rebalanced = rebalance(&beside, 2);
        let moved: Vec<u32> = rebalanced.moves.iter().map(|one| one.partition).collect();
        assert_eq!((moved, rebalanced.busiest_after), (vec![2], 10.0));
    }

    #[test]
    fn what_may_not_move_counts_but_stays() {
        let fixed = PartitionLoad { can_move: false, ..load(0, 0, 4.0) };
        let rebalanced = rebalance(&[fixed, load(1, 0, 5.0), load(2, 1, 1.0)], 2);
        let there_and_back = [(1, 0, 1), (2, 1, 0)];
        let moves = there_and_back.map(|(partition, from, to)| Move { operator: 0, partition, from, to });
        assert_eq!((&rebalanced.moves[..], rebalanced.busiest_after), (&moves[..], 5.0));
        assert_eq!(rebalance(&[fixed, PartitionLoad { partition: 1, ..fixed }], 2).moves, []);
    }

    #[test]
    fn there_is_nothing_to_do_without_work_or_with_one_worker() {
        assert_eq!(rebalance(&[load(0, 0, 0.0), load(1, 0, 0.0)], 2).moves, []);
        assert_eq!(rebalance(&[load(0, 0, 3.0), load(1, 0, 1.0)], 1).moves, []);
        assert_eq!(rebalance(&[], 3).moves, []);
    }

    proptest! {
        /// Added up from the moves, not taken from the function's own sums.
        #[test]
        fn the_busiest_worker_never_has_more_to_do_and_no_partition_moves_twice(
            costs in prop::collection::vec((0.0..100.0f64, 0u32..5, any::<bool>()), 0..60)
        ) {
            let of = |(partition, (cost, worker, can_move)): (usize, &(f64, u32, bool))| PartitionLoad {
                can_move: *can_move,
                ..load(partition as u32, *worker, *cost)
            };
            let loads: Vec<PartitionLoad> = costs.iter().enumerate().map(of).collect();
            let rebalanced = rebalance(&loads, 5);
            let mut worker_of: Vec<u32> = loads.iter().map(|load| load.worker).collect();
            let busiest = |worker_of: &[u32]| {
                let of_worker = |worker: u32| {
                    let own = worker_of.iter().zip(&costs).filter(|(of, _)| **of == worker);
                    own.map(|(_, (cost, ..))| cost).sum::<f64>()
                };
                (0..5).map(of_worker).fold(0.0, f64::max)
            };
            let mut before = busiest(&worker_of);
            prop_assert!((before - rebalanced.busiest).abs() < 1e-6);
            for one in &rebalanced.moves {
                prop_assert!(costs[one.partition as usize].2, "it may not move");
                prop_assert_eq!(worker_of[one.partition as usize], one.from);
                prop_assert_eq!(loads[one.partition as usize].worker, one.from, "it moves twice");
                worker_of[one.partition as usize] = one.to;
                let now = busiest(&worker_of);
                prop_assert!(now <= before + 1e-6);
                before = now;
            }
            prop_assert!((before - rebalanced.busiest_after).abs() < 1e-6);
        }
    }
}
