//! Modules that do harm where they can.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_wasm::{Failure, Function, Limits, MODULE_BYTES_MAX, Module, ModuleError};

fn defined(text: &str) -> Result<Function, ModuleError> {
    let module = Module::new(text.as_bytes())?;
    Function::new(&module, "f", &[DataType::Int64], &DataType::Int64, Limits::default())
}

fn call(text: &str, values: Vec<i64>) -> Result<ArrayRef, Failure> {
    let rows = values.len();
    defined(text).expect("the definition is good").call(&[Arc::new(Int64Array::from(values))], rows)
}

fn stopped(text: &str, values: Vec<i64>) -> String {
    match call(text, values) {
        Err(Failure::Stop(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn refused(text: &str) -> String {
    match defined(text) {
        Err(error) => error.message,
        Ok(function) => panic!("{function:?} is defined"),
    }
}

#[test]
fn an_endless_loop_stops() {
    let text =
        r#"(module (func (export "f") (param i64) (result i64) (loop $again (br $again)) (unreachable)))"#;
    let message = stopped(text, vec![1; 1000]);
    assert!(message.contains("10000000 units of fuel"), "{message}");
}

/// Each row, or each half of a batch, keeps within its fuel; all together do not end.
#[test]
fn many_slow_rows_stop() {
    let row = r#"(module (func (export "f") (param i64) (result i64) (local i64)
        (loop $again
            (local.set 1 (i64.add (local.get 1) (i64.const 1)))
            (br_if $again (i64.lt_u (local.get 1) (i64.const 100000))))
        (local.get 0)))"#;
    let batch = r#"(module (memory (export "memory") 1)
        (func (export "tidemill_allocate") (param i32) (result i32) (i32.const 1024))
        (func (export "f") (param $rows i32) (param i32 i32) (local i64)
            (if (i32.gt_u (local.get $rows) (i32.const 1)) (then (loop $again (br $again))))
            (loop $again
                (local.set 3 (i64.add (local.get 3) (i64.const 1)))
                (br_if $again (i64.lt_u (local.get 3) (i64.const 100000))))))"#;
    for text in [row, batch] {
        let slow = defined(text).unwrap().with_time_max(Duration::from_millis(50));
        let rows = Arc::new(Int64Array::from(vec![1; 8000]));
        let failure = slow.call(&[rows], 8000).unwrap_err();
        assert!(failure.stops() && failure.to_string().contains("more than 50ms"), "{failure}");
    }
}

#[test]
fn a_start_function_that_loops_is_refused() {
    let text = r#"(module (func $forever (loop $again (br $again))) (start $forever)
        (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    let message = refused(text);
    assert!(message.starts_with("the module cannot be started: ") && message.contains("fuel"), "{message}");
    let by_name = r#"(module (func (export "_initialize") (loop $again (br $again)))
        (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    assert!(refused(by_name).contains("fuel"));
}

/// What a call may use does not make a start longer: one start has no deadline, and each batch may need one.
#[test]
fn a_start_function_has_no_more_fuel_than_by_default() {
    let text = r#"(module (func $forever (loop $again (br $again))) (start $forever)
        (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    let module = Module::new(text.as_bytes()).unwrap();
    let limits = Limits { fuel_max: u64::MAX, ..Limits::default() };
    let refused = Function::new(&module, "f", &[DataType::Int64], &DataType::Int64, limits).unwrap_err();
    assert!(refused.message.contains("its start takes more than 10000000 units"), "{refused}");
}

/// Rows that may use much fuel are few between two looks at the time.
#[test]
fn few_slow_rows_stop() {
    let text = r#"(module (func (export "f") (param i64) (result i64) (local i64)
        (loop $again
            (local.set 1 (i64.add (local.get 1) (i64.const 1)))
            (br_if $again (i64.lt_u (local.get 1) (i64.const 1000000))))
        (local.get 0)))"#;
    let module = Module::new(text.as_bytes()).unwrap();
    let limits = Limits { fuel_max: 10_000_000_000, ..Limits::default() };
    let slow = Function::new(&module, "f", &[DataType::Int64], &DataType::Int64, limits).unwrap();
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![1; 40]));
    let failure = slow.with_time_max(Duration::from_millis(1)).call(&[rows], 40).unwrap_err();
    assert!(failure.stops() && failure.to_string().contains("more than 1ms"), "{failure}");
}

