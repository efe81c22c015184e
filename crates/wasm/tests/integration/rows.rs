//! Functions of numbers, called for a row at a time, beside the same computation in Rust.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, TimestampNanosecondArray,
};
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use tidemill_wasm::{Failure, Function, Limits, Module};

fn function(text: &str, arguments: &[DataType], result: DataType) -> Function {
    let module = Module::new(text.as_bytes()).expect("the module is good");
    Function::new(&module, "f", arguments, &result, Limits::default()).expect("the function is good")
}

const MIX: &str = r#"(module (func (export "f") (param f64 i64) (result f64)
    (f64.sub (f64.mul (local.get 0) (f64.const 1.5)) (f64.div (f64.convert_i64_s (local.get 1)) (local.get 0)))))"#;

proptest! {
    #[test]
    fn it_is_the_same_as_in_rust(
        rows in prop::collection::vec((prop::option::of(any::<f64>()), prop::option::of(any::<i64>())), 0..300),
        cut in 0_usize..300,
    ) {
        let mix = function(MIX, &[DataType::Float64, DataType::Int64], DataType::Float64);
        let (floats, integers): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
        let columns: [ArrayRef; 2] = [Arc::new(Float64Array::from(floats)), Arc::new(Int64Array::from(integers))];
        let expected: Vec<Option<f64>> = rows
            .iter()
            .map(|(float, integer)| {
                let (float, integer) = (float.as_ref()?, integer.as_ref()?);
                Some(float * 1.5 - *integer as f64 / float)
            })
            .collect();
        // Whole, and in two slices.
        let cut = cut.min(rows.len());
        let slice = |from: usize, length: usize| -> Vec<ArrayRef> {
            columns.iter().map(|column| column.slice(from, length)).collect()
        };
        let whole = mix.call(&columns, rows.len()).unwrap();
        let parts = [(0, cut), (cut, rows.len() - cut)]
            .map(|(from, length)| mix.call(&slice(from, length), length).unwrap());
        let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
            array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
        };
        let one_nan = |value: f64| if value.is_nan() { f64::NAN } else { value };
        let expected: Vec<Option<u64>> =
            expected.into_iter().map(|value| value.map(|value| one_nan(value).to_bits())).collect();
        prop_assert_eq!(&bits(&whole), &expected);
        prop_assert_eq!(parts.iter().flat_map(bits).collect::<Vec<_>>(), expected);
    }
}

/// Each type goes through the code unchanged.
#[test]
fn every_type_of_number_is_passed() {
    let timestamps = TimestampNanosecondArray::from(vec![Some(i64::MIN), None, Some(7)]).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i32", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("i32", Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]))),
        ("i32", Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)]))),
        ("i32", Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("i64", Arc::new(timestamps)),
        ("f32", Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::INFINITY)]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::MIN_POSITIVE)]))),
    ];
    for (number, column) in columns {
        let text =
            format!(r#"(module (func (export "f") (param {number}) (result {number}) (local.get 0)))"#);
        let same = function(&text, &[column.data_type().clone()], column.data_type().clone());
        assert!(!same.takes_batches());
        assert_eq!(&same.call(std::slice::from_ref(&column), 3).unwrap(), &column, "{number}");
        let sliced = column.slice(1, 2);
        assert_eq!(
            &same.call(std::slice::from_ref(&sliced), 2).unwrap(),
            &sliced,
            "{number}, from the second row on"
        );
    }
}

#[test]
fn a_number_that_the_type_does_not_have_costs_its_row() {
    let text =
        r#"(module (func (export "f") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 100))))"#;
    let times = function(text, &[DataType::Int32], DataType::Int16);
    let call = |values: Vec<i32>| times.call(&[Arc::new(Int32Array::from(values.clone()))], values.len());
    assert_eq!(call(vec![3, -327]).unwrap().as_ref(), &Int16Array::from(vec![300, -32700]) as &dyn Array);
    let failure = call(vec![3, 328]).unwrap_err();
    assert!(matches!(&failure, Failure::Row(message) if message.contains("32800")), "{failure}");
}

