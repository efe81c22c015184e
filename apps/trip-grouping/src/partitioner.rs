//! Which group a request becomes part of: groups know nothing of each other, so that they can work side by side
//! (III 4.3).
//!
//! A request is a point of four dimensions: its origin and its destination. Space is divided into 16 regions, or more if
//! there are more groups, and each group has regions that are next to each other.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tidemill_engine::spatial::{AdaptiveRegions, Cuts, KdTree, Method, PointQuad, Regions, RoundRobin};
use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

use crate::request::Request;

/// The most groups.
pub const GROUPS_MAX: u32 = 1024;

/// How many regions there are at least: two to the power of the number of dimensions.
const LEVELS_MIN: u32 = 4;

/// The most recent requests that borders are computed from.
const RECENT_MAX: usize = 100_000;

/// How requests are divided into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// One group has them all: the best savings, and the slowest.
    Unpartitioned,
    /// One after the other, wherever they go: the most even, and the worst savings.
    RoundRobin,
    /// Each dimension is cut at its median of an earlier day.
    StaticPointQuad,
    /// Dimension after dimension, each part at its own median of an earlier day.
    StaticKdTree,
    /// As a point quad, from the requests of the last period, again after each period.
    AdaptivePointQuad,
    /// As a k-d tree, from the requests of the last period, again after each period.
    AdaptiveKdTree,
    /// As an adaptive k-d tree, but cut where requests are sparse (III 5).
    AdaptiveSparse,
    /// As an adaptive k-d tree, but sparse places are weighed against equal sizes (III 5).
    AdaptiveWeighed,
}

/// All of them, with the names that the paper gives them, and ours for the two that it leaves to future work.
pub const PARTITIONINGS: [(&str, Partitioning); 8] = [
    ("none", Partitioning::Unpartitioned),
    ("rr", Partitioning::RoundRobin),
    ("spq", Partitioning::StaticPointQuad),
    ("skd", Partitioning::StaticKdTree),
    ("apq", Partitioning::AdaptivePointQuad),
    ("akd", Partitioning::AdaptiveKdTree),
    ("sparse", Partitioning::AdaptiveSparse),
    ("weighed", Partitioning::AdaptiveWeighed),
];

/// How much the difference of two sides weighs, beside the density at their border.
const IMBALANCE_WEIGHT: f64 = 1.0;

/// A partitioning that does not exist, or that cannot have this many groups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartitionerError {
    /// No such name.
    #[error("there is no partitioning `{given}`; choose none, rr, spq, skd, apq, akd, sparse or weighed")]
    Name {
        /// The name asked for.
        given: String,
    },
    /// None, or too many.
    #[error("groups is {given}; choose 1 to {max}")]
    Groups {
        /// The number asked for.
        given: u32,
        /// The most that this partitioning can have.
        max: u32,
    },
    /// A static partitioning has nothing to learn from.
    #[error(
        "`{partitioning}` cuts at the medians of an earlier day, but the requests of an earlier day were not given"
    )]
    NoHistory {
        /// The partitioning asked for.
        partitioning: Partitioning,
    },
}

impl Partitioning {
    /// Whether its regions come from an earlier day.
    pub fn is_static(self) -> bool {
        matches!(self, Partitioning::StaticPointQuad | Partitioning::StaticKdTree)
    }

    /// The most groups that it can have.
    pub fn groups_max(self) -> u32 {
        match self {
            Partitioning::Unpartitioned => 1,
            Partitioning::StaticPointQuad | Partitioning::AdaptivePointQuad => 1 << LEVELS_MIN,
            _ => GROUPS_MAX,
        }
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = PARTITIONINGS.iter().find(|(_, partitioning)| partitioning == self);
        formatter.write_str(named.map_or("?", |(name, _)| name))
    }
}

impl FromStr for Partitioning {
    type Err = PartitionerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = PARTITIONINGS.iter().find(|(name, _)| *name == text);
        named.map(|(_, partitioning)| *partitioning).ok_or(PartitionerError::Name { given: text.to_owned() })
    }
}

/// What to divide, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionerPlan {
    partitioning: Partitioning,
    groups: u32,
    period: i64,
    history: i64,
    /// The borders of a static partitioning.
    splits: Vec<f64>,
}

impl PartitionerPlan {
    /// Groups for a partitioning, which adapts after each `period`, in the unit of the requests' times. A static one
    /// learns from the requests of an earlier day; the others need none.
    ///
    /// # Errors
    /// If it cannot have this many groups, or has nothing to learn from.
    pub fn new(
        partitioning: Partitioning,
        groups: u32,
        period: i64,
        history: &[Request],
    ) -> Result<Self, PartitionerError> {
        let max = partitioning.groups_max();
        if !(1..=max).contains(&groups) {
            return Err(PartitionerError::Groups { given: groups, max });
        }
        if partitioning.is_static() && history.is_empty() {
            return Err(PartitionerError::NoHistory { partitioning });
        }
        let points: Vec<[f64; 4]> = history.iter().map(point_of).collect();
        let splits = match partitioning {
            Partitioning::StaticPointQuad => PointQuad::from_points(&points).splits().to_vec(),
            Partitioning::StaticKdTree => {
                KdTree::from_points(&points, levels(groups), Cuts::Median).splits().to_vec()
            }
            _ => Vec::new(),
        };
        Ok(PartitionerPlan { partitioning, groups, period, history: period, splits })
    }

    /// Adaptive borders are computed from the requests of this time before, instead of the period: a longer one has more
    /// requests, so that borders move less; a shorter one follows faster.
    ///
    /// ```
    /// use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};
    /// let plan = PartitionerPlan::new(Partitioning::AdaptiveKdTree, 16, 600, &[])?.with_history(3600);
    /// assert_eq!(plan.groups(), 16);
    /// # Ok::<(), tidemill_trip_grouping::partitioner::PartitionerError>(())
    /// ```
    #[must_use]
    pub fn with_history(self, history: i64) -> Self {
        PartitionerPlan { history, ..self }
    }