#[test]
fn memory_is_limited() {
    let grows = r#"(module (memory 1) (func (export "f") (param i64) (result i64)
        (loop $more (drop (memory.grow (i32.const 16))) (br $more)) (unreachable)))"#;
    let message = stopped(grows, vec![1, 2]);
    assert!(message.contains("more memory than 16777216 bytes"), "{message}");
    let declares = r#"(module (memory 65536) (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    let message = refused(declares);
    assert!(message.contains("more memory than 16777216 bytes"), "{message}");
}

/// A row is not refused because of what earlier rows of its batch took.
#[test]
fn rows_that_need_much_together_are_computed_apart() {
    let text = r#"(module (memory 1) (func (export "f") (param i64) (result i64)
        (drop (memory.grow (i32.const 100))) (i64.add (local.get 0) (i64.const 1))))"#;
    let expected: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=50));
    assert_eq!(&call(text, (0..50).collect()).unwrap(), &expected);
}

#[test]
fn tables_are_limited() {
    let text =
        r#"(module (table 100000000 funcref) (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    assert!(refused(text).starts_with("the module cannot be started: "));
}

#[test]
fn recursion_is_limited() {
    let text = r#"(module (func $f (export "f") (param i64) (result i64)
        (i64.add (i64.const 1) (call $f (local.get 0)))))"#;
    let message = stopped(text, vec![1]);
    assert!(message.contains("nested too deeply"), "{message}");
}

#[test]
fn nothing_is_imported() {
    let text = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
        (import "env" "now" (func (result i64))) (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    assert_eq!(
        refused(text),
        "the module imports wasi_snapshot_preview1.fd_write and 1 more, but a module here may import nothing"
    );
    let memory = r#"(module (import "env" "memory" (memory 1))
        (func (export "f") (param i64) (result i64) (local.get 0)))"#;
    assert!(refused(memory).contains("env.memory"));
}

#[test]
fn what_is_no_module_is_refused() {
    let large = vec![0; MODULE_BYTES_MAX + 1];
    let nested = format!("(module {}", "(".repeat(100_000));
    for bytes in [
        &b""[..],
        b"\0asm",
        b"\0asm\x01\0\0\0\xff",
        b"ELF",
        b"(module",
        b"\xff\xfe",
        &large,
        nested.as_bytes(),
    ] {
        let error = Module::new(bytes).expect_err("it is no module");
        assert!(error.hint.is_some() && !error.message.contains('\n'), "{error:?}");
    }
    // Valid text, but the code does not fit its type.
    assert!(
        refused(r#"(module (func (export "f") (param i64) (result i64) (f64.const 1)))"#)
            .contains("cannot be used")
    );
}

#[test]
fn what_differs_between_machines_is_refused() {
    for text in [
        r#"(module (memory 1 1 shared) (func (export "f") (param i64) (result i64) (local.get 0)))"#,
        r#"(module (func (export "f") (param i64) (result i64) (drop (v128.const i64x2 1 2)) (local.get 0)))"#,
        r#"(module (memory i64 1) (func (export "f") (param i64) (result i64) (local.get 0)))"#,
        r#"(module (memory 1) (memory 1) (func (export "f") (param i64) (result i64) (local.get 0)))"#,
    ] {
        let message = refused(text);
        assert!(message.contains("cannot be used") || message.contains("cannot be read"), "{message}");
    }
}

#[test]
fn a_function_that_counts_its_calls_is_found_out() {
    let text = r#"(module (global $calls (mut i64) (i64.const 0)) (func (export "f") (param i64) (result i64)
        (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
        (i64.add (local.get 0) (global.get $calls))))"#;
    let message = stopped(text, vec![1, 2]);
    assert!(message.contains("depending on earlier calls"), "{message}");
    // One row alone gets a new instance each time.
    let counted = defined(text).unwrap();
    for _ in 0..3 {
        let one: ArrayRef = Arc::new(Int64Array::from(vec![11]));
        assert_eq!(&counted.call(&[Arc::new(Int64Array::from(vec![10]))], 1).unwrap(), &one);
    }
}

