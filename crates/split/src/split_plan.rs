//! How a stream is split, as data: the shape of the split and its parameters.

use std::fmt;

use thiserror::Error;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use crate::cost::{Proportions, exptree, maxtree, nodes_of_level};

/// The splitters, and how they are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One splitter.
    Fsplit,
    /// A tree of splitters with these fan-outs, starting at the root.
    Tree {
        /// How many outputs a splitter of each level has.
        fan_outs: Vec<u32>,
    },
    /// This many splitters, to which whole windows are dealt, and each of which leads to all partitions.
    Lattice {
        /// Their number: `p`.
        splitters: u32,
        /// How many window routers stand between the first one and the splitters; 1: the first one deals to all
        /// splitters. More make a tree of window routers with two levels, in which each leads to a share of the splitters.
        routers: u32,
    },
}

/// The split of an operator's input. The results do not depend on it.
///
/// ```
/// use tidemill_split::SplitPlan;
/// let plan = SplitPlan::exptree(64);
/// assert_eq!(plan.to_string(), "tree of fan-outs 2, 4, 8 to 64 partitions");
/// assert_eq!(SplitPlan::from_bytes(&plan.to_bytes()).unwrap(), plan);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// The splitters.
    pub shape: Shape,
    /// The partitions that it leads to: `q`.
    pub partitions: u32,
    /// The most rows that are handed to a splitter at once: `W` divided by the bytes of a row.
    pub window_rows: u32,
}

/// A split plan that cannot run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SplitPlanError {
    /// Something is zero.
    #[error(
        "a split plan needs at least 1 partition, 1 splitter, 1 output of each splitter and 1 row in a window"
    )]
    Zero,
    /// The tree has too few leaves.
    #[error("a tree of fan-outs {fan_outs:?} has {leaves} leaves, but there are {partitions} partitions")]
    TooFewLeaves {
        /// The fan-outs.
        fan_outs: Vec<u32>,
        /// Their product.
        leaves: u64,
        /// The partitions.
        partitions: u32,
    },
    /// A window router would lead nowhere.
    #[error(
        "a lattice with {routers} window routers for {splitters} splitters: take at most as many routers as splitters"
    )]
    TooManyRouters {
        /// The window routers of the second level.
        routers: u32,
        /// The splitters.
        splitters: u32,
    },
    /// It was made for a different number of partitions.
    #[error("the split plan is for {planned} partitions, but the operator has {partitions}")]
    OtherPartitions {
        /// The plan's partitions.
        planned: u32,
        /// The operator's.
        partitions: u32,
    },
}

/// The default number of rows in a window: with 64 bytes each, half of a second-level cache.
const WINDOW_ROWS: u32 = 8192;
/// The version of a plan's bytes.
const VERSION: u8 = 1;
/// The most levels of a tree. With a fan-out of 2 each, it has more leaves than there are numbers of partitions.
const LEVELS_MAX: usize = 32;

impl SplitPlan {
    /// One splitter.
    pub fn fsplit(partitions: u32) -> Self {
        SplitPlan { shape: Shape::Fsplit, partitions, window_rows: WINDOW_ROWS }
    }

    /// A tree with fan-outs 2, 4, 8, ...
    pub fn exptree(partitions: u32) -> Self {
        let shape = Shape::Tree { fan_outs: exptree(partitions) };
        SplitPlan { shape, ..SplitPlan::fsplit(partitions) }
    }

    /// The tree with the best fan-outs for these proportions; `consume_ratio` as in [`maxtree`].
    pub fn maxtree(partitions: u32, parts: Proportions, consume_ratio: f64) -> Self {
        let shape = Shape::Tree { fan_outs: maxtree(partitions, parts, consume_ratio) };
        SplitPlan { shape, ..SplitPlan::fsplit(partitions) }
    }

    /// [`exptree`](Self::exptree) if rows are broadcast, otherwise [`fsplit`](Self::fsplit).
    pub fn autosplit(partitions: u32, has_broadcast: bool) -> Self {
        if has_broadcast { SplitPlan::exptree(partitions) } else { SplitPlan::fsplit(partitions) }
    }

