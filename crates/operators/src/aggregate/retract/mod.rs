//! Accumulators that also take rows back.

mod count;
mod exact_sum;
mod floats;
mod ordered;
mod recomputed;
mod totals;

use arrow_array::{ArrayRef, BooleanArray};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

pub(super) use count::Counts;
pub(super) use floats::{FloatResult, Floats};
pub(super) use ordered::{Distinct, Extremes};
pub(crate) use recomputed::Recomputed;
pub(super) use totals::IntegersBack;

/// The state of an aggregate function for groups whose rows come and go.
///
/// The state of a group must be a function of the rows that are there, each as many times as the sum of its weights says, and
/// not of the order in which they came and went.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Aggregate, Sum};
///
/// let mut sum = Sum::new(&DataType::Float64).unwrap().retractable().unwrap();
/// sum.resize(1);
/// let values = Arc::new(Float64Array::from(vec![1e20, 1.0, 1e20])) as ArrayRef;
/// sum.update(&[0, 0, 0], &[1, 1, -1], &[values], None).unwrap();
/// assert_eq!(sum.evaluate(&[0]).unwrap().as_ref(), &Float64Array::from(vec![1.0]));
/// ```
pub trait Retractable: Send {
    /// Makes room for groups `0..groups`; new ones are empty.
    fn resize(&mut self, groups: usize);

    /// Whether the rows that come must be given before those that go within a cycle, because what goes without being
    /// there is ignored.
    fn needs_order(&self) -> bool {
        true
    }

    /// Adds rows: row `i` comes into group `groups[i]` `weights[i]` times, or goes if that is negative. Rows for which
    /// `filter` is false or NULL do not count. Within a cycle, the rows that come are given before those that go if
    /// [that is needed](Retractable::needs_order). Returns how many were to go that are not there, as far as the state can tell; they are ignored.
    ///
    /// # Errors
    /// If an argument has a different type than declared (a bug), or a limit is reached.
    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause>;

    /// Empties a group.
    fn reset(&mut self, group: u32);

    /// The results of these groups, one row each.
    ///
    /// # Errors
    /// If a result cannot be represented, for example a sum that is too large.
    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause>;

    /// The number of rows or values that are kept one by one.
    fn rows(&self) -> usize {
        0
    }

    /// Bytes of memory held.
    fn bytes(&self) -> usize;

    /// Writes the state of these groups.
    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter);

    /// Reads what [`snapshot`](Retractable::snapshot) wrote of this many groups, which become the groups `0..groups` of an
    /// empty accumulator.
    ///
    /// # Errors
    /// If the bytes are damaged.
    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause>;
}
