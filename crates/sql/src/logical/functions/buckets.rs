//! `width_bucket(x, low, high, count)` and `width_bucket(x, bounds)`: which part of a range a value is in.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;

use super::plain_function::plain_function;

/// Returns the function.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    const NUMBER: DataType = DataType::Float64;
    let bounds = DataType::List(Arc::new(Field::new_list_field(NUMBER, true)));
    let types: [&[DataType]; 2] = [&[NUMBER, NUMBER, NUMBER, DataType::Int64], &[NUMBER, bounds]];
    std::iter::once(plain_function(&["width_bucket"], &types, DataType::Int64, |columns| {
        let values = columns[0].as_primitive::<Float64Type>();
        let row = |row: usize| {
            if columns.iter().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let value = values.value(row);
            match columns {
                [_, low, high, count] => {
                    let [low, high] = [low, high].map(|bound| bound.as_primitive::<Float64Type>().value(row));
                    of_equal_width(value, low, high, count.as_primitive::<Int64Type>().value(row)).map(Some)
                }
                _ => of_bounds(value, &columns[1].as_list::<i32>().value(row)).map(Some),
            }
        };
        Ok(Arc::new((0..values.len()).map(row).collect::<Result<Int64Array>>()?))
    }))
}

fn of_equal_width(value: f64, low: f64, high: f64, count: i64) -> Result<i64> {
    if !(1..=i64::from(i32::MAX)).contains(&count) {
        return exec_err!("the number of parts must be greater than 0 and fit an INT, but is {count}");
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return exec_err!("the value and the bounds cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return exec_err!("the bounds must be finite");
    }
    if low == high {
        return exec_err!("the lower bound cannot equal the upper bound, {low}");
    }
    let is_rising = low < high;
    let (is_before, is_behind) =
        if is_rising { (value < low, value >= high) } else { (value > low, value <= high) };
    if is_before {
        return Ok(0);
    }
    if is_behind {
        return Ok(count + 1);
    }
    let width = high - low;
    let part = if width.is_finite() {
        (value - low) / width
    } else {
        (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    Ok(((part * count as f64) as i64).min(count - 1) + 1)
}

/// How many of the bounds, which rise, are not above the value.
fn of_bounds(value: f64, bounds: &ArrayRef) -> Result<i64> {
    if bounds.null_count() > 0 {
        return exec_err!("no bound can be NULL");
    }
    let bounds = bounds.as_primitive::<Float64Type>().values();
    let is_below = |bound: &f64| value.is_nan() || *bound <= value;
    Ok(bounds.partition_point(is_below) as i64)
}