    /// A lattice with this many splitters.
    pub fn parasplit(partitions: u32, splitters: u32) -> Self {
        SplitPlan { shape: Shape::Lattice { splitters, routers: 1 }, ..SplitPlan::fsplit(partitions) }
    }

    /// A lattice whose windows pass a tree of window routers with two levels, each with a fan-out of `sqrt(p)`: the
    /// papers' *PR tree*.
    ///
    /// ```
    /// use tidemill_split::SplitPlan;
    /// let plan = SplitPlan::parasplit_tree(512, 55);
    /// assert_eq!(plan.to_string(), "lattice of 55 splitters behind 8 window routers to 512 partitions");
    /// assert_eq!((plan.levels(), SplitPlan::parasplit(512, 55).levels()), (2, 1));
    /// ```
    pub fn parasplit_tree(partitions: u32, splitters: u32) -> Self {
        let routers = f64::from(splitters).sqrt().ceil() as u32;
        SplitPlan { shape: Shape::Lattice { splitters, routers }, ..SplitPlan::fsplit(partitions) }
    }

    /// The same plan with another window size.
    #[must_use]
    pub fn with_window_rows(mut self, rows: u32) -> Self {
        self.window_rows = rows;
        self
    }

    /// Whether it is the same plan, but perhaps for the size of the window.
    ///
    /// ```
    /// use tidemill_split::SplitPlan;
    /// let plan = SplitPlan::parasplit(64, 2);
    /// assert!(plan.differs_by_window(&plan.clone().with_window_rows(512)));
    /// assert!(!plan.differs_by_window(&SplitPlan::parasplit(64, 3)));
    /// ```
    pub fn differs_by_window(&self, other: &SplitPlan) -> bool {
        self.shape == other.shape && self.partitions == other.partitions
    }

    /// The number of splitters that share the input: more than 1 only in a lattice.
    pub fn splitters(&self) -> u32 {
        match self.shape {
            Shape::Lattice { splitters, .. } => splitters,
            Shape::Fsplit | Shape::Tree { .. } => 1,
        }
    }

    /// The number of window routers behind the first one, each of which leads to a share of the splitters; 1 if the
    /// first one deals to all splitters.
    pub fn routers(&self) -> u32 {
        match self.shape {
            Shape::Lattice { routers, .. } => routers,
            Shape::Fsplit | Shape::Tree { .. } => 1,
        }
    }

    /// The number of levels behind the first window router: those of splitters and, in a tree of window routers, the
    /// second level of routers.
    pub fn levels(&self) -> usize {
        self.levels_of_routers() + self.fan_outs().len()
    }

    /// How many of the levels pass on windows rather than split them: the first one of a tree of window routers, else
    /// none.
    pub fn levels_of_routers(&self) -> usize {
        usize::from(self.routers() > 1)
    }

    /// The fan-out of each level of splitters. Other shapes count as a one-level tree.
    pub fn fan_outs(&self) -> Vec<u32> {
        match &self.shape {
            Shape::Tree { fan_outs } => fan_outs.clone(),
            Shape::Fsplit | Shape::Lattice { .. } => vec![self.partitions],
        }
    }

    /// Whether it needs separate splitters with this many workers. If there is a splitter for every worker, each worker
    /// can split what it has, without sending it anywhere first.
    pub fn needs_splitters(&self, workers: u32) -> bool {
        self.fan_outs().len() > 1 || self.splitters() < workers
    }

    /// The window router of the second level that leads to a splitter.
    pub fn router_of_splitter(&self, splitter: u32) -> u32 {
        splitter % self.routers().max(1)
    }

    /// The processes of a level, from 1.
    pub fn processes_of_level(&self, level: usize) -> u32 {
        match (&self.shape, self.levels_of_routers()) {
            (Shape::Lattice { routers, .. }, 1) if level == 1 => *routers,
            (Shape::Lattice { splitters, .. }, _) => *splitters,
            _ => nodes_of_level(&self.fan_outs(), level, self.partitions),
        }
    }