/// The same results, whatever state an earlier batch has left.
#[test]
fn a_batch_leaves_nothing_behind() {
    let text = r#"(module (memory 1) (func (export "f") (param i64) (result i64)
        (i64.load (i32.const 8)) (i64.store (i32.const 8) (local.get 0))))"#;
    let leaks = defined(text).unwrap();
    let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
    for value in [5, 6] {
        assert_eq!(&leaks.call(&[Arc::new(Int64Array::from(vec![value]))], 1).unwrap(), &zero);
    }
}

/// A module whose function is called with batches, and writes `result` as the text says.
fn batch(result: &str) -> Function {
    let text = format!(
        r#"(module (memory (export "memory") 1)
        (func (export "tidemill_allocate") (param i32) (result i32) (i32.const 1024))
        (func (export "f") (param $rows i32) (param $arguments i32) (param $result i32) {result}))"#
    );
    let module = Module::new(text.as_bytes()).expect("the module is good");
    Function::new(&module, "f", &[DataType::Int32], &DataType::Utf8, Limits::default())
        .expect("it is a function")
}

#[test]
fn wrong_pointers_are_found() {
    let wrong = [
        // Offsets outside of the memory, at its end, and in the last four bytes.
        "(i32.store offset=8 (local.get $result) (i32.const -1))",
        "(i32.store offset=8 (local.get $result) (i32.const 65536))",
        "(i32.store offset=8 (local.get $result) (i32.const 65532))",
        // Offsets that fall, that are negative, and texts outside of the memory.
        "(i32.store offset=8 (local.get $result) (i32.const 100)) (i32.store (i32.const 100) (i32.const 7))",
        "(i32.store offset=8 (local.get $result) (i32.const 100)) (i32.store (i32.const 100) (i32.const -7))",
        "(i32.store offset=8 (local.get $result) (i32.const 100)) (i32.store (i32.const 104) (i32.const 2147483647))
         (i32.store (i32.const 108) (i32.const 2147483647))",
        // Validity outside of the memory.
        "(i32.store offset=8 (local.get $result) (i32.const 100)) (i32.store (local.get $result) (i32.const -1))",
        "(i32.store offset=8 (local.get $result) (i32.const 100))
         (i32.store offset=4 (local.get $result) (i32.const -1))
         (i32.store (i32.const 108) (i32.const 1))",
    ];
    let rows: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for result in wrong {
        let failure = batch(result).call(&[Arc::clone(&rows)], 2).expect_err(result);
        assert!(failure.stops(), "{failure:?}");
    }
    // Nothing is written: null pointers, and the offsets are what stands at 0.
    assert_eq!(batch("").call(&[Arc::clone(&rows)], 2).unwrap().len(), 2);
}

#[test]
fn a_text_that_is_none_costs_its_row() {
    let result = "(i32.store offset=8 (local.get $result) (i32.const 100))
        (i32.store offset=4 (local.get $result) (i32.const 200))
        (i32.store (i32.const 104) (i32.const 1)) (i32.store8 (i32.const 200) (i32.const 0xff))";
    let failure = batch(result).call(&[Arc::new(Int32Array::from(vec![1]))], 1).unwrap_err();
    assert_eq!(failure, Failure::Row("it gives a text that is not UTF-8".to_owned()));
}

