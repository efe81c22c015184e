//! Aggregate functions by themselves: types, NULL, overflow, partial results.

use std::sync::Arc;

use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array,
    StringArray, StringViewArray, UInt64Array, cast::AsArray,
};
use arrow_schema::DataType;
use proptest::collection::vec;
use proptest::prelude::*;
use tidemill_core::{Cause, Fault};
use tidemill_operators::aggregate::{
    Aggregate, Average, Count, CountDistinct, Extreme, Spread, Sum, Variance,
};

/// The result over all values, in one group of three.
fn over(function: &dyn Aggregate, values: &ArrayRef) -> Result<ArrayRef, Cause> {
    let mut state = function.accumulator();
    state.resize(3);
    state.update(&vec![1; values.len()], std::slice::from_ref(values), None)?;
    let result = state.evaluate(&[1])?;
    assert_eq!(result.data_type(), &function.result_type());
    let partials = state.partial(&[1, 0])?;
    let types = partials.iter().map(|column| column.data_type().clone()).collect::<Vec<_>>();
    assert_eq!(types, function.partial_types());
    let mut other = function.accumulator();
    other.resize(2);
    other.merge(&[0, 1], &partials)?;
    let merged = other.evaluate(&[0, 1])?;
    assert_eq!(&merged.slice(0, 1), &result, "{} of a merged partial result", function.name());
    let empty = state.evaluate(&[0])?;
    assert_eq!(&merged.slice(1, 1), &empty, "{} of an empty partial result", function.name());
    let is_count = function.name().starts_with("count");
    assert_eq!(empty.is_null(0), !is_count, "{} of nothing", function.name());
    state.clear();
    state.resize(1);
    assert_eq!(&state.evaluate(&[0])?, &empty, "{} after clear", function.name());
    Ok(result)
}

fn integers(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

#[test]
fn sums_that_do_not_fit_are_the_users_errors() {
    let sum = Sum::new(&DataType::Int64).unwrap();
    let cause = over(&sum, &integers(vec![Some(i64::MAX), Some(1)])).unwrap_err();
    assert!(
        cause.fault == Fault::User && cause.message.contains("sum") && cause.message.contains("DECIMAL"),
        "{cause}"
    );
    // It is the result that must fit, not what comes on the way.
    let result = over(&sum, &integers(vec![Some(i64::MAX), Some(1), Some(-1)])).unwrap();
    assert_eq!(&result, &integers(vec![Some(i64::MAX)]));
    let unsigned = Arc::new(UInt64Array::from(vec![u64::MAX, 1])) as ArrayRef;
    assert!(matches!(
        over(&Sum::new(&DataType::UInt64).unwrap(), &unsigned),
        Err(Cause { fault: Fault::User, .. })
    ));
    let result = over(&Sum::new(&DataType::UInt64).unwrap(), &unsigned.slice(0, 1)).unwrap();
    assert_eq!(result.as_ref(), &UInt64Array::from(vec![u64::MAX]));
    let decimals =
        Decimal128Array::from(vec![10_i128.pow(38) - 1, 1]).with_precision_and_scale(38, 2).unwrap();
    let decimals = Arc::new(decimals) as ArrayRef;
    assert!(matches!(
        over(&Sum::new(decimals.data_type()).unwrap(), &decimals),
        Err(Cause { fault: Fault::User, .. })
    ));
}

#[test]
fn sums_and_averages_of_decimals() {
    let decimals = Decimal128Array::from(vec![Some(100), None, Some(101), Some(-301)]);
    let decimals = Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()) as ArrayRef;
    let sum = over(&Sum::new(decimals.data_type()).unwrap(), &decimals).unwrap();
    let expected = Decimal128Array::from(vec![-100]).with_precision_and_scale(20, 2).unwrap();
    assert_eq!(sum.as_ref(), &expected);
    let average = over(&Average::new(decimals.data_type()).unwrap(), &decimals).unwrap();
    let expected = Decimal128Array::from(vec![-333_333]).with_precision_and_scale(14, 6).unwrap();
    assert_eq!(average.as_ref(), &expected);
    // 2 / 3 and -2 / 3 are rounded away from zero.
    for (unscaled, rounded) in
        [(vec![100, 50, 50], 666_667), (vec![-100, -50, -50], -666_667), (vec![1; 3], 10_000)]
    {
        let values = Decimal128Array::from(unscaled).with_precision_and_scale(10, 2).unwrap();
        let values = Arc::new(values) as ArrayRef;
        let average = over(&Average::new(values.data_type()).unwrap(), &values).unwrap();
        let expected = Decimal128Array::from(vec![rounded]).with_precision_and_scale(14, 6).unwrap();
        assert_eq!(average.as_ref(), &expected);
    }
}

#[test]
fn the_average_of_integers_is_exact_inside() {
    let values = integers(vec![Some(i64::MAX), Some(i64::MAX), None, Some(-i64::MAX)]);
    let average = over(&Average::new(&DataType::Int64).unwrap(), &values).unwrap();
    assert_eq!(average.as_ref(), &Float64Array::from(vec![i64::MAX as f64 / 3.0]));
}