    /// The worker of a process of a level, from 1: workers are assigned in turn, level after level.
    ///
    /// ```
    /// let tree = tidemill_split::SplitPlan::exptree(8);
    /// let worker_of = |(level, node)| tree.worker_of(level, node, 2);
    /// assert_eq!([(1, 0), (2, 0), (2, 1)].map(worker_of), [0, 1, 0]);
    /// ```
    pub fn worker_of(&self, level: usize, process: u32, workers: u32) -> u32 {
        let before: u64 = (1..level).map(|level| u64::from(self.processes_of_level(level))).sum();
        ((before + u64::from(process)) % u64::from(workers.max(1))) as u32
    }

    /// Checks that the plan can run for an operator with this many partitions.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self, partitions: u32) -> Result<(), SplitPlanError> {
        let fan_outs = self.fan_outs();
        let (splitters, routers) = (self.splitters(), self.routers());
        let numbers = [self.partitions, self.window_rows, splitters, routers, fan_outs.len() as u32];
        if numbers.iter().chain(&fan_outs).any(|number| *number == 0) {
            return Err(SplitPlanError::Zero);
        }
        if routers > splitters {
            return Err(SplitPlanError::TooManyRouters { routers, splitters });
        }
        let leaves = fan_outs.iter().fold(1u64, |leaves, fan_out| leaves.saturating_mul(u64::from(*fan_out)));
        if leaves < u64::from(self.partitions) {
            return Err(SplitPlanError::TooFewLeaves { fan_outs, leaves, partitions: self.partitions });
        }
        if self.partitions != partitions {
            return Err(SplitPlanError::OtherPartitions { planned: self.partitions, partitions });
        }
        Ok(())
    }

    /// The plan as bytes, to be stored or sent: version first, checksum last.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        writer.u8(VERSION);
        writer.u32(self.partitions);
        writer.u32(self.window_rows);
        match &self.shape {
            Shape::Fsplit => writer.u8(0),
            Shape::Tree { fan_outs } => {
                writer.u8(1);
                writer.u32(fan_outs.len() as u32);
                fan_outs.iter().for_each(|fan_out| writer.u32(*fan_out));
            }
            Shape::Lattice { splitters, routers: 1 } => {
                writer.u8(2);
                writer.u32(*splitters);
            }
            Shape::Lattice { splitters, routers } => {
                writer.u8(3);
                writer.u32(*splitters);
                writer.u32(*routers);
            }
        }
        writer.finish()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// If the bytes are damaged or of another version, or the plan cannot run.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Cause> {
        let mut reader = SnapshotReader::new(bytes)?;
        let damaged = |what: &str| {
            Cause::operation(format!("a stored split plan cannot be used: {what}; plan the query again"))
        };
        if reader.u8()? != VERSION {
            return Err(damaged("this program does not know its version"));
        }
        let (partitions, window_rows) = (reader.u32()?, reader.u32()?);
        let shape = match reader.u8()? {
            0 => Shape::Fsplit,
            1 => {
                let levels = reader.u32()? as usize;
                if levels > LEVELS_MAX {
                    return Err(damaged("it has too many levels"));
                }
                Shape::Tree { fan_outs: (0..levels).map(|_| reader.u32()).collect::<Result<_, _>>()? }
            }
            2 => Shape::Lattice { splitters: reader.u32()?, routers: 1 },
            3 => Shape::Lattice { splitters: reader.u32()?, routers: reader.u32()? },
            _ => return Err(damaged("its shape is unknown")),
        };
        let plan = SplitPlan { shape, partitions, window_rows };
        plan.validate(partitions).map_err(|error| damaged(&format!("{error}")))?;
        if reader.is_empty() { Ok(plan) } else { Err(damaged("it has bytes after its end")) }
    }
}

