//! Splits dimension after dimension, each part at its own median or in a sparse place near it.

use super::{Regions, is_above, median, side};

/// Where a part is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cuts {
    /// At its median: both sides get the same number of points.
    Median,
    /// In the widest gap between points that leaves each side at least this share of them, at most one half. Then few
    /// points are near a cut, where they would be separated from their neighbours. 0.5 is the median.
    Sparse {
        /// The smallest share of the points that a side gets.
        least: f64,
    },
    /// Where few points are near the cut, weighed against how unequal the sides are. The density of points around a cut
    /// counts relative to that of the middle half of them, and the difference of the sides as a part of all points, times
    /// `imbalance`. With 0 only the density counts, and the larger it is, the closer the cut is to the median. A side
    /// gets at least an eighth of the points.
    Weighed {
        /// The weight of the difference.
        imbalance: f64,
    },
}

/// A k-d tree of `2^levels` regions, with splits in heap order (the root is 0, below `i` are `2i + 1` and `2i + 2`).
#[derive(Clone, Debug, PartialEq)]
pub struct KdTree {
    dimensions: usize,
    levels: u32,
    splits: Vec<f64>,
}

/// Four billion regions are more than there are partitions.
const LEVELS_MAX: u32 = 16;

impl KdTree {
    /// From past points, which all have the same number of coordinates. The dimensions are split in turn, on this many
    /// levels, at most 16. Without points there is one region.
    ///
    /// ```
    /// use tidemill_split::spatial::{Cuts, KdTree, Regions};
    /// let tree = KdTree::from_points(&[[0.0, 0.0], [0.0, 9.0], [5.0, 20.0], [5.0, 30.0]], 2, Cuts::Median);
    /// let regions = [[0.0, 0.0], [0.0, 9.0], [5.0, 20.0], [5.0, 30.0]].map(|point| tree.region(&point));
    /// assert_eq!(regions, [0, 1, 2, 3]);
    /// ```
    pub fn from_points<P: AsRef<[f64]>>(points: &[P], levels: u32, cuts: Cuts) -> Self {
        let dimensions = points.first().map_or(0, |point| point.as_ref().len());
        let levels = if dimensions == 0 { 0 } else { levels.min(LEVELS_MAX) };
        let mut splits = vec![f64::NAN; (1 << levels) - 1];
        let mut points: Vec<&[f64]> = points.iter().map(AsRef::as_ref).collect();
        split_part(&mut points, 0, 0, levels, cuts, &mut splits);
        KdTree { dimensions, levels, splits }
    }
}

impl KdTree {
    /// From the splits of this many dimensions in heap order, with complete levels; `None` if the number of splits does
    /// not match.
    ///
    /// ```
    /// use tidemill_split::spatial::{Cuts, KdTree};
    /// let tree = KdTree::from_points(&[[0.0, 0.0], [0.0, 9.0], [5.0, 20.0], [5.0, 30.0]], 2, Cuts::Median);
    /// assert_eq!(KdTree::from_splits(2, tree.splits()).unwrap().splits(), [5.0, 9.0, 30.0]);
    /// assert!(KdTree::from_splits(2, &[5.0, 9.0]).is_none());
    /// ```
    pub fn from_splits(dimensions: usize, splits: &[f64]) -> Option<Self> {
        let regions = splits.len() + 1;
        let levels = regions.ilog2();
        let is_whole = regions.is_power_of_two() && levels <= LEVELS_MAX && (dimensions > 0 || levels == 0);
        is_whole.then(|| KdTree { dimensions, levels, splits: splits.to_vec() })
    }

    /// Its splits: what [`from_splits`](Self::from_splits) takes.
    pub fn splits(&self) -> &[f64] {
        &self.splits
    }
}

