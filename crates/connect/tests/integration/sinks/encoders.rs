//! Text that is written and read back, and how it looks.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, TimestampNanosecondArray,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use tidemill_connect::formats::encode::{CsvStyle, TableLayout, TableStyle, TextFormat};
use tidemill_core::{Cause, Fault};

/// Texts with everything that needs quotes.
fn any_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-z,;\"\n\r\t é日🚗\\\\]{0,8}")
}

fn any_column(rows: usize) -> impl Strategy<Value = ArrayRef> {
    let texts = prop::collection::vec(any_text(), rows);
    let longs = prop::collection::vec(prop::option::of(any::<i64>()), rows);
    let odd = prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300]);
    let doubles = prop::collection::vec(prop::option::of(prop_oneof![any::<f64>(), odd]), rows);
    // Between the years 1700 and 2240; every second one without a fraction.
    let time = (-8_000_000_000_i64..8_000_000_000, prop_oneof![Just(0), 0..1_000_000_000_i64]);
    let time = time.prop_map(|(seconds, rest)| seconds * 1_000_000_000 + rest);
    let times = prop::collection::vec(prop::option::of(time), rows);
    (0..10_usize, texts, longs, doubles, times).prop_map(|(kind, texts, longs, doubles, times)| match kind {
        0 => Arc::new(StringArray::from(texts)) as ArrayRef,
        1 => Arc::new(StringViewArray::from_iter(texts)),
        2 => Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
        3 => Arc::new(Int64Array::from(longs)),
        4 => Arc::new(Float64Array::from(doubles)),
        5 => Arc::new(doubles.iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>()),
        6 => Arc::new(TimestampNanosecondArray::from(times)),
        7 => Arc::new(TimestampNanosecondArray::from(times).with_timezone("+00:00")),
        8 => {
            let longs = longs.iter().map(|value| value.map(|value| i128::from(value % 1_000_000_000)));
            Arc::new(longs.collect::<Decimal128Array>().with_precision_and_scale(12, 3).unwrap())
        }
        _ => {
            let days = times.iter().map(|time| time.map(|time| (time / 86_400_000_000_000) as i32));
            Arc::new(days.collect::<Date32Array>())
        }
    })
}

fn any_rows() -> impl Strategy<Value = RecordBatch> {
    (1..40_usize, 1..6_usize).prop_flat_map(|(rows, columns)| {
        let columns = prop::collection::vec(any_column(rows), columns);
        (columns, prop::collection::vec(prop::option::of(any::<bool>()), rows)).prop_map(
            |(mut columns, flags)| {
                if columns.len() % 2 == 0 {
                    columns.push(Arc::new(BooleanArray::from(flags)));
                }
                let named = columns.into_iter().enumerate();
                let named = named.map(|(index, column)| (format!("c, {index}"), column, true));
                RecordBatch::try_from_iter_with_nullable(named).unwrap()
            },
        )
    })
}

/// What readers give back: no dictionaries, and where the format cannot tell, NULL.
fn as_read(rows: &RecordBatch, is_null: fn(&str) -> bool) -> RecordBatch {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8 | DataType::Utf8View | DataType::Dictionary(_, _) => {
            let texts = cast(column, &DataType::Utf8).unwrap();
            let texts = texts.as_string::<i32>().iter().map(|text| text.filter(|text| !is_null(text)));
            Arc::new(texts.collect::<StringArray>()) as ArrayRef
        }
        _ => column.clone(),
    });
    let names = rows.schema();
    let names = names.fields().iter().map(|field| field.name().clone());
    let named: Vec<_> = names.zip(columns).map(|(name, column)| (name, column, true)).collect();
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

/// Encodes the rows in pieces.
fn encode(format: &TextFormat, rows: &RecordBatch, piece: usize) -> String {
    let mut encoder = format.encoder(&rows.schema()).unwrap();
    let mut text = Vec::new();
    encoder.header(&mut text);
    let mut start = 0;
    while start < rows.num_rows() {
        let length = piece.min(rows.num_rows() - start);
        encoder.rows(&rows.slice(start, length), &mut text).unwrap();
        start += length;
    }
    String::from_utf8(text).unwrap()
}