#[test]
fn a_trap_costs_its_row() {
    let text =
        r#"(module (func (export "f") (param i64) (result i64) (i64.div_s (i64.const 100) (local.get 0))))"#;
    let divide = function(text, &[DataType::Int64], DataType::Int64);
    let call = |values: Vec<i64>| divide.call(&[Arc::new(Int64Array::from(values.clone()))], values.len());
    assert_eq!(call(vec![5, 50]).unwrap().as_primitive::<Int64Type>().values(), &[20, 2]);
    assert_eq!(call(vec![5, 0]).unwrap_err(), Failure::Row("the code divides an integer by zero".to_owned()));
    assert_eq!(
        call(vec![4]).unwrap().as_primitive::<Int64Type>().values(),
        &[25],
        "the instance is still good"
    );
}

#[test]
fn a_function_without_arguments_is_computed_for_each_row() {
    let text = r#"(module (func (export "f") (result i64) (i64.const 42)))"#;
    let answer = function(text, &[], DataType::Int64);
    assert_eq!(answer.call(&[], 3).unwrap().as_primitive::<Int64Type>().values(), &[42, 42, 42]);
    assert_eq!(answer.call(&[], 0).unwrap().len(), 0);
}

#[test]
fn only_one_nan_leaves_the_code() {
    let text = r#"(module (func (export "f") (param i64) (result f64) (f64.reinterpret_i64 (local.get 0))))"#;
    let made = function(text, &[DataType::Int64], DataType::Float64);
    let bits = [0x7ff0_0000_0000_0001, -1_i64, 0x7ff8_0000_0000_0000];
    let values = made.call(&[Arc::new(Int64Array::from(bits.to_vec()))], 3).unwrap();
    let values = values.as_primitive::<Float64Type>();
    assert!(values.values().iter().all(|value| value.to_bits() == f64::NAN.to_bits()));
}

/// A module with a memory is called again for the last row, to see whether it keeps something.
#[test]
fn a_nan_that_is_computed_again_is_the_same() {
    let text = r#"(module (memory 1) (func (export "f") (param f64) (result f64) (f64.sqrt (local.get 0))))"#;
    let root = function(text, &[DataType::Float64], DataType::Float64);
    let roots = root.call(&[Arc::new(Float64Array::from(vec![4.0, -1.0]))], 2).unwrap();
    let roots = roots.as_primitive::<Float64Type>();
    assert!(roots.value(0) == 2.0 && roots.value(1).is_nan());
}

#[test]
fn several_threads_call_one_function() {
    let mix = function(MIX, &[DataType::Float64, DataType::Int64], DataType::Float64);
    let columns: [ArrayRef; 2] = [
        Arc::new(Float64Array::from_iter_values((1..500).map(f64::from))),
        Arc::new(Int64Array::from_iter_values(1..500)),
    ];
    let expected = mix.call(&columns, 499).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(&mix.call(&columns, 499).unwrap(), &expected)));
        }
    });
}

#[test]
fn types_that_are_no_numbers_are_refused_with_what_is_possible() {
    let text = r#"(module (func (export "f") (param f64) (result f64) (local.get 0)))"#;
    let module = Module::new(text.as_bytes()).unwrap();
    let refused = |name: &str, argument: DataType, result: DataType| {
        Function::new(&module, name, &[argument], &result, Limits::default()).unwrap_err()
    };
    let error = refused("g", DataType::Float64, DataType::Float64);
    assert_eq!(
        (error.message.as_str(), error.hint.as_deref()),
        ("the module exports no function `g`", Some("it exports f"))
    );
    let error = refused("f", DataType::Int64, DataType::Float64);
    assert_eq!(error.message, "function `f` of the module is (f64) -> f64");
    assert_eq!(
        error.hint.as_deref(),
        Some("for these types it has to be (i64) -> f64, or (i32, i32, i32) -> () for batches")
    );
    let error = refused("f", DataType::Utf8, DataType::Float64);
    assert_eq!(
        error.hint.as_deref(),
        Some("for these types it has to be (i32, i32, i32) -> (), for batches of columns")
    );
    let interval = DataType::Duration(TimeUnit::Second);
    assert!(refused("f", interval, DataType::Float64).message.contains("(f64) -> f64"));
}
