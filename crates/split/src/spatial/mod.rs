//! Routing by place: points that are close to each other go to one partition, and all partitions receive about the same
//! number.
//!
//! The regions are computed from past points (Zeitler, Paper III). A point quad splits each dimension once, at its
//! median. A k-d tree splits dimension after dimension, each part at its own median. [`AdaptiveRegions`] recomputes
//! them at intervals. All of it is a function of the points alone, without clocks or random numbers.

mod adaptive;
mod kd_tree;
mod point_quad;
mod round_robin;

pub use adaptive::{AdaptiveRegions, Method};
pub use kd_tree::{Cuts, KdTree};
pub use point_quad::PointQuad;
pub use round_robin::RoundRobin;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};

use crate::route::{OMIT, Route};

/// A division of space into regions, which are numbered from 0.
pub trait Regions: Send + Sync {
    /// The number of regions.
    fn count(&self) -> u32;

    /// The region of a point, which has as many coordinates as the points that the regions were computed from.
    fn region(&self, point: &[f64]) -> u32;

    /// Where a region lies: for each dimension, from which coordinate on and below which one. Infinite where it has no
    /// border. A region that no point can be in begins where it ends.
    fn bounds(&self, region: u32) -> Vec<(f64, f64)>;
}

/// The part of an interval on one side of a split.
fn side((low, high): (f64, f64), split: f64, is_upper: bool) -> (f64, f64) {
    match (is_upper, split.is_nan()) {
        // All points are on the lower side of it.
        (false, true) => (low, high),
        (true, true) => (high, high),
        (false, false) => (low, high.min(split).max(low)),
        (true, false) => (low.max(split).min(high), high),
    }
}

/// Routes by the region of a point whose coordinates are in these columns of 64-bit floats: region `r` of `n` goes to
/// partition `r mod partitions`. Points that lack a coordinate go nowhere.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Float64Array, RecordBatch};
/// use tidemill_split::spatial::{PointQuad, route_by_region};
/// let quad = PointQuad::from_points(&[[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]]);
/// let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as _;
/// let rows = RecordBatch::try_from_iter([("x", column(vec![1.0, 30.0])), ("y", column(vec![2.0, 2.0]))]);
/// let mut destinations = Vec::new();
/// route_by_region(quad, vec![0, 1], 4)(&rows.unwrap(), &mut destinations);
/// assert_eq!(destinations, [0, 1]);
/// ```
pub fn route_by_region(regions: impl Regions + 'static, columns: Vec<usize>, partitions: u32) -> Box<Route> {
    Box::new(move |rows: &RecordBatch, destinations: &mut Vec<u32>| {
        let columns: Vec<&ArrayRef> = columns.iter().map(|column| rows.column(*column)).collect();
        let mut point = vec![0.0; columns.len()];
        for row in 0..rows.num_rows() {
            let known = columns.iter().all(|column| column.is_valid(row));
            for (coordinate, column) in point.iter_mut().zip(&columns) {
                *coordinate = column.as_primitive::<Float64Type>().value(row);
            }
            destinations.push(if known { regions.region(&point) % partitions } else { OMIT });
        }
    })
}

/// The value below which half of the values are; for an even number of values, the upper of the two in the middle.
/// Partially sorts the values. `None` if there are no values.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Whether a coordinate is on the upper side of a split. NaN is on the lower side.
fn is_above(coordinate: f64, split: f64) -> bool {
    coordinate >= split
}
