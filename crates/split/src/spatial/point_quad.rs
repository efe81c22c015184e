//! Splits each dimension once, at its median.

use super::{Regions, is_above, median, side};

/// Regions on both sides of the median of each dimension: `2^k` of them in `k` dimensions. They get the same number of
/// points only if the dimensions are independent.
#[derive(Clone, Debug, PartialEq)]
pub struct PointQuad {
    splits: Vec<f64>,
}

/// Region numbers have 32 bits.
const DIMENSIONS_MAX: usize = 31;

impl PointQuad {
    /// From past points, which all have the same number of coordinates, at most 31. Without points there is one region.
    ///
    /// ```
    /// use tidemill_split::spatial::{PointQuad, Regions};
    /// let quad = PointQuad::from_points(&[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]);
    /// assert_eq!(quad.count(), 4);
    /// assert_eq!(quad.region(&[9.0, 0.0]), 1);
    /// assert_eq!(quad.region(&[0.0, 9.0]), 2);
    /// ```
    pub fn from_points<P: AsRef<[f64]>>(points: &[P]) -> Self {
        let dimensions = points.first().map_or(0, |point| point.as_ref().len());
        let split = |dimension: usize| {
            let mut values: Vec<f64> = points.iter().map(|point| point.as_ref()[dimension]).collect();
            median(&mut values)
        };
        PointQuad { splits: (0..dimensions.min(DIMENSIONS_MAX)).filter_map(split).collect() }
    }
}

impl PointQuad {
    /// From the split of each dimension.
    pub fn from_splits(splits: &[f64]) -> Self {
        PointQuad { splits: splits.iter().copied().take(DIMENSIONS_MAX).collect() }
    }

    /// Where each dimension is split: what [`from_splits`](Self::from_splits) takes.
    pub fn splits(&self) -> &[f64] {
        &self.splits
    }
}

impl Regions for PointQuad {
    fn count(&self) -> u32 {
        1 << self.splits.len()
    }

    fn region(&self, point: &[f64]) -> u32 {
        let sides = self.splits.iter().zip(point).enumerate();
        sides.fold(0, |region, (dimension, (split, coordinate))| {
            region | u32::from(is_above(*coordinate, *split)) << dimension
        })
    }

    fn bounds(&self, region: u32) -> Vec<(f64, f64)> {
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let splits = self.splits.iter().enumerate();
        splits.map(|(dimension, split)| side(all, *split, region >> dimension & 1 == 1)).collect()
    }
}
