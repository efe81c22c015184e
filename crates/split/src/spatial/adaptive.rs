//! Regions that follow the points: they are recomputed from the recent past at intervals.

use std::collections::VecDeque;

use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::{Cuts, KdTree, PointQuad, Regions};

/// How regions are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// A [`PointQuad`].
    PointQuad,
    /// A [`KdTree`] with this many levels.
    KdTree {
        /// Levels of splits.
        levels: u32,
        /// Where the cuts are.
        cuts: Cuts,
    },
}

impl Method {
    /// The regions computed from past points.
    pub fn regions(&self, points: &[&[f64]]) -> Box<dyn Regions> {
        match *self {
            Method::PointQuad => Box::new(PointQuad::from_points(points)),
            Method::KdTree { levels, cuts } => Box::new(KdTree::from_points(points, levels, cuts)),
        }
    }
}

/// Regions that are recomputed at intervals of event time from recent points. A point is assigned its region once, when
/// it comes; later regions do not move it. Before the first recomputation all points are in region 0.
///
/// It has state, so use it in an operator in front of the split that writes the region into a column. Points must come
/// in the order of event time, with any number of workers.
///
/// ```
/// use tidemill_split::spatial::{AdaptiveRegions, Method};
/// let mut regions = AdaptiveRegions::new(Method::PointQuad, 600, 600, 1000);
/// assert_eq!(regions.region(0, &[1.0]), 0);
/// assert_eq!(regions.region(1, &[3.0]), 0);
/// // After ten minutes, the median of what came is 3.
/// assert_eq!(regions.region(600, &[4.0]), 1);
/// assert_eq!(regions.region(601, &[2.0]), 0);
/// ```
pub struct AdaptiveRegions {
    method: Method,
    history: i64,
    every: i64,
    points_max: usize,
    /// Event time and coordinates, oldest first, of the last `history`, but at most `points_max`.
    recent: VecDeque<(i64, Vec<f64>)>,
    /// The points that the current regions are computed from.
    basis: Vec<Vec<f64>>,
    regions: Box<dyn Regions>,
    next_renewal: Option<i64>,
}

/// The version of the state's bytes.
const VERSION: u8 = 1;

impl AdaptiveRegions {
    /// Uses the points of the last `history`, recomputed after each `every`, both in the unit of the event times. If
    /// there are more than `points_max` recent points, the newest count.
    pub fn new(method: Method, history: i64, every: i64, points_max: usize) -> Self {
        let (recent, basis, regions) = (VecDeque::new(), Vec::new(), method.regions(&[]));
        let (every, points_max) = (every.max(1), points_max.max(1));
        AdaptiveRegions { method, history, every, points_max, recent, basis, regions, next_renewal: None }
    }

    /// The region of a point that comes now.
    pub fn region(&mut self, time: i64, point: &[f64]) -> u32 {
        let next_renewal = *self.next_renewal.get_or_insert(time.saturating_add(self.every));
        if time >= next_renewal {
            self.renew(time);
            // Renewals keep their rhythm, however long nothing came.
            let missed = (time - next_renewal) / self.every;
            self.next_renewal = Some(next_renewal.saturating_add((missed + 1).saturating_mul(self.every)));
        }
        if self.recent.len() == self.points_max {
            self.recent.pop_front();
        }
        self.recent.push_back((time, point.to_vec()));
        self.regions.region(point)
    }

    /// How many regions there are now.
    pub fn count(&self) -> u32 {
        self.regions.count()
    }

    /// Where a region lies now, as [`Regions::bounds`].
    pub fn bounds(&self, region: u32) -> Vec<(f64, f64)> {
        self.regions.bounds(region)
    }

    fn renew(&mut self, time: i64) {
        let oldest = time.saturating_sub(self.history);
        while self.recent.front().is_some_and(|(time, _)| *time < oldest) {
            self.recent.pop_front();
        }
        // Nothing can be learned from no points: the regions stay.
        if !self.recent.is_empty() {
            self.basis = self.recent.iter().map(|(_, point)| point.clone()).collect();
            self.make_regions();
        }
    }

    fn make_regions(&mut self) {
        let points: Vec<&[f64]> = self.basis.iter().map(Vec::as_slice).collect();
        self.regions = self.method.regions(&points);
    }

    /// Writes the state: the recent points, and those that the regions were computed from.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        writer.u8(u8::from(self.next_renewal.is_some()));
        writer.i64(self.next_renewal.unwrap_or(0));
        writer.u64(self.recent.len() as u64);
        for (time, point) in &self.recent {
            writer.i64(*time);
            write_point(writer, point);
        }
        writer.u64(self.basis.len() as u64);
        self.basis.iter().for_each(|point| write_point(writer, point));
    }

    /// Reads what [`snapshot`](Self::snapshot) wrote.
    ///
    /// # Errors
    /// If the bytes are of another version, or end early.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let has_renewal = reader.u8()? != 0;
        self.next_renewal = Some(reader.i64()?).filter(|_| has_renewal);
        self.recent.clear();
        for _ in 0..reader.u64()? {
            let time = reader.i64()?;
            self.recent.push_back((time, read_point(reader)?));
        }
        self.basis = (0..reader.u64()?).map(|_| read_point(reader)).collect::<Result<_, _>>()?;
        self.make_regions();
        Ok(())
    }
}

fn write_point(writer: &mut SnapshotWriter, point: &[f64]) {
    writer.u8(point.len() as u8);
    point.iter().for_each(|coordinate| writer.u64(coordinate.to_bits()));
}

fn read_point(reader: &mut SnapshotReader<'_>) -> Result<Vec<f64>, Cause> {
    (0..reader.u8()?).map(|_| Ok(f64::from_bits(reader.u64()?))).collect()
}