fn collect(
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, arrow_schema::ArrowError>>,
) -> RecordBatch {
    concat_batches(schema, &batches.collect::<Result<Vec<_>, _>>().unwrap()).unwrap()
}

proptest! {
    #[test]
    fn csv_is_read_back_equal(
        rows in any_rows(),
        piece in 1..40_usize,
        delimiter in prop::sample::select(vec![b',', b';', b'\t']),
    ) {
        let text = encode(&TextFormat::Csv(CsvStyle { delimiter, header: true }), &rows, piece);
        let expected = as_read(&rows, str::is_empty);
        // Arrow's reader skips the empty line that is a NULL.
        prop_assume!(rows.num_columns() > 1);
        let reader = arrow_csv::ReaderBuilder::new(expected.schema()).with_header(true);
        let reader = reader.with_delimiter(delimiter);
        let read = collect(&expected.schema(), reader.build(Cursor::new(&text)).unwrap());
        prop_assert_eq!(read, expected, "{}", text);
    }

    #[test]
    fn ndjson_is_read_back_equal(rows in any_rows(), piece in 1..40_usize) {
        let text = encode(&TextFormat::Ndjson, &rows, piece);
        prop_assert_eq!(text.lines().count(), rows.num_rows());
        let expected = as_read(&rows, |_| false);
        let reader = arrow_json::ReaderBuilder::new(expected.schema()).build(Cursor::new(&text)).unwrap();
        prop_assert_eq!(collect(&expected.schema(), reader), expected, "{}", text);
    }

    #[test]
    fn a_table_has_a_line_per_row_and_no_control_characters(rows in any_rows(), piece in 1..40_usize) {
        let text = encode(&TextFormat::table(), &rows, piece);
        prop_assert_eq!(text.lines().count(), rows.num_rows() + 2);
        prop_assert!(!text.chars().any(|character| character.is_control() && character != '\n'));
    }
}

#[test]
fn times_have_a_fraction_only_where_it_is_not_zero() {
    let times = vec![1_795_201_200_000_000_000, 1_795_201_200_500_000_000, 1_795_201_200_000_000_001];
    let plain = Arc::new(TimestampNanosecondArray::from(times.clone())) as ArrayRef;
    let zoned = Arc::new(TimestampNanosecondArray::from(times).with_timezone("+01:00")) as ArrayRef;
    let rows = RecordBatch::try_from_iter([("at", plain), ("there", zoned)]).unwrap();
    let expected = "at,there\n\
                    2026-11-20 19:00:00,2026-11-20 20:00:00+01:00\n\
                    2026-11-20 19:00:00.500,2026-11-20 20:00:00.500+01:00\n\
                    2026-11-20 19:00:00.000000001,2026-11-20 20:00:00.000000001+01:00\n";
    assert_eq!(encode(&TextFormat::csv(), &rows, 3), expected);
    let json = encode(&TextFormat::Ndjson, &rows.slice(0, 1), 1);
    assert_eq!(json, "{\"at\":\"2026-11-20T19:00:00\",\"there\":\"2026-11-20T20:00:00+01:00\"}\n");
}

#[test]
fn csv_tells_null_from_an_empty_text_and_loses_no_line() {
    let texts = Arc::new(StringArray::from(vec![Some(""), None, Some("a \"b\"")])) as ArrayRef;
    let two = RecordBatch::try_from_iter([("x", texts.clone()), ("y", texts.clone())]).unwrap();
    assert_eq!(encode(&TextFormat::csv(), &two, 3), "x,y\n\"\",\"\"\n,\n\"a \"\"b\"\"\",\"a \"\"b\"\"\"\n");
    let one = RecordBatch::try_from_iter([("x", texts)]).unwrap();
    assert_eq!(encode(&TextFormat::csv(), &one, 3), "x\n\"\"\n\n\"a \"\"b\"\"\"\n");
}

#[test]
fn lists_are_one_value() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let other = Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef;
    let rows = RecordBatch::try_from_iter([("list", Arc::new(lists) as ArrayRef), ("other", other)]).unwrap();
    assert_eq!(encode(&TextFormat::csv(), &rows, 2), "list,other\n\"{1,NULL}\",7\n,8\n");
    let json = "{\"list\":[1,null],\"other\":7}\n{\"list\":null,\"other\":8}\n";
    assert_eq!(encode(&TextFormat::Ndjson, &rows, 2), json);
}

