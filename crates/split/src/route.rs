//! Routing functions: a partition for every row.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use thiserror::Error;

/// The destination of a row that goes nowhere.
pub const OMIT: u32 = u32::MAX;

/// A routing function sent a row to a partition that does not exist.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the routing function sent row {row} to partition {destination}, but there are only {partitions}; the row is {values}"
)]
pub struct RouteError {
    /// The row's number in its batch.
    pub row: usize,
    /// Where it was sent.
    pub destination: u32,
    /// How many partitions there are.
    pub partitions: u32,
    /// The row, readable.
    pub values: String,
}

/// Computes the partition of each row of a batch, or [`OMIT`]. Must be a pure function of the row.
pub type Route = dyn Fn(&RecordBatch, &mut Vec<u32>) + Send + Sync;

/// Routes by `key % partitions` on an unsigned integer column.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{RecordBatch, UInt16Array, types::UInt16Type};
/// let route = tidemill_split::route_by_key::<UInt16Type>(0, 4);
/// let rows = RecordBatch::try_from_iter([("xway", Arc::new(UInt16Array::from(vec![1, 6])) as _)]).unwrap();
/// let mut destinations = Vec::new();
/// route(&rows, &mut destinations);
/// assert_eq!(destinations, [1, 2]);
/// ```
pub fn route_by_key<T>(column: usize, partitions: u32) -> Box<Route>
where
    T: ArrowPrimitiveType,
    T::Native: Into<u64>,
{
    Box::new(move |rows, destinations| {
        let keys = rows.column(column).as_primitive::<T>().values();
        let partitions = u64::from(partitions);
        destinations.extend(keys.iter().map(|key| {
            let key: u64 = (*key).into();
            // A division costs more than the rest; keys below the number of partitions need none.
            if key < partitions { key as u32 } else { (key % partitions) as u32 }
        }));
    })
}

/// Checks that all destinations exist.
pub(crate) fn check(destinations: &[u32], partitions: u32, rows: &RecordBatch) -> Result<(), RouteError> {
    let valid = |destination: u32| destination < partitions || destination == OMIT;
    let all_valid = destinations.iter().fold(true, |all, destination| all & valid(*destination));
    if all_valid && destinations.len() == rows.num_rows() {
        return Ok(());
    }
    let row = destinations.iter().position(|destination| !valid(*destination)).unwrap_or(destinations.len());
    let destination = destinations.get(row).copied().unwrap_or(OMIT);
    let values = match row < rows.num_rows() {
        true => format!("{:?}", rows.slice(row, 1).columns()),
        false => "missing: the function returned too few destinations".to_string(),
    };
    Err(RouteError { row, destination, partitions, values })
}
