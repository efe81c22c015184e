//! A value within a struct, a list or a map is read as the same value in a column of its own: the same value, or refused for
//! the same reason. The table says what each text is, by hand.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use tidemill_connect::formats::{DecoderSettings, Format, text_decoder, with_epoch_unit};
use tidemill_core::source::Faults;

/// A type, a JSON value, and the text of what is read; `None`: it is refused.
fn table() -> Vec<(DataType, &'static str, Option<&'static str>)> {
    let int = DataType::Int32;
    let decimal = DataType::Decimal128(10, 2);
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let time = DataType::Time64(TimeUnit::Nanosecond);
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let of = |data_type: &DataType, values: &[(&'static str, Option<&'static str>)]| {
        values.iter().map(|(value, read)| (data_type.clone(), *value, *read)).collect::<Vec<_>>()
    };
    [
        of(&int, &[("5", Some("5")), ("\"-5\"", Some("-5")), ("1e3", Some("1000")), ("5.0", Some("5"))]),
        of(&int, &[("1.5", None), ("-0.9", None), ("2147483648", None), ("true", None), ("\"x\"", None)]),
        of(&int, &[("null", Some("~")), ("\"\"", Some("~")), ("{}", None), ("[1]", None)]),
        of(
            &DataType::Int64,
            &[("9223372036854775807", Some("9223372036854775807")), ("9223372036854775808", None)],
        ),
        of(&decimal, &[("19.999", Some("20.00")), ("\"5.005\"", Some("5.01")), ("1e3", Some("1000.00"))]),
        of(&decimal, &[("1.5E-2", Some("0.02")), ("0e99", Some("0.00")), ("-2.345", Some("-2.35"))]),
        of(&decimal, &[("123456789", None), ("1e9", None), ("\"NaN\"", None), ("false", None)]),
        of(
            &timestamp,
            &[("1767225600123", Some("2026-01-01T00:00:00.123")), ("\"soon\"", None), ("true", None)],
        ),
        of(
            &timestamp,
            &[
                ("\"2026-01-31 12:30\"", Some("2026-01-31T12:30:00")),
                ("-1.5", Some("1969-12-31T23:59:59.998500")),
            ],
        ),
        of(&timestamp, &[("\"2026-01-31T12:30+02\"", Some("2026-01-31T10:30:00")), ("{\"s\":1}", None)]),
        of(
            &DataType::Date32,
            &[("\"2026-01-31\"", Some("2026-01-31")), ("\"2026-02-30\"", None), ("17", None)],
        ),
        of(&DataType::Date32, &[("\"2026-01-31 12:30\"", Some("2026-01-31")), ("1.5", None)]),
        of(&time, &[("\"12:30\"", Some("12:30:00")), ("10", None), ("\"25:00\"", None)]),
        of(&interval, &[("\"1 day 02:03:04\"", Some("1 days 2 hours 3 mins 4.000000000 secs")), ("6", None)]),
        of(&interval, &[("\"PT31377S\"", Some("8 hours 42 mins 57.000000000 secs")), ("\"x\"", None)]),
        of(
            &DataType::Boolean,
            &[("true", Some("true")), ("\"F\"", Some("false")), ("1", Some("true")), ("2", None)],
        ),
        of(
            &DataType::Float64,
            &[("1.5", Some("1.5")), ("1e400", None), ("\"NaN\"", Some("NaN")), ("\"-NaN\"", Some("NaN"))],
        ),
        of(&DataType::Float64, &[("-1e400", None), ("\"-Infinity\"", Some("-inf")), ("\"1,5\"", None)]),
        of(&DataType::Float32, &[("1e39", None), ("0.1", Some("0.1"))]),
        of(
            &DataType::Binary,
            &[("\"\\\\x6162\"", Some("6162")), ("\"6162\"", Some("6162")), ("\"616\"", None)],
        ),
        of(
            &DataType::Utf8,
            &[("{\"x\": 1,\"y\":[1,2]}", Some("{\"x\": 1,\"y\":[1,2]}")), ("1.50", Some("1.50"))],
        ),
        of(
            &DataType::Utf8,
            &[("[1, {}]", Some("[1, {}]")), ("\"a\\u00e9\\n\"", Some("aé\n")), ("true", Some("true"))],
        ),
    ]
    .concat()
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn struct_of(value: DataType) -> DataType {
    DataType::Struct(vec![Field::new("before", DataType::Int64, true), Field::new("v", value, true)].into())
}

fn map_of(value: DataType) -> DataType {
    let fields = vec![Field::new("keys", DataType::Utf8, false), Field::new("values", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields.into()), false)), false)
}

