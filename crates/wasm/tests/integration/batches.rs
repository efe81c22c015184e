//! Functions that take a batch at a time, beside the same computation in Rust.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, StringArray};
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_wasm::{Function, Limits, Module};

/// Small letters become capitals; the result has the argument's offsets and validity.
const SHOUT: &str = include_str!("shout.wat");

/// The column is its own result.
const SAME: &str = r#"(module (memory (export "memory") 1) (global $free (mut i32) (i32.const 1024))
    (func (export "tidemill_allocate") (param $bytes i32) (result i32) (local $place i32)
        (local.set $place (global.get $free))
        (global.set $free (i32.add (global.get $free) (local.get $bytes)))
        (block $enough
            (br_if $enough (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
            (drop (memory.grow (i32.add (i32.shr_u (local.get $bytes) (i32.const 16)) (i32.const 1)))))
        (local.get $place))
    (func (export "f") (param $rows i32) (param $arguments i32) (param $result i32)
        (memory.copy (local.get $result) (local.get $arguments) (i32.const 12))))"#;

fn function(text: &str, arguments: &[DataType], result: DataType, limits: Limits) -> Function {
    let module = Module::new(text.as_bytes()).expect("the module is good");
    let function = Function::new(&module, "f", arguments, &result, limits).expect("the function is good");
    assert!(function.takes_batches());
    function
}

proptest! {
    #[test]
    fn texts_are_as_in_rust(
        rows in prop::collection::vec(prop::option::of("[a-zA-Z äß日]{0,12}"), 1..200),
        from in 0_usize..200,
    ) {
        let shout = function(SHOUT, &[DataType::Utf8], DataType::Utf8, Limits::default());
        let from = from.min(rows.len() - 1);
        let column: ArrayRef = Arc::new(StringArray::from(rows.clone()));
        let column = column.slice(from, rows.len() - from);
        let expected: StringArray =
            rows[from..].iter().map(|text| text.as_ref().map(|text| text.to_ascii_uppercase())).collect();
        let shouted = shout.call(&[column], rows.len() - from).unwrap();
        prop_assert_eq!(shouted.as_string::<i32>(), &expected);
    }
}

#[test]
fn columns_of_all_kinds_are_passed() {
    let columns: [ArrayRef; 6] = [
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(-1)])),
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(StringArray::from(vec![Some(""), None, Some("日本")])),
        Arc::new(BinaryArray::from(vec![Some(&b"\xff\0"[..]), Some(b""), None])),
        Arc::new(StringArray::from(vec![None::<&str>; 3])),
    ];
    for column in columns {
        let same =
            function(SAME, &[column.data_type().clone()], column.data_type().clone(), Limits::default());
        assert_eq!(&same.call(std::slice::from_ref(&column), 3).unwrap(), &column);
        assert_eq!(&same.call(&[column.slice(1, 2)], 2).unwrap(), &column.slice(1, 2));
        assert_eq!(same.call(&[column.slice(1, 0)], 0).unwrap().len(), 0);
    }
}

/// What stands below a NULL must not reach the code.
#[test]
fn a_null_hides_what_is_below() {
    // Gives the values without their validity.
    let text =
        SAME.replace("(i32.const 12))))", "(i32.const 12)) (i32.store (local.get $result) (i32.const 0))))");
    let bare = function(&text, &[DataType::Int64], DataType::Int64, Limits::default());
    let nulls = Some(vec![true, false].into());
    let column = Int64Array::new(vec![1, 999].into(), nulls.clone());
    let expected: ArrayRef = Arc::new(Int64Array::from(vec![1, 0]));
    assert_eq!(&bare.call(&[Arc::new(column)], 2).unwrap(), &expected);
    let bare = function(&text, &[DataType::Utf8], DataType::Utf8, Limits::default());
    let texts = StringArray::from(vec!["a", "hidden"]);
    let (offsets, values, _) = texts.into_parts();
    let column = StringArray::new(offsets, values, nulls);
    let expected: ArrayRef = Arc::new(StringArray::from(vec!["a", ""]));
    assert_eq!(&bare.call(&[Arc::new(column)], 2).unwrap(), &expected);
}

#[test]
fn batches_that_are_too_large_for_the_memory_are_divided() {
    let limits = Limits { memory_bytes_max: 256 << 10, ..Limits::default() };
    let same = function(SAME, &[DataType::Utf8], DataType::Utf8, limits);
    let column: ArrayRef = Arc::new(
        (0..20_000).map(|row| (row % 7 != 0).then(|| format!("text {row}"))).collect::<StringArray>(),
    );
    assert_eq!(&same.call(std::slice::from_ref(&column), 20_000).unwrap(), &column);
    // A single text that does not fit is an error, and says why.
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000)]));
    let failure = same.call(&[long], 1).unwrap_err();
    assert!(failure.stops() && failure.to_string().contains("memory"), "{failure}");
}
