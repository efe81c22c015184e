//! Routing functions, which compute a partition for every row.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use thiserror::Error;

/// The destination of a row that goes nowhere.
pub const OMIT: u32 = u32::MAX;

/// The destination of a row that every partition receives a copy of.
pub const BROADCAST: u32 = u32::MAX - 1;

/// The destination of a row whose routing value cannot be the number of a partition, for example because it is
/// negative.
const NO_NUMBER: u32 = u32::MAX - 2;

/// A routing function is wrong.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RouteError {
    /// It sent a row to a partition that does not exist.
    #[error(
        "the routing function sent row {row} to {}, but there are only {partitions}; the row is {values}",
        match *destination { NO_NUMBER => "no partition".into(), number => format!("partition {number}") }
    )]
    NoSuchPartition {
        /// The row's number in its batch.
        row: usize,
        /// Its destination.
        destination: u32,
        /// How many partitions there are.
        partitions: u32,
        /// The row, in readable form.
        values: String,
    },
    /// It did not give one destination per row.
    #[error(
        "the routing function gave {destinations} destinations for {rows} rows; it must give one for each"
    )]
    Count {
        /// How many destinations it gave.
        destinations: usize,
        /// How many rows there are.
        rows: usize,
    },
}

/// Computes the partition of each row of a batch, [`OMIT`] or [`BROADCAST`]. Must be a pure function of the row.
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

/// Routes by the value of an integer column. Rows where it is null go nowhere. A value that is not the number of a
/// partition is an error in the query: nothing is taken modulo the partitions.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch, types::Int64Type};
/// let route = tidemill_split::route_by_value::<Int64Type>(0);
/// let xways = Int64Array::from(vec![Some(3), None]);
/// let rows = RecordBatch::try_from_iter([("xway", Arc::new(xways) as _)]).unwrap();
/// let mut destinations = Vec::new();
/// route(&rows, &mut destinations);
/// assert_eq!(destinations, [3, tidemill_split::OMIT]);
/// ```
pub fn route_by_value<T>(column: usize) -> Box<Route>
where
    T: ArrowPrimitiveType,
    T::Native: TryInto<u32>,
{
    let destination = |value: T::Native| match value.try_into() {
        Ok(partition) if partition < NO_NUMBER => partition,
        _ => NO_NUMBER,
    };
    Box::new(move |rows, destinations| {
        let column = rows.column(column).as_primitive::<T>();
        if column.null_count() == 0 {
            return destinations.extend(column.values().iter().map(|value| destination(*value)));
        }
        destinations.extend(column.iter().map(|value| value.map_or(OMIT, destination)));
    })
}

/// Broadcasts the rows that `broadcast` marks, and routes the others by `route`. A null mark does not count.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{BooleanArray, RecordBatch, UInt16Array, cast::AsArray, types::UInt16Type};
/// use tidemill_split::{BROADCAST, route_by_key, route_or_broadcast};
/// let queries = |rows: &RecordBatch| rows.column(1).as_boolean().clone();
/// let route = route_or_broadcast(route_by_key::<UInt16Type>(0, 4), queries);
/// let rows = RecordBatch::try_from_iter([
///     ("xway", Arc::new(UInt16Array::from(vec![3, 3])) as _),
///     ("is_query", Arc::new(BooleanArray::from(vec![false, true])) as _),
/// ]);
/// let mut destinations = Vec::new();
/// route(&rows.unwrap(), &mut destinations);
/// assert_eq!(destinations, [3, BROADCAST]);
/// ```
pub fn route_or_broadcast(
    route: Box<Route>,
    broadcast: impl Fn(&RecordBatch) -> BooleanArray + Send + Sync + 'static,
) -> Box<Route> {
    Box::new(move |rows, destinations| {
        let start = destinations.len();
        route(rows, destinations);
        let marks = broadcast(rows);
        if marks.len() != rows.num_rows() {
            // Reported as what it is, when the destinations are counted.
            return destinations.resize(start + marks.len(), OMIT);
        }
        let marked = match marks.nulls() {
            None => marks.values().clone(),
            Some(nulls) => marks.values() & nulls.inner(),
        };
        for row in marked.set_indices() {
            if let Some(destination) = destinations.get_mut(start + row) {
                *destination = BROADCAST;
            }
        }
    })
}

/// Checks that all destinations exist.
pub(crate) fn check(destinations: &[u32], partitions: u32, rows: &RecordBatch) -> Result<(), RouteError> {
    if destinations.len() != rows.num_rows() {
        return Err(RouteError::Count { destinations: destinations.len(), rows: rows.num_rows() });
    }
    let valid = |destination: u32| destination < partitions || destination >= BROADCAST;
    if destinations.iter().fold(true, |all, destination| all & valid(*destination)) {
        return Ok(());
    }
    let row = destinations.iter().position(|destination| !valid(*destination)).unwrap_or(0);
    let values = readable(rows, row);
    Err(RouteError::NoSuchPartition { row, destination: destinations[row], partitions, values })
}

/// A row as `column: value` pairs.
fn readable(rows: &RecordBatch, row: usize) -> String {
    let schema = rows.schema();
    let names = schema.fields().iter().map(|field| field.name());
    let pairs = names.zip(rows.columns()).map(|(name, column)| format!("{name}: {}", value(column, row)));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A value of any type, as Arrow shows an array of one value, without the outer brackets.
fn value(column: &ArrayRef, row: usize) -> String {
    let shown = format!("{:?}", column.slice(row, 1));
    let inner =
        shown.split_once('[').and_then(|(_, rest)| rest.rsplit_once(']')).map_or(&*shown, |inner| inner.0);
    let words: Vec<&str> = inner.split_whitespace().collect();
    words.join(" ").trim_end_matches(',').to_string()
}
