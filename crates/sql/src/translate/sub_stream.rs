//! The number of a row's sub-stream, checked: a number that no sub-stream has costs the row, as other values do for which
//! an expression cannot be computed. The route of the plan would end the query.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, create_udf};

/// The route, and nothing else where the row is broadcast, because then nobody reads it.
pub(super) fn checked_route(route: &Expr, broadcast: Option<&Expr>, partitions: u32) -> Expr {
    let mut types = vec![DataType::Int64];
    let mut arguments = vec![route.clone().unalias()];
    if let Some(broadcast) = broadcast {
        types.push(DataType::Boolean);
        arguments.push(broadcast.clone().unalias());
    }
    let check = move |values: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(values)?;
        check(&arrays[0], arrays.get(1), partitions)?;
        Ok(ColumnarValue::Array(Arc::clone(&arrays[0])))
    };
    create_udf("sub_stream", types, DataType::Int64, Volatility::Immutable, Arc::new(check)).call(arguments)
}

fn check(routes: &dyn Array, broadcast: Option<&Arc<dyn Array>>, partitions: u32) -> Result<()> {
    let routes = routes.as_primitive::<Int64Type>();
    let is_there = |route: i64| (0..i64::from(partitions)).contains(&route);
    // Most batches have only good rows; what stands under a NULL does not count.
    if routes.values().iter().all(|route| is_there(*route)) {
        return Ok(());
    }
    let broadcast = broadcast.map(|marks| marks.as_boolean());
    let is_broadcast = |row: usize| broadcast.is_some_and(|marks| marks.is_valid(row) && marks.value(row));
    let wrong = routes
        .iter()
        .enumerate()
        .find_map(|(row, route)| route.filter(|route| !is_there(*route) && !is_broadcast(row)));
    match wrong {
        None => Ok(()),
        Some(route) => {
            exec_err!("there is no sub-stream {route}; the sub-streams are 0 to {}", partitions - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array};

    use super::*;

    #[test]
    fn numbers_of_sub_streams_nulls_and_broadcast_rows_are_right() {
        let check = |routes: Vec<Option<i64>>, marks: Option<Vec<Option<bool>>>| {
            let marks = marks.map(|marks| Arc::new(BooleanArray::from(marks)) as ArrayRef);
            check(&Int64Array::from(routes), marks.as_ref(), 3).map_err(|error| error.message().into_owned())
        };
        assert_eq!(check(vec![Some(0), None, Some(2)], None), Ok(()));
        let text = "there is no sub-stream 3; the sub-streams are 0 to 2".to_owned();
        assert_eq!(check(vec![Some(0), Some(3)], None), Err(text.clone()));
        assert_eq!(check(vec![Some(-1)], Some(vec![Some(true)])), Ok(()));
        assert_eq!(check(vec![Some(-1), Some(3)], Some(vec![Some(true), None])), Err(text));
    }
}
