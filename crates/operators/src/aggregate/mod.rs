//! Aggregate functions: they turn the rows of a group into one value, for all groups of a batch at once.
//!
//! A function ([`Aggregate`]) describes its result and makes [`Accumulator`]s. An accumulator keeps the state of all
//! groups in arrays, indexed by the dense group ids of [`Groups`](crate::Groups), and is called once per batch. Its
//! state travels (into snapshots, the panes of a hopping window, rows combined before the split) as *partial results*:
//! columns with one row per group.

mod average;
mod count;
mod count_distinct;
mod extreme;
mod extreme_of_bytes;
mod retract;
mod selection;
mod spec;
mod sum;
mod totals;
mod variance;

use std::fmt::Debug;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType;
use tidemill_core::Cause;

pub use average::Average;
pub use count::Count;
pub use count_distinct::CountDistinct;
pub use extreme::Extreme;
pub(crate) use retract::Recomputed;
pub use retract::Retractable;
pub use spec::{AggregateCall, AggregateSpec};
pub use sum::Sum;
pub use variance::{Spread, Variance};

/// An aggregate function with known argument types.
pub trait Aggregate: Send + Sync + Debug {
    /// Its name in errors and plans, such as `sum` or `count(*)`.
    fn name(&self) -> &str;

    /// The type of its results.
    fn result_type(&self) -> DataType;

    /// The types of the columns of a partial result.
    fn partial_types(&self) -> Vec<DataType>;

    /// How many of the last columns of a partial result did not exist in older versions. Older state is read with NULL
    /// in their place.
    fn partials_added(&self) -> usize {
        0
    }

    /// Whether merging partial results in any grouping and order gives bit-identical results: true for integers and
    /// extremes, false for sums of floating-point numbers.
    fn is_exact(&self) -> bool;

    /// An accumulator without groups.
    fn accumulator(&self) -> Box<dyn Accumulator>;

    /// An accumulator without groups that also takes rows back; `None` if there is none. Over rows that change, a
    /// function without one is recomputed from all rows of each group that has changed.
    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        None
    }
}

/// The state of an aggregate function for the groups `0..n`.
///
/// The state of a group must be a function of its rows and merged partial results in their order, and must not depend
/// on how they were divided among calls. A partial result merged into a group without rows must give exactly the state
/// that it was taken from.
pub trait Accumulator: Send {
    /// Makes room for groups `0..groups`; new ones are empty. Never called with fewer groups than before,
    /// except after [`clear`](Accumulator::clear).
    fn resize(&mut self, groups: usize);

    /// Adds rows: row `i` belongs to group `groups[i]`, below the number of the last
    /// [`resize`](Accumulator::resize). Rows for which `filter` is false or NULL do not count.
    ///
    /// # Errors
    /// If an argument has a different type than declared (a bug), or a limit is reached. An error ends the query. So if
    /// only the values of a row are at fault, store that in the state of their group and return an error from
    /// [`evaluate`](Accumulator::evaluate).
    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause>;

    /// Adds partial results: row `i` of the columns belongs to group `groups[i]`.
    ///
    /// # Errors
    /// As for [`update`](Accumulator::update).
    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause>;

    /// The partial results of these groups, one row each.
    ///
    /// # Errors
    /// If they cannot be represented.
    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause>;

    /// The results of these groups, one row each. It changes nothing: more rows may follow.
    ///
    /// # Errors
    /// If a result cannot be represented, for example a sum that is too large.
    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause>;

    /// Removes all groups and keeps the memory for the next ones.
    fn clear(&mut self);

    /// Bytes of memory held.
    fn bytes(&self) -> usize;
}

/// An argument or partial result has a different type than the function was made for.
pub(crate) fn wrong_type(function: &str, expected: &str, given: Option<&ArrayRef>) -> Cause {
    let given = given.map_or("nothing".to_owned(), |column| column.data_type().to_string());
    Cause::bug(format!("{function} was created for a column of {expected}, but got {given}"))
}

/// There is no function of this name for this type.
pub(crate) fn not_defined(function: &str, data_type: &DataType, remedy: &str) -> Cause {
    Cause::user(format!("{function} is not defined for {data_type}; {remedy}"))
}