#[test]
fn extremes_of_all_kinds_of_types() {
    let check = |values: ArrayRef, least: ArrayRef, most: ArrayRef| {
        assert_eq!(&over(&Extreme::minimum(values.data_type()).unwrap(), &values).unwrap(), &least);
        assert_eq!(&over(&Extreme::maximum(values.data_type()).unwrap(), &values).unwrap(), &most);
    };
    macro_rules! check {
        ($array:ty: $values:expr => $least:expr, $most:expr) => {
            check(
                Arc::new(<$array>::from($values)),
                Arc::new(<$array>::from(vec![$least])),
                Arc::new(<$array>::from(vec![$most])),
            )
        };
    }
    check!(Int8Array: vec![Some(3), None, Some(-4)] => -4, 3);
    check!(Int64Array: vec![i64::MAX] => i64::MAX, i64::MAX);
    check!(Int64Array: vec![i64::MIN] => i64::MIN, i64::MIN);
    check!(UInt64Array: vec![0, u64::MAX] => 0, u64::MAX);
    check!(Float64Array: vec![-0.0, 0.0, -1.0] => -1.0, 0.0);
    check!(Float64Array: vec![f64::NEG_INFINITY, f64::INFINITY] => f64::NEG_INFINITY, f64::INFINITY);
    check!(BooleanArray: vec![Some(true), None, Some(false)] => false, true);
    check!(Date32Array: vec![5, -5] => -5, 5);
    check!(StringArray: vec![Some("b"), None, Some(""), Some("aaaaaaaaaaaaaaaaaaaa")] => "", "b");
    let long = "a string that is not inline";
    check!(StringViewArray: vec![Some("z"), None, Some(long)] => long, "z");
    let nan = Arc::new(Float64Array::from(vec![-f64::NAN, 1.0])) as ArrayRef;
    let most = over(&Extreme::maximum(nan.data_type()).unwrap(), &nan).unwrap();
    assert!(most.as_primitive::<Float64Type>().value(0).is_nan(), "NaN is the largest");
    let least = over(&Extreme::minimum(nan.data_type()).unwrap(), &nan).unwrap();
    assert_eq!(least.as_primitive::<Float64Type>().value(0), 1.0);
}

#[test]
fn filters_and_nulls_leave_rows_out() {
    let values = integers(vec![Some(1), Some(2), None, Some(4), Some(8)]);
    let filter = BooleanArray::from(vec![Some(true), Some(false), Some(true), None, Some(true)]);
    let result = |function: &dyn Aggregate, arguments: &[ArrayRef]| {
        let mut state = function.accumulator();
        state.resize(2);
        state.update(&[0, 0, 0, 0, 1], arguments, Some(&filter)).unwrap();
        state.evaluate(&[0, 1]).unwrap()
    };
    let arguments = [ArrayRef::clone(&values)];
    assert_eq!(&result(&Count::rows(), &[]), &integers(vec![Some(2), Some(1)]));
    assert_eq!(&result(&Count::values(), &arguments), &integers(vec![Some(1), Some(1)]));
    assert_eq!(&result(&Sum::new(&DataType::Int64).unwrap(), &arguments), &integers(vec![Some(1), Some(8)]));
    let distinct = CountDistinct::new(&DataType::Int64, 10).unwrap();
    assert_eq!(&result(&distinct, &arguments), &integers(vec![Some(1), Some(1)]));
}

#[test]
fn types_without_meaning_are_refused() {
    let list = DataType::new_list(DataType::Int64, true);
    for cause in [
        Sum::new(&DataType::Utf8).unwrap_err(),
        Average::new(&DataType::Boolean).unwrap_err(),
        Extreme::minimum(&list).unwrap_err(),
        Variance::new(Spread::SampleVariance, &DataType::Utf8).unwrap_err(),
    ] {
        assert!(cause.fault == Fault::User && cause.message.contains("cast"), "{cause}");
    }
}

proptest! {
    #[test]
    fn variance_is_that_of_two_passes(
        values in vec(-1000..1000_i32, 1..100),
        shift in prop_oneof![Just(0.0), Just(1e9), Just(-1e6)],
        pieces in vec(0..100_usize, 0..4),
    ) {
        let values = values.iter().map(|value| f64::from(*value) + shift).collect::<Vec<_>>();
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value - shift).sum::<f64>() / count + shift;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let cuts = pieces.iter().map(|cut| cut % values.len());
        let mut cuts = cuts.chain([0, values.len()]).collect::<Vec<_>>();
        cuts.sort();
        for (spread, expected) in [
            (Spread::PopulationVariance, Some(squares / count)),
            (Spread::SampleVariance, (count > 1.0).then(|| squares / (count - 1.0))),
            (Spread::PopulationDeviation, Some((squares / count).sqrt())),
            (Spread::SampleDeviation, (count > 1.0).then(|| (squares / (count - 1.0)).sqrt())),
        ] {
            let function = Variance::new(spread, &DataType::Float64).unwrap();
            let mut merged = function.accumulator();
            merged.resize(1);
            for pair in cuts.windows(2) {
                let column = Arc::new(Float64Array::from(values[pair[0]..pair[1]].to_vec())) as ArrayRef;
                over(&function, &column).unwrap();
                let mut piece = function.accumulator();
                piece.resize(1);
                piece.update(&vec![0; column.len()], &[column], None).unwrap();
                merged.merge(&[0], &piece.partial(&[0]).unwrap()).unwrap();
            }
            let found = merged.evaluate(&[0]).unwrap();
            let found = found.as_primitive::<Float64Type>().iter().next().unwrap();
            match (found, expected) {
                (Some(found), Some(expected)) => {
                    prop_assert!((found - expected).abs() <= 1e-6 * expected.max(1e-3), "{found} {expected}");
                }
                other => prop_assert!(other == (None, None), "{other:?}"),
            }
        }
    }
}