/// A column's type, its JSON value, its text, and the path in messages.
type Wrapped = (DataType, String, String, &'static str);

/// The ways in which a value can lie within others.
fn wrapped(data_type: &DataType, value: &str, read: &str) -> Vec<Wrapped> {
    let t = data_type.clone();
    vec![
        (t.clone(), value.to_owned(), read.to_owned(), "c"),
        (struct_of(t.clone()), format!("{{\"v\":{value}}}"), format!("{{before: ~, v: {read}}}"), "c.v"),
        (
            struct_of(t.clone()),
            format!("{{\"x\":[{value}],\"V\": {value} ,\"before\":7}}"),
            format!("{{before: 7, v: {read}}}"),
            "c.v",
        ),
        (list_of(t.clone()), format!("[null,{value}]"), format!("[~, {read}]"), "c[]"),
        (
            list_of(struct_of(t.clone())),
            format!("[{{\"before\":1,\"v\":null}},null,{{\"V\":{value}}}]"),
            format!("[{{before: 1, v: ~}}, ~, {{before: ~, v: {read}}}]"),
            "c[].v",
        ),
        (
            struct_of(list_of(t.clone())),
            format!("{{\"v\":[{value}]}}"),
            format!("{{before: ~, v: [{read}]}}"),
            "c.v[]",
        ),
        (list_of(list_of(t.clone())), format!("[[],[{value}]]"), format!("[[], [{read}]]"), "c[][]"),
        (map_of(t), format!("{{\"k\":{value}}}"), format!("{{k: {read}}}"), "c.values"),
    ]
}

/// Reads lines as one column; each row as a text.
fn read(data_type: &DataType, lines: &str) -> (Vec<String>, Faults) {
    let field = with_epoch_unit(Field::new("c", data_type.clone(), true), TimeUnit::Millisecond);
    let schema = Arc::new(Schema::new(vec![field]));
    let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 100 };
    let mut decoder = text_decoder(Format::Json, settings).unwrap();
    let mut batches = VecDeque::new();
    decoder.begin("f");
    decoder.decode(lines.as_bytes(), &mut batches).unwrap();
    decoder.finish(&mut batches).unwrap();
    (batches.iter().flat_map(texts).collect(), decoder.faults())
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("~");
    let formatter = ArrayFormatter::try_new(batch.column(0), &options).unwrap();
    (0..batch.num_rows()).map(|row| formatter.value(row).to_string()).collect()
}