#[test]
fn a_value_without_text_is_an_error_and_leaves_nothing() {
    let data_type = DataType::Timestamp(TimeUnit::Second, None);
    let times = cast(&Int64Array::from(vec![0, i64::MAX]), &data_type).unwrap();
    let rows = RecordBatch::try_from_iter([("at", times)]).unwrap();
    let mut text = b"before".to_vec();
    let refused = TextFormat::csv().encoder(&rows.schema()).unwrap().rows(&rows, &mut text);
    assert!(
        matches!(&refused, Err(Cause { fault: Fault::User, message, .. }) if message.contains("cast")),
        "{refused:?}"
    );
    assert_eq!(text, b"before");
}

#[test]
fn two_columns_of_one_name_are_refused_as_json() {
    let field = Arc::new(Field::new("a", DataType::Int64, true));
    let schema = Arc::new(Schema::new(vec![field.clone(), field]));
    let refused = TextFormat::Ndjson.encoder(&schema).err().unwrap();
    assert_eq!(refused.fault, Fault::User);
    assert!(refused.message.contains("rename one of them with AS"), "{refused}");
}

fn text_and_number(texts: Vec<Option<&str>>, numbers: Vec<Option<i64>>) -> RecordBatch {
    let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
    let numbers = Arc::new(Int64Array::from(numbers)) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([("text", texts, true), ("number", numbers, true)]).unwrap()
}

fn in_turn(style: TableStyle, batches: &[RecordBatch]) -> String {
    let mut encoder = TextFormat::Table(style).encoder(&batches[0].schema()).unwrap();
    let mut written = Vec::new();
    for rows in batches {
        encoder.rows(rows, &mut written).unwrap();
    }
    String::from_utf8(written).unwrap()
}

#[test]
fn a_table_keeps_its_widths_and_cuts_no_value() {
    let first = text_and_number(
        vec![Some("ab"), Some("日本"), None, Some("")],
        vec![Some(1), None, Some(2), Some(3)],
    );
    let long = ["a very long text", "日本日本日本日"].map(Some).to_vec();
    let second = text_and_number(long, vec![Some(1_234_567_890), Some(-5)]);
    let expected = [
        " text         |   number",
        "--------------+----------",
        " ab           |        1",
        " 日本         |     NULL",
        " NULL         |        2",
        "              |        3",
        " a very long text | 1234567890",
        " 日本日本日本日 |       -5",
        "",
    ];
    assert_eq!(in_turn(TableStyle::default(), &[first, second]), expected.join("\n"));
}

#[test]
fn rows_that_do_not_fit_the_terminal_have_a_line_for_each_value() {
    let style = |columns| TableStyle { layout: TableLayout::Fitting(columns), ..TableStyle::default() };
    let rows = text_and_number(vec![Some("日本日本日本日"), None], vec![Some(1), Some(2)]);
    // The line below the header is as wide as the terminal, to the column.
    assert!(in_turn(style(27), std::slice::from_ref(&rows)).starts_with(" text           |   number\n-----"));
    let expected = [
        "-[ 1 ]--+----------------",
        " text   | 日本日本日本日",
        " number | 1",
        "-[ 2 ]--+----------------",
        " text   | NULL",
        " number | 2",
        "-[ 3 ]--+----------------",
        " text   |",
        " number | NULL",
        "",
    ];
    let more = text_and_number(vec![Some("")], vec![None]);
    assert_eq!(in_turn(style(26), &[rows, more]), expected.join("\n"));
}

#[test]
fn a_value_cannot_command_the_terminal() {
    let texts = Arc::new(StringArray::from(vec!["a\nb\u{1b}[31m"])) as ArrayRef;
    let rows = RecordBatch::try_from_iter([("t\u{7}", texts)]).unwrap();
    let text = encode(&TextFormat::table(), &rows, 1);
    assert_eq!(text, " t\\u{7}\n----------------\n a\\nb\\u{1b}[31m\n");
    assert!(rows.column(0).len() == 1);
}
