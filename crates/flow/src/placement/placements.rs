//! Where the partitions of a running query are: in the cycle that is cut, and which have moved.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_split::Placement;
use tidemill_split::rebalance::Move;
use tracing::{debug, info};

use super::balancer::{Balancer, Held};
use super::partition_costs::PartitionCosts;
use super::rebalancing::Rebalancing;
use crate::topology::Topology;

/// The workers of each operator's partitions in a cycle.
pub(crate) type CyclePlacements = Arc<[Arc<Placement>]>;

/// A partition that has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMove {
    /// The operator.
    pub operator: String,
    /// The number of its partition.
    pub partition: u32,
    /// The worker that held it.
    pub from: u32,
    /// The worker that holds it.
    pub to: u32,
    /// The first cycle in which that one works on it.
    pub first_cycle: u64,
}

/// The most moves that are kept.
const MOVES_KEPT_MAX: usize = 256;
/// The most partitions that move at random at once.
const RANDOM_MOVES_MAX: u64 = 3;

pub(crate) struct Placements {
    pub costs: PartitionCosts,
    state: Mutex<State>,
}

struct State {
    placements: CyclePlacements,
    /// For each operator, whether its partitions may move.
    can_move: Vec<bool>,
    rule: Rule,
    /// What moves at the next cut.
    proposed: Moves,
    moved: VecDeque<PartitionMove>,
}

/// For operators and partitions, the worker that shall hold them.
type Moves = BTreeMap<(usize, u32), u32>;

enum Rule {
    Off,
    Measured(Balancer),
    Random { random: u64, every_cycles: u64, cycles: u64 },
}

impl Placements {
    /// Nothing moves.
    pub fn new(topology: &Topology) -> Placements {
        let state = State {
            placements: topology.placements.clone().into(),
            can_move: topology
                .plan
                .operators
                .iter()
                .map(|operator| operator.stream_process.is_none())
                .collect(),
            rule: Rule::Off,
            proposed: Moves::new(),
            moved: VecDeque::new(),
        };
        Placements { costs: PartitionCosts::unmeasured(), state: Mutex::new(state) }
    }

    /// Partitions move like this. Call it before the first cycle.
    pub fn follow(&mut self, rebalancing: &Rebalancing, topology: &Topology) {
        let rule = match rebalancing {
            _ if !can_move(topology) => Rule::Off,
            Rebalancing::Off => Rule::Off,
            Rebalancing::Measured { every } => Rule::Measured(Balancer::new(*every)),
            Rebalancing::Random { seed, every_cycles } => {
                Rule::Random { random: *seed, every_cycles: (*every_cycles).max(1), cycles: 0 }
            }
        };
        if matches!(rule, Rule::Measured(_)) {
            self.costs =
                PartitionCosts::of(topology.plan.operators.iter().map(|operator| operator.partitions));
        }
        self.state.lock().rule = rule;
    }

    /// Moves a partition at the next cut.
    ///
    /// # Errors
    /// Why it cannot move.
    pub fn propose(
        &self,
        operator: &str,
        partition: u32,
        worker: u32,
        topology: &Topology,
    ) -> Result<(), String> {
        let index = topology.plan.operators.iter().position(|planned| planned.name == operator);
        let Some(index) = index else { return Err("the plan has no such operator".into()) };
        let (partitions, workers) = (topology.plan.operators[index].partitions, topology.workers);
        if partition >= partitions {
            return Err(format!("it has {partitions} partitions; choose 0 to {}", partitions - 1));
        }
        if worker >= workers {
            return Err(format!("the query has {workers} workers; choose 0 to {}", workers - 1));
        }
        if topology.layout.processes > 1 {
            return Err("a query over several processes keeps its partitions where they are; run it in one \
                        process to move them"
                .into());
        }
        let mut state = self.state.lock();
        if !state.can_move[index] {
            return Err(
                "it belongs to a stream process, which has its place; remove the place to move it".into()
            );
        }
        state.proposed.insert((index, partition), worker);
        Ok(())
    }

    /// The stored moves, oldest first.
    pub fn moved(&self) -> Vec<PartitionMove> {
        self.state.lock().moved.iter().cloned().collect()
    }

    /// How partitions are placed in a cycle that is being cut, and how many have moved.
    pub fn at_cut(&self, cycle: u64, now_ns: u64, topology: &Topology) -> (CyclePlacements, u64) {
        let mut state = self.state.lock();
        let mut moves = std::mem::take(&mut state.proposed);
        let decided = state.by_rule(cycle, now_ns, &self.costs);
        moves.extend(decided.into_iter().map(|one| ((one.operator, one.partition), one.to)));
        let moved = state.apply(&moves, cycle, topology);
        (Arc::clone(&state.placements), moved)
    }
}

/// Whether there is somewhere to move to. State does not move between processes.
fn can_move(topology: &Topology) -> bool {
    topology.workers > 1 && topology.layout.processes == 1
}

impl State {
    fn by_rule(&mut self, cycle: u64, now_ns: u64, costs: &PartitionCosts) -> Vec<Move> {
        match &mut self.rule {
            Rule::Off => Vec::new(),
            Rule::Measured(balancer) => {
                let held: Vec<Held<'_>> = self.placements.iter().zip(self.can_move.iter().copied()).collect();
                let Some(decided) = balancer.decide(now_ns, || costs.take(), &held) else {
                    return Vec::new();
                };
                let (busiest, busiest_after) = (decided.busiest, decided.busiest_after);
                let partitions = decided.moves.len();
                info!(cycle, partitions, busiest, busiest_after, "partitions leave the busiest workers");
                decided.moves
            }
            Rule::Random { random, every_cycles, cycles } => {
                *cycles += 1;
                if !cycles.is_multiple_of(*every_cycles) {
                    return Vec::new();
                }
                random_moves(random, &self.placements, &self.can_move)
            }
        }
    }

    fn apply(&mut self, moves: &Moves, first_cycle: u64, topology: &Topology) -> u64 {
        let mut placements = self.placements.to_vec();
        let mut count = 0;
        for ((operator, partition), to) in moves.iter().map(|(moved, to)| (*moved, *to)) {
            let from = placements[operator].worker_of(partition);
            if from == to {
                continue;
            }
            placements[operator] = Arc::new(placements[operator].moved([(partition, to)]));
            let name = topology.plan.operators[operator].name.clone();
            debug!(cycle = first_cycle, operator = name, partition, from, to, "a partition moves");
            if self.moved.len() == MOVES_KEPT_MAX {
                self.moved.pop_front();
            }
            self.moved.push_back(PartitionMove { operator: name, partition, from, to, first_cycle });
            count += 1;
        }
        if count > 0 {
            self.placements = placements.into();
        }
        count
    }
}

/// Some partitions to some workers; with one worker, or no operator that may move, none.
fn random_moves(random: &mut u64, placements: &[Arc<Placement>], can_move: &[bool]) -> Vec<Move> {
    let movable: Vec<usize> = (0..placements.len()).filter(|operator| can_move[*operator]).collect();
    if movable.is_empty() {
        return Vec::new();
    }
    let mut below = |end: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % end
    };
    let count = 1 + below(RANDOM_MOVES_MAX);
    let mut one = || {
        let operator = movable[below(movable.len() as u64) as usize];
        let placement = &placements[operator];
        let partition = below(u64::from(placement.partitions())) as u32;
        let to = below(u64::from(placement.workers())) as u32;
        Move { operator, partition, from: placement.worker_of(partition), to }
    };
    (0..count).map(|_| one()).collect()
}