    /// How many groups there are.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// A partitioner that has seen no request yet.
    pub fn start(&self) -> Partitioner {
        let adaptive = |method| {
            Regioning::Adaptive(Box::new(AdaptiveRegions::new(method, self.history, self.period, RECENT_MAX)))
        };
        let tree = |cuts| Method::KdTree { levels: levels(self.groups), cuts };
        let regioning = match self.partitioning {
            Partitioning::Unpartitioned => Regioning::Turns(RoundRobin::new(1)),
            Partitioning::RoundRobin => Regioning::Turns(RoundRobin::new(self.groups)),
            Partitioning::StaticPointQuad => {
                Regioning::Static(Box::new(PointQuad::from_splits(&self.splits)))
            }
            Partitioning::StaticKdTree => {
                // The splits are those of a tree.
                let tree = KdTree::from_splits(DIMENSIONS, &self.splits);
                tree.map_or(Regioning::Turns(RoundRobin::new(1)), |tree| Regioning::Static(Box::new(tree)))
            }
            Partitioning::AdaptivePointQuad => adaptive(Method::PointQuad),
            Partitioning::AdaptiveKdTree => adaptive(tree(Cuts::Median)),
            Partitioning::AdaptiveSparse => adaptive(tree(Cuts::Weighed { imbalance: 0.0 })),
            Partitioning::AdaptiveWeighed => adaptive(tree(Cuts::Weighed { imbalance: IMBALANCE_WEIGHT })),
        };
        let is_point_quad =
            matches!(self.partitioning, Partitioning::StaticPointQuad | Partitioning::AdaptivePointQuad);
        Partitioner { groups: self.groups, is_point_quad, turn: 0, regioning }
    }
}

/// A request is a point of four dimensions.
pub const DIMENSIONS: usize = 4;

fn point_of(request: &Request) -> [f64; DIMENSIONS] {
    [request.origin.x_m, request.origin.y_m, request.destination.x_m, request.destination.y_m]
}

/// Levels of a tree with a region for each group.
fn levels(groups: u32) -> u32 {
    groups.next_power_of_two().ilog2().max(LEVELS_MIN)
}

enum Regioning {
    Turns(RoundRobin),
    Static(Box<dyn Regions>),
    Adaptive(Box<AdaptiveRegions>),
}

/// Assigns requests to groups, in the order of their times.
///
/// ```
/// use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};
/// use tidemill_trip_grouping::request::{Place, Request};
///
/// let mut turns = PartitionerPlan::new(Partitioning::RoundRobin, 2, 600, &[])?.start();
/// let place = Place::default();
/// let request = Request { id: 1, requested: 0, expires: 600, origin: place, destination: place };
/// assert_eq!([turns.group(&request), turns.group(&request), turns.group(&request)], [0, 1, 0]);
/// # Ok::<(), tidemill_trip_grouping::partitioner::PartitionerError>(())
/// ```
pub struct Partitioner {
    groups: u32,
    is_point_quad: bool,
    /// How many requests came, modulo the number of groups.
    turn: u32,
    regioning: Regioning,
}

/// The version of the state's bytes.
const VERSION: u8 = 1;

impl Partitioner {
    /// The group of the next request. Later borders do not move it.
    pub fn group(&mut self, request: &Request) -> u32 {
        let (region, count) = match &mut self.regioning {
            Regioning::Turns(turns) => {
                self.turn = (self.turn + 1) % self.groups;
                return turns.next_region();
            }
            Regioning::Static(regions) => (regions.region(&point_of(request)), regions.count()),
            Regioning::Adaptive(regions) => {
                (regions.region(request.requested, &point_of(request)), regions.count())
            }
        };
        // A point quad has the first dimension in the lowest bit, a tree in the highest. Regions that are on the same
        // side of the first cuts are next to each other.
        let region = if self.is_point_quad && count > 1 {
            region.reverse_bits() >> (u32::BITS - count.ilog2())
        } else {
            region
        };
        (u64::from(region) * u64::from(self.groups) / u64::from(count)) as u32
    }

    /// Where the regions lie now: for each of them from where to where each dimension goes, in the order origin x, origin y,
    /// destination x, destination y. Without regions there are none.
    pub fn bounds(&self) -> Vec<[(f64, f64); DIMENSIONS]> {
        let bounds: Vec<Vec<(f64, f64)>> = match &self.regioning {
            Regioning::Turns(_) => Vec::new(),
            Regioning::Static(regions) => (0..regions.count()).map(|region| regions.bounds(region)).collect(),
            Regioning::Adaptive(regions) => {
                (0..regions.count()).map(|region| regions.bounds(region)).collect()
            }
        };
        // Regions that were computed from no points have no dimensions.
        bounds.into_iter().filter_map(|bounds| bounds.try_into().ok()).collect()
    }

    /// Writes the state.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        writer.u32(self.turn);
        if let Regioning::Adaptive(regions) = &self.regioning {
            regions.snapshot(writer);
        }
    }

    /// Reads what [`snapshot`](Self::snapshot) wrote into a fresh partitioner of the same plan.
    ///
    /// # Errors
    /// If the bytes are of another version, or end early.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.turn = reader.u32()? % self.groups;
        match &mut self.regioning {
            Regioning::Turns(turns) => {
                *turns = RoundRobin::new(self.groups);
                (0..self.turn).for_each(|_| {
                    turns.next_region();
                });
                Ok(())
            }
            Regioning::Static(_) => Ok(()),
            Regioning::Adaptive(regions) => regions.restore(reader),
        }
    }
}
