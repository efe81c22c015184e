//! Decides which partitions move, by what they have cost. The rule is slow on purpose: moves that are taken back cost more than
//! a worker that is busy for some seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_split::Placement;
use tidemill_split::rebalance::{Move, PartitionLoad, rebalance};

/// How much less the busiest worker must have to do after the moves.
const GAIN_MIN: f64 = 1.1;
/// With less to do than this part of a core, the busiest worker holds nothing up.
const BUSY_MIN: f64 = 0.1;
/// The number of consecutive decisions at which moves must pay before some are made.
const AGREED: u32 = 2;
/// The most moves of one decision.
const MOVES_MAX: usize = 16;
/// The number of decisions for which a partition stays where it has moved.
const STAYS: u64 = 10;
/// After a pause of this many times the shortest time, earlier measurements do not count.
const PAUSE: u64 = 4;

/// The workers of an operator's partitions, and whether they may move.
pub(crate) type Held<'a> = (&'a Arc<Placement>, bool);

pub(crate) struct Balancer {
    every_ns: u64,
    last_ns: Option<u64>,
    /// The part of a core that each partition of each operator takes.
    shares: Vec<Vec<f64>>,
    decisions: u64,
    agreed: u32,
    /// Up to which decision a partition stays.
    stays: BTreeMap<(usize, u32), u64>,
}

/// Moves, and what the busiest worker has to do before and after them, as a part of a core.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub moves: Vec<Move>,
    pub busiest: f64,
    pub busiest_after: f64,
}