/// Splits the points of a node on a level, and its children.
fn split_part(points: &mut [&[f64]], node: usize, level: u32, levels: u32, cuts: Cuts, splits: &mut [f64]) {
    if level == levels || points.is_empty() {
        return;
    }
    let dimension = level as usize % points[0].len();
    // Their values alone are sorted, and where only a median is asked for, not even those.
    let mut values: Vec<f64> = points.iter().map(|point| point[dimension]).collect();
    let split = match cuts {
        Cuts::Median => median(&mut values),
        Cuts::Sparse { least } => {
            values.sort_unstable_by(f64::total_cmp);
            sparsest(&values, least)
        }
        Cuts::Weighed { imbalance } => {
            values.sort_unstable_by(f64::total_cmp);
            best_weighed(&values, imbalance)
        }
    };
    let split = split.unwrap_or(f64::NAN);
    splits[node] = split;
    points.sort_unstable_by_key(|point| is_above(point[dimension], split));
    let lower = points.partition_point(|point| !is_above(point[dimension], split));
    let (below, above) = points.split_at_mut(lower);
    split_part(below, 2 * node + 1, level + 1, levels, cuts, splits);
    split_part(above, 2 * node + 2, level + 1, levels, cuts, splits);
}

/// The middle of the widest gap between ascending values that leaves enough of them on each side; of equally wide gaps,
/// the one nearest to the median.
fn sparsest(values: &[f64], least: f64) -> Option<f64> {
    let middle = values.len() / 2;
    let median = *values.get(middle)?;
    let margin = ((values.len() as f64 * least.clamp(0.0, 0.5)).ceil() as usize).clamp(1, middle.max(1));
    // A cut at `i` has the values before `i` on its lower side.
    let cut_at = |i: usize| (values[i] - values[i - 1], usize::MAX - middle.abs_diff(i), i);
    let wider = |a: &(f64, usize, usize), b: &(f64, usize, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let cuts = (margin..=values.len() - margin).filter(|i| *i < values.len()).map(cut_at);
    let widest = cuts.filter(|(gap, ..)| *gap > 0.0).max_by(wider);
    Some(widest.map_or(median, |(.., i)| between(values, i)))
}

/// The middle between a value and the one before it.
fn between(values: &[f64], i: usize) -> f64 {
    let middle = values[i - 1] + (values[i] - values[i - 1]) / 2.0;
    // Rounding may put it on the lower value itself, or nowhere at all.
    if middle > values[i - 1] && middle < values[i] { middle } else { values[i] }
}

/// The cut of the lowest sum of density and weighed imbalance; of equal ones, the one nearest to the median.
fn best_weighed(values: &[f64], imbalance: f64) -> Option<f64> {
    let count = values.len();
    let middle = count / 2;
    let median = *values.get(middle)?;
    // The density around a cut is that of a sixteenth of the points: single gaps are accidents.
    let reach = (count / 32).max(1);
    let usual = (values[count * 3 / 4] - values[count / 4]) * (2 * reach) as f64 / (count as f64 / 2.0);
    let score = |i: usize| {
        let width = values[(i + reach).min(count - 1)] - values[i.saturating_sub(reach)];
        let difference = (2.0 * i as f64 / count as f64 - 1.0).abs();
        usual / width + imbalance * difference
    };
    let cuts = ((count / 8).max(1)..=count - count / 8).filter(|i| *i < count && values[*i] > values[*i - 1]);
    let scored = cuts.map(|i| (score(i), middle.abs_diff(i), i)).filter(|(score, ..)| score.is_finite());
    let best = scored.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Some(best.map_or(median, |(.., i)| between(values, i)))
}

impl Regions for KdTree {
    fn count(&self) -> u32 {
        1 << self.levels
    }

    fn region(&self, point: &[f64]) -> u32 {
        let mut node = 0;
        for level in 0..self.levels as usize {
            let coordinate = point.get(level % self.dimensions).copied().unwrap_or(f64::NAN);
            node = 2 * node + 1 + usize::from(is_above(coordinate, self.splits[node]));
        }
        (node - self.splits.len()) as u32
    }

    fn bounds(&self, region: u32) -> Vec<(f64, f64)> {
        let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); self.dimensions];
        let mut node = 0;
        for level in 0..self.levels {
            let is_upper = region >> (self.levels - 1 - level) & 1 == 1;
            let bound = &mut bounds[level as usize % self.dimensions];
            *bound = side(*bound, self.splits[node], is_upper);
            node = 2 * node + 1 + usize::from(is_upper);
        }
        bounds
    }
}
