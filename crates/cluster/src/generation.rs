//! Generations: a fixed set of members that works until somebody joins, leaves or dies.

use std::collections::BTreeSet;

use crate::members::NodeId;
use crate::placement::Placement;

/// The number of a generation. Each has one more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationNumber(pub u64);

/// A generation, as the coordinator records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number: the token that all its work carries.
    pub number: GenerationNumber,
    /// Who closes cycles.
    pub leader: NodeId,
    /// Who computes.
    pub members: BTreeSet<NodeId>,
    /// Who holds which partition.
    pub placement: Placement,
    /// How many cycles are committed where it begins: it begins with the cycle of this number.
    pub first_cycle: u64,
}

impl Generation {
    /// Returns the first generation of a cluster; `None` without members.
    pub fn first(members: BTreeSet<NodeId>, partitions: usize) -> Option<Generation> {
        let none = Placement::default();
        Generation::with(GenerationNumber(1), members, None, &none, partitions, 0)
    }

    /// Returns the generation that follows this one: it begins at the last committed cut, and moves as few partitions as an even
    /// placement allows. The leader stays if it is still a member. `None` without members.
    pub fn next(&self, members: BTreeSet<NodeId>, committed_cycles: u64) -> Option<Generation> {
        let number = GenerationNumber(self.number.0 + 1);
        let partitions = self.placement.partitions();
        let leader = Some(self.leader).filter(|leader| members.contains(leader));
        Generation::with(number, members, leader, &self.placement, partitions, committed_cycles)
    }

    fn with(
        number: GenerationNumber,
        members: BTreeSet<NodeId>,
        leader: Option<NodeId>,
        before: &Placement,
        partitions: usize,
        first_cycle: u64,
    ) -> Option<Generation> {
        let sorted: Vec<NodeId> = members.iter().copied().collect();
        let leader = leader.or_else(|| sorted.first().copied())?;
        let placement = before.next(partitions, &sorted);
        Some(Generation { number, leader, members, placement, first_cycle })
    }
}

/// Why a generation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nobody wants it to end.
    Not,
    /// Somebody joins or leaves: no cycle from this number on is closed, and those before it are finished.
    AtCut(u64),
    /// A member died: what is not committed will be computed again by the next generation.
    AtOnce,
}

/// Follows one generation from its first cycle to its end, for its leader.
///
/// ```
/// use tidemill_cluster::generation::GenerationRun;
/// use tidemill_cluster::members::NodeId;
///
/// let mut run = GenerationRun::new([NodeId(1), NodeId(2)].into(), 10);
/// assert_eq!(run.close_cycle(), Some(10));
/// run.join(NodeId(3));
/// // The cycle that is under way is finished first, and no other begins.
/// assert_eq!(run.close_cycle(), None);
/// assert!(!run.has_ended());
/// run.committed(11);
/// assert!(run.has_ended());
/// assert_eq!(run.next_members(), [NodeId(1), NodeId(2), NodeId(3)].into());
/// ```
#[derive(Clone, Debug)]
pub struct GenerationRun {
    members: BTreeSet<NodeId>,
    joining: BTreeSet<NodeId>,
    gone: BTreeSet<NodeId>,
    closed_cycles: u64,
    committed_cycles: u64,
    ending: Ending,
}

impl GenerationRun {
    /// Begins with the cycle `first_cycle`.
    pub fn new(members: BTreeSet<NodeId>, first_cycle: u64) -> GenerationRun {
        let (joining, gone) = (BTreeSet::new(), BTreeSet::new());
        let (closed_cycles, committed_cycles) = (first_cycle, first_cycle);
        GenerationRun { members, joining, gone, closed_cycles, committed_cycles, ending: Ending::Not }
    }

    /// Closes a cycle and returns its number; `None` if the generation is about to end.
    pub fn close_cycle(&mut self) -> Option<u64> {
        if self.ending != Ending::Not {
            return None;
        }
        self.closed_cycles += 1;
        Some(self.closed_cycles - 1)
    }

    /// Reports that the cycles below this number are committed. A number that is not closed, or lower than before, counts for
    /// nothing.
    pub fn committed(&mut self, cycles: u64) {
        if cycles <= self.closed_cycles {
            self.committed_cycles = self.committed_cycles.max(cycles);
        }
    }

    /// Lets a node be a member of the next generation. It must be able to take its share by then.
    pub fn join(&mut self, node: NodeId) {
        self.gone.remove(&node);
        if !self.members.contains(&node) && self.joining.insert(node) {
            self.end_at_cut();
        }
    }

    /// Lets a member go, which works until the end of this generation.
    pub fn leave(&mut self, node: NodeId) {
        self.joining.remove(&node);
        if self.members.contains(&node) && self.gone.insert(node) {
            self.end_at_cut();
        }
    }

    /// Reports the death of a node. That of a member ends the generation at once.
    pub fn died(&mut self, node: NodeId) {
        self.joining.remove(&node);
        if self.members.contains(&node) {
            self.gone.insert(node);
            self.ending = Ending::AtOnce;
        }
    }

    fn end_at_cut(&mut self) {
        if self.ending == Ending::Not {
            self.ending = Ending::AtCut(self.closed_cycles);
        }
    }

    /// Returns whether the next generation can begin, with the cycle [`GenerationRun::committed_cycles`].
    pub fn has_ended(&self) -> bool {
        match self.ending {
            Ending::Not => false,
            Ending::AtCut(cycle) => self.committed_cycles >= cycle,
            Ending::AtOnce => true,
        }
    }

    /// Returns how many cycles are committed.
    pub fn committed_cycles(&self) -> u64 {
        self.committed_cycles
    }

    /// Returns the members of the next generation.
    pub fn next_members(&self) -> BTreeSet<NodeId> {
        self.members.union(&self.joining).copied().filter(|node| !self.gone.contains(node)).collect()
    }
}