impl fmt::Display for SplitPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Fsplit => write!(f, "1 splitter")?,
            Shape::Tree { fan_outs } => {
                let fan_outs: Vec<String> = fan_outs.iter().map(u32::to_string).collect();
                write!(f, "tree of fan-outs {}", fan_outs.join(", "))?;
            }
            Shape::Lattice { splitters: 1, .. } => write!(f, "lattice of 1 splitter")?,
            Shape::Lattice { splitters, .. } => write!(f, "lattice of {splitters} splitters")?,
        }
        if self.routers() > 1 {
            write!(f, " behind {} window routers", self.routers())?;
        }
        write!(f, " to {} partition{}", self.partitions, if self.partitions == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::error::Fault;

    use super::*;

    fn plans() -> Vec<SplitPlan> {
        let parts = Proportions::broadcast_part(0.1).unwrap();
        vec![
            SplitPlan::fsplit(3),
            SplitPlan::exptree(9),
            SplitPlan::maxtree(418, parts, 1.0),
            SplitPlan::parasplit(512, 4).with_window_rows(1),
            SplitPlan::parasplit_tree(512, 17),
        ]
    }

    #[test]
    fn plans_survive_their_bytes_and_damaged_bytes_are_errors() {
        for plan in plans() {
            let bytes = plan.to_bytes();
            assert_eq!(SplitPlan::from_bytes(&bytes).unwrap(), plan);
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1;
                assert!(SplitPlan::from_bytes(&damaged).is_err());
                assert!(SplitPlan::from_bytes(&bytes[..place]).is_err());
            }
        }
        let mut other = SnapshotWriter::default();
        other.u8(VERSION + 1);
        assert!(matches!(SplitPlan::from_bytes(&other.finish()), Err(Cause { fault: Fault::Operation, .. })));
    }

    #[test]
    fn plans_that_cannot_run_are_refused() {
        assert!(plans().iter().all(|plan| plan.validate(plan.partitions).is_ok()));
        let other = SplitPlanError::OtherPartitions { planned: 3, partitions: 4 };
        assert_eq!(SplitPlan::fsplit(3).validate(4), Err(other));
        assert_eq!(SplitPlan::parasplit(3, 0).validate(3), Err(SplitPlanError::Zero));
        assert_eq!(SplitPlan::fsplit(3).with_window_rows(0).validate(3), Err(SplitPlanError::Zero));
        let tree = |fan_outs| SplitPlan { shape: Shape::Tree { fan_outs }, ..SplitPlan::fsplit(9) };
        assert_eq!(tree(vec![]).validate(9), Err(SplitPlanError::Zero));
        assert!(matches!(tree(vec![2, 4]).validate(9), Err(SplitPlanError::TooFewLeaves { leaves: 8, .. })));
        assert_eq!(tree(vec![2, u32::MAX, u32::MAX]).validate(9), Ok(()));
        let lattice =
            |routers| SplitPlan { shape: Shape::Lattice { splitters: 3, routers }, ..SplitPlan::fsplit(9) };
        assert_eq!(lattice(0).validate(9), Err(SplitPlanError::Zero));
        assert_eq!(lattice(3).validate(9), Ok(()));
        let many = SplitPlanError::TooManyRouters { routers: 4, splitters: 3 };
        assert_eq!(lattice(4).validate(9), Err(many));
        assert!(SplitPlan::from_bytes(&lattice(4).to_bytes()).is_err());
        // Reading refuses them too.
        assert!(SplitPlan::from_bytes(&tree(vec![2, 4]).to_bytes()).is_err());
    }

    #[test]
    fn a_tree_of_window_routers_has_the_root_of_the_splitters_and_one_of_them_has_its_share() {
        for splitters in 1..200 {
            let plan = SplitPlan::parasplit_tree(64, splitters);
            let routers = plan.routers();
            assert!((routers - 1).pow(2) < splitters && splitters <= routers.pow(2), "{plan}");
            assert_eq!(plan.validate(64), Ok(()));
            let mut shares = vec![0; routers as usize];
            (0..splitters).for_each(|splitter| shares[plan.router_of_splitter(splitter) as usize] += 1);
            assert!(shares.iter().all(|share| (1..=routers).contains(share)), "{plan}: {shares:?}");
        }
        // Two routers on workers 0 and 1, then four splitters.
        let plan = SplitPlan::parasplit_tree(64, 4);
        let workers: Vec<u32> = (0..4).map(|splitter| plan.worker_of(2, splitter, 5)).collect();
        assert_eq!((plan.worker_of(1, 1, 5), workers), (1, vec![2, 3, 4, 0]));
    }

    #[test]
    fn autosplit_needs_a_tree_only_to_broadcast() {
        assert_eq!(SplitPlan::autosplit(8, false), SplitPlan::fsplit(8));
        assert_eq!(SplitPlan::autosplit(8, true).fan_outs(), [2, 4]);
    }
}