#[test]
fn an_allocator_that_lies_is_found() {
    for place in ["-1", "65000", "-16", "0"] {
        let text = format!(
            r#"(module (memory (export "memory") 1)
            (func (export "tidemill_allocate") (param i32) (result i32) (i32.const {place}))
            (func (export "f") (param i32 i32 i32)))"#
        );
        let module = Module::new(text.as_bytes()).unwrap();
        let types = [DataType::Float64];
        let f = Function::new(&module, "f", &types, &DataType::Float64, Limits::default()).unwrap();
        let rows = Float64Array::from(vec![1.0; 500]);
        let failure = f.call(&[Arc::new(rows)], 500).expect_err(place);
        assert!(failure.stops(), "{failure:?}");
    }
}

#[test]
fn what_batches_need_is_checked_when_a_function_is_defined() {
    let defined = |exports: &str| {
        let text = format!(r#"(module {exports} (func (export "f") (param i32 i32 i32)))"#);
        let module = Module::new(text.as_bytes()).unwrap();
        Function::new(&module, "f", &[DataType::Utf8], &DataType::Utf8, Limits::default()).map(drop)
    };
    assert!(defined("").unwrap_err().message.contains("does not export its memory"));
    let memory = r#"(memory (export "memory") 1)"#;
    assert!(defined(memory).unwrap_err().message.contains("does not export `tidemill_allocate`"));
    let allocate = r#"(func (export "tidemill_allocate") (param i64) (result i32) (i32.const 8))"#;
    assert!(defined(&format!("{memory} {allocate}")).is_err());
    assert!(defined(&format!("{memory} {}", allocate.replace("i64", "i32"))).is_ok());
}

/// A number in LEB128.
fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}

/// A module with this body of a function of type (i64) -> i64, this many times; the first is exported as `f`.
fn with_bodies(body: &[u8], count: usize) -> Vec<u8> {
    let section = |id: u8, content: Vec<u8>| [vec![id], number(content.len()), content].concat();
    let bodies = [number(body.len()), body.to_vec()].concat().repeat(count);
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\x01\x7e\x01\x7e".to_vec()),
        section(3, [number(count), vec![0; count]].concat()),
        section(7, b"\x01\x01f\0\0".to_vec()),
        section(10, [number(count), bodies].concat()),
    ]
    .concat()
}

#[test]
fn what_is_costly_to_translate_ends() {
    let get = [0x20, 0, 0x0b];
    let locals = [vec![1], number(49_990), vec![0x7e], vec![1; 34], get.to_vec()].concat();
    let table =
        [vec![0, 2, 0x40, 0x20, 0, 0xa7, 0x0e], number(6000), vec![0; 6001], vec![0x0b], get.to_vec()]
            .concat();
    let nested = [vec![0], [2, 0x40].repeat(100_000), vec![0x0b; 100_000], get.to_vec()].concat();
    let stack = [vec![0], [0x42, 1].repeat(100_000), vec![0x1a; 100_000], get.to_vec()].concat();
    let tiny = [vec![0], get.to_vec()].concat();
    for (body, count) in [(locals, 10_000), (table, 100), (nested, 1), (stack, 1), (tiny, 60_000)] {
        if let Ok(module) = Module::new(&with_bodies(&body, count)) {
            let types = [DataType::Int64];
            let f = Function::new(&module, "f", &types, &DataType::Int64, Limits::default()).unwrap();
            let one: ArrayRef = Arc::new(Int64Array::from(vec![7]));
            assert_eq!(&f.call(std::slice::from_ref(&one), 1).unwrap(), &one);
        }
    }
}

proptest! {
    /// A module with wrong bytes is refused, fails or gives something, but nothing else happens.
    #[test]
    fn damaged_modules_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut binary = wat::parse_str(include_str!("shout.wat")).unwrap();
        for (place, byte) in changes {
            let place = 8 + place.index(binary.len() - 8);
            binary[place] = byte;
        }
        let Ok(module) = Module::new(&binary) else { return Ok(()) };
        let limits = Limits { fuel_max: 100_000, ..Limits::default() };
        let Ok(f) = Function::new(&module, "f", &[DataType::Utf8], &DataType::Utf8, limits) else { return Ok(()) };
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), None, Some("two")]));
        if let Ok(values) = f.call(&[texts], 3) {
            prop_assert_eq!(values.len(), 3);
        }
    }
}