#[test]
fn a_value_is_read_alike_wherever_it_lies() {
    for (data_type, value, expected) in table() {
        let mut flat_reason = String::new();
        for (column, json, text, path) in wrapped(&data_type, value, expected.unwrap_or("")) {
            // Good rows around a bad one stay.
            let lines = format!("{{\"c\":null}}\n{{\"c\":{json}}}\n{{\"c\":null}}\n");
            let (rows, faults) = read(&column, &lines);
            match expected {
                Some(_) => {
                    assert_eq!(rows, ["~", &text, "~"], "{data_type} from {json}: {:?}", faults.samples);
                    assert_eq!(faults.count, 0);
                }
                None => {
                    assert_eq!(
                        (rows, faults.count),
                        (vec!["~".to_owned(), "~".to_owned()], 1),
                        "{column}: {json}"
                    );
                    let reason = faults.samples[0].strip_prefix(&format!("f, line 2: column '{path}': "));
                    let reason = reason.unwrap_or_else(|| panic!("{path}: {:?}", faults.samples)).to_owned();
                    if path == "c" {
                        flat_reason = reason;
                    } else {
                        assert_eq!(reason, flat_reason, "{json}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_value_of_another_kind_is_refused_with_its_text() {
    let (rows, faults) =
        read(&struct_of(DataType::Int32), "{\"c\":5}\n{\"c\":[{\"v\":1}]}\n{\"c\":{\"v\":1}}\n");
    assert_eq!(rows, ["{before: ~, v: 1}"]);
    assert_eq!(
        faults.samples[1],
        "f, line 2: column 'c': '[{\"v\":1}]' is not a STRUCT<before BIGINT, v INT>"
    );
    let (rows, faults) = read(&list_of(DataType::Int32), "{\"c\":{\"a\":1}}\n{\"c\":\"[1]\"}\n{\"c\":[1]}\n");
    assert_eq!((rows, faults.count), (vec!["[1]".to_owned()], 2));
    assert_eq!(faults.samples[0], "f, line 1: column 'c': '{\"a\":1}' is not an INT[]");
}

#[test]
fn parts_that_must_have_a_value_are_checked() {
    let fields = vec![Field::new("v", DataType::Int32, false)];
    let column = DataType::Struct(fields.into());
    let (rows, faults) = read(&column, "{\"c\":{\"v\":1}}\n{\"c\":{}}\n{\"c\":null}\n{\"c\":{\"v\":null}}\n");
    assert_eq!(rows, ["{v: 1}", "~"]);
    assert_eq!(faults.samples[0], "f, line 2: column 'c.v' is NOT NULL, but has no value");
    assert_eq!(faults.count, 2);
}

#[test]
fn lists_of_a_fixed_size_have_it() {
    let column = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float64, false)), 2);
    let (rows, faults) =
        read(&column, "{\"c\":[1,2]}\n{\"c\":[1]}\n{\"c\":null}\n{\"c\":[1,null]}\n{\"c\":[3,4]}\n");
    assert_eq!(rows, ["[1.0, 2.0]", "~", "[3.0, 4.0]"]);
    assert_eq!(faults.samples[0], "f, line 2: column 'c': 1 values instead of 2");
}

#[test]
fn keys_are_found_in_any_case_and_two_are_refused() {
    let column = struct_of(DataType::Int32);
    let (rows, faults) = read(
        &column,
        "{\"C\":{\"V\":1}}\n{\"c\":{\"V\":1,\"v\":2}}\n{\"c\":{\"V\":3,\"V\":4}}\n{\"c\":{\"V\":5,\"\\u0076\":6}}\n\
         {\"c\":{\"BEFORE\":1,\"Before\":2}}\n",
    );
    let expected = ["{before: ~, v: 1}", "{before: ~, v: 2}", "{before: ~, v: 4}", "{before: ~, v: 6}"];
    assert_eq!(rows, expected);
    assert_eq!(faults.samples, ["f, line 5: column 'before': both 'BEFORE' and 'Before' could be its key"]);
}

#[test]
fn keys_that_match_no_column_and_columns_without_keys_are_told() {
    let column = struct_of(DataType::Int32);
    let (rows, faults) = read(&column, "{\"d\":1}\n{\"d\":2}\n{}\n{\"c\":{\"before\":1,\"w\":2}}\n");
    assert_eq!((rows.len(), faults.count), (4, 0));
    assert_eq!(
        faults.notices.newest(),
        [
            "f, line 1: an object has no key that matches a column; its keys are d; the columns are c",
            "f: no object so far has c.v, and these keys match no column: c.w (1 times)"
        ]
    );
    let many = "{\"d\":1}\n".repeat(25);
    let (_, faults) = read(&column, &many);
    assert_eq!(
        faults.notices.count(),
        3,
        "the first, the tenth, and that c never came: {:?}",
        faults.notices
    );
}

#[test]
fn nesting_is_bounded_on_a_small_stack() {
    let deep =
        |open: &str, close: &str| format!("{{\"c\":{}{}}}\n", open.repeat(30_000), close.repeat(30_000));
    let lines = format!("{}{}{{\"c\":1}}\n", deep("[", "]"), deep("{\"c\":", "}"));
    let found =
        std::thread::Builder::new().stack_size(64 * 1024).spawn(move || read(&DataType::Utf8, &lines));
    let (rows, faults) = found.unwrap().join().unwrap();
    assert_eq!((rows, faults.count), (vec!["1".to_owned()], 2));
}