impl Balancer {
    /// Decides at most once in this time.
    pub fn new(every: Duration) -> Balancer {
        Balancer {
            every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1),
            last_ns: None,
            shares: Vec::new(),
            decisions: 0,
            agreed: 0,
            stays: BTreeMap::new(),
        }
    }

    /// What moves now, if a decision is due and moves pay. `take_spent` gives what partitions have cost since it was last
    /// called.
    pub fn decide(
        &mut self,
        now_ns: u64,
        take_spent: impl FnOnce() -> Vec<Vec<u64>>,
        operators: &[Held<'_>],
    ) -> Option<Decided> {
        let Some(last_ns) = self.last_ns else {
            self.last_ns = Some(now_ns);
            return None;
        };
        let passed_ns = now_ns.saturating_sub(last_ns);
        if passed_ns < self.every_ns {
            return None;
        }
        self.last_ns = Some(now_ns);
        self.measured(&take_spent(), passed_ns);
        self.decisions += 1;
        self.stays.retain(|_, until| *until >= self.decisions);
        let workers = operators.first()?.0.workers();
        let rebalanced = rebalance(&self.loads(operators), workers);
        let pays =
            rebalanced.busiest >= BUSY_MIN && rebalanced.busiest >= rebalanced.busiest_after * GAIN_MIN;
        self.agreed = if pays { self.agreed + 1 } else { 0 };
        if self.agreed < AGREED {
            return None;
        }
        self.agreed = 0;
        let mut moves = rebalanced.moves;
        moves.truncate(MOVES_MAX);
        let stay = moves.iter().map(|one| ((one.operator, one.partition), self.decisions + STAYS));
        self.stays.extend(stay);
        Some(Decided { moves, busiest: rebalanced.busiest, busiest_after: rebalanced.busiest_after })
    }

    /// Half of what counts is new.
    fn measured(&mut self, spent: &[Vec<u64>], passed_ns: u64) {
        let is_first = self.shares.is_empty() || passed_ns > self.every_ns.saturating_mul(PAUSE);
        let share = |spent_ns: &u64| *spent_ns as f64 / passed_ns as f64;
        let new = spent.iter().map(|operator| operator.iter().map(share).collect::<Vec<f64>>());
        if is_first {
            self.shares = new.collect();
            return;
        }
        for (shares, new) in self.shares.iter_mut().zip(new) {
            shares.iter_mut().zip(new).for_each(|(share, new)| *share = (*share + new) / 2.0);
        }
    }

    fn loads(&self, operators: &[Held<'_>]) -> Vec<PartitionLoad> {
        let of_operator = |(operator, ((placement, can_move), shares)): (usize, (&Held<'_>, &Vec<f64>))| {
            let load = |(partition, cost): (usize, &f64)| {
                let partition = partition as u32;
                let can_move = *can_move && !self.stays.contains_key(&(operator, partition));
                PartitionLoad {
                    operator,
                    partition,
                    worker: placement.worker_of(partition),
                    cost: *cost,
                    can_move,
                }
            };
            shares.iter().enumerate().map(load).collect::<Vec<_>>()
        };
        operators.iter().zip(&self.shares).enumerate().flat_map(of_operator).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A balancer over time, with one operator.
    struct Run {
        balancer: Balancer,
        placement: Arc<Placement>,
        now_ns: u64,
        can_move: bool,
    }

    impl Run {
        fn new(partitions: u32, workers: u32) -> Run {
            let mut balancer = Balancer::new(Duration::from_secs(1));
            let placement = Arc::new(Placement::spread(partitions, workers));
            assert_eq!(balancer.decide(0, || unreachable!(), &[(&placement, true)]), None);
            Run { balancer, placement, now_ns: 0, can_move: true }
        }

        /// After another second in which partitions took these parts of a core.
        fn second(&mut self, shares: &[f64]) -> Vec<(u32, u32)> {
            self.after(SECOND, shares)
        }

        fn after(&mut self, passed_ns: u64, shares: &[f64]) -> Vec<(u32, u32)> {
            self.now_ns += passed_ns;
            let spent = || vec![shares.iter().map(|share| (share * passed_ns as f64) as u64).collect()];
            let decided = self.balancer.decide(self.now_ns, spent, &[(&self.placement, self.can_move)]);
            let moves = decided.map_or(Vec::new(), |decided| decided.moves);
            let moves: Vec<(u32, u32)> = moves.iter().map(|one| (one.partition, one.to)).collect();
            self.placement = Arc::new(self.placement.moved(moves.iter().copied()));
            moves
        }
    }

    #[test]
    fn a_load_that_stays_uneven_moves_at_the_second_decision_and_then_stays() {
        let mut run = Run::new(4, 2);
        // Partitions 0 and 2 are on worker 0.
        let uneven = [0.4, 0.0, 0.4, 0.0];
        assert_eq!(run.second(&uneven), []);
        assert_eq!(run.second(&uneven), [(0, 1)]);
        (0..50).for_each(|_| assert_eq!(run.second(&uneven), []));
    }

    #[test]
    fn a_load_that_jumps_to_and_fro_moves_nothing_often() {
        let mut run = Run::new(4, 2);
        let mut moves = 0;
        for second in 0..200 {
            // Each half of the partitions is busy for as long as a decision takes.
            let shares = if second / 2 % 2 == 0 { [0.9, 0.0, 0.9, 0.0] } else { [0.0, 0.9, 0.0, 0.9] };
            moves += run.second(&shares).len();
        }
        assert!(moves <= 20 * 4, "{moves} moves: each partition moves at most once in ten decisions");
        let mut run = Run::new(4, 2);
        // It is uneven in every other second, and even on the average.
        for second in 0..200 {
            let shares = if second % 2 == 0 { [0.45, 0.0, 0.45, 0.0] } else { [0.0, 0.45, 0.0, 0.45] };
            assert_eq!(run.second(&shares), []);
        }
    }

    #[test]
    fn little_work_small_gains_and_fixed_partitions_move_nothing() {
        let mut run = Run::new(4, 2);
        (0..5).for_each(|_| assert_eq!(run.second(&[0.04, 0.0, 0.04, 0.0]), [], "a core has time"));
        (0..5).for_each(|_| assert_eq!(run.second(&[0.5, 0.5, 0.06, 0.03]), [], "it gains little"));
        (0..5).for_each(|_| assert_eq!(run.second(&[0.9, 0.0, 0.0, 0.0]), [], "it is one partition"));
        run.can_move = false;
        (0..5).for_each(|_| assert_eq!(run.second(&[0.4, 0.0, 0.4, 0.0]), []));
    }

    #[test]
    fn what_was_measured_before_a_pause_does_not_count() {
        let mut run = Run::new(4, 2);
        assert_eq!(run.second(&[0.4, 0.0, 0.4, 0.0]), []);
        assert_eq!(run.after(1000 * SECOND, &[0.0; 4]), []);
        assert_eq!(run.second(&[0.04, 0.0, 0.04, 0.0]), []);
        assert_eq!(run.second(&[0.04, 0.0, 0.04, 0.0]), []);
    }

    #[test]
    fn only_so_many_partitions_move_at_once() {
        let mut run = Run::new(400, 2);
        let shares: Vec<f64> = (0..400).map(|partition| f64::from(1 - partition % 2) / 250.0).collect();
        assert_eq!(run.second(&shares), []);
        assert_eq!(run.second(&shares).len(), MOVES_MAX);
        assert_eq!(run.second(&shares), []);
        assert_eq!(run.second(&shares).len(), MOVES_MAX);
    }
}
