//! What is written as text is read back as it was: our encoders against our decoders, with the values that were written
//! as the judge. Every type that a column can have, with its extremes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationNanosecondArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, RecordBatch, StringArray, StructArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt8Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use proptest::prelude::*;
use tidemill_connect::formats::csv::CsvDecoder;
use tidemill_connect::formats::encode::{CsvStyle, TextFormat};
use tidemill_connect::formats::ndjson::NdjsonDecoder;
use tidemill_connect::formats::{CsvSettings, DecoderSettings, RecordDecoder};

const ROWS_MAX: usize = 12;

/// NULL often, since it is what texts tell worst.
fn some<T: std::fmt::Debug + Clone>(
    values: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Option<T>>> {
    prop::collection::vec(prop_oneof![1 => Just(None), 3 => values.prop_map(Some)], ROWS_MAX)
}

fn text() -> impl Strategy<Value = String> {
    let odd = [
        "",
        " ",
        "NULL",
        "null",
        "\"",
        "\"\"",
        ",",
        ";",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\\N",
        "NaN",
        "\u{feff}x",
        "日本\n🚗",
        "{}",
    ];
    prop_oneof![prop::sample::select(odd.to_vec()).prop_map(str::to_owned), "[a-z,;\"\n\r\t é日🚗\\\\]{0,8}"]
}

fn double() -> impl Strategy<Value = f64> {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        1e15,
        0.1,
    ];
    prop_oneof![
        any::<f64>().prop_filter("one NaN is enough", |value| !value.is_nan()),
        prop::sample::select(odd.to_vec())
    ]
}

fn long() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), prop::sample::select(vec![i64::MIN, i64::MAX, 0, -1, i64::MIN + 1])]
}

/// A column of every type that both formats have.
fn flat_column() -> impl Strategy<Value = ArrayRef> {
    let texts = some(text()).prop_map(|values| Arc::new(StringArray::from(values)) as ArrayRef);
    prop_oneof![texts, number_column(), time_column(), list_column()]
}

fn number_column() -> impl Strategy<Value = ArrayRef> {
    let float = |values: Vec<Option<f64>>| values.into_iter().map(|value| value.map(|value| value as f32));
    let decimal = |values| Decimal128Array::from(values).with_precision_and_scale(38, 10).unwrap();
    prop_oneof![
        some(double()).prop_map(|values| Arc::new(Float64Array::from(values)) as ArrayRef),
        some(double()).prop_map(move |values| Arc::new(Float32Array::from_iter(float(values))) as ArrayRef),
        some(any::<bool>()).prop_map(|values| Arc::new(BooleanArray::from(values)) as ArrayRef),
        some(long()).prop_map(|values| Arc::new(Int64Array::from(values)) as ArrayRef),
        some(any::<i32>()).prop_map(|values| Arc::new(Int32Array::from(values)) as ArrayRef),
        some(any::<i16>()).prop_map(|values| Arc::new(Int16Array::from(values)) as ArrayRef),
        some(any::<i8>()).prop_map(|values| Arc::new(Int8Array::from(values)) as ArrayRef),
        some(any::<u8>()).prop_map(|values| Arc::new(UInt8Array::from(values)) as ArrayRef),
        some(any::<u64>()).prop_map(|values| Arc::new(UInt64Array::from(values)) as ArrayRef),
        some(prop::collection::vec(any::<u8>(), 0..5))
            .prop_map(|values| Arc::new(BinaryArray::from_iter(values)) as ArrayRef),
        some(-(10_i128.pow(38) - 1)..10_i128.pow(38))
            .prop_map(move |values| Arc::new(decimal(values)) as ArrayRef),
    ]
}

fn time_column() -> impl Strategy<Value = ArrayRef> {
    let day = 86_400_000_000_000_i64;
    let interval =
        |(months, days, nanoseconds): (i32, i32, i64)| IntervalMonthDayNano::new(months, days, nanoseconds);
    let intervals = move |values: Vec<Option<(i32, i32, i64)>>| {
        values.into_iter().map(|value| value.map(interval)).collect::<IntervalMonthDayNanoArray>()
    };
    prop_oneof![
        some(long()).prop_map(|values| Arc::new(TimestampNanosecondArray::from(values)) as ArrayRef),
        // From the year 1 to the year 9999.
        some(-719_162..=2_932_896_i32).prop_map(|values| Arc::new(Date32Array::from(values)) as ArrayRef),
        some(prop_oneof![0..day, Just(day - 1)])
            .prop_map(|values| Arc::new(Time64NanosecondArray::from(values)) as ArrayRef),
        some((any::<i32>(), any::<i32>(), prop_oneof![-day..day, long()]))
            .prop_map(move |values| Arc::new(intervals(values)) as ArrayRef),
        some(long()).prop_map(|values| Arc::new(
            TimestampMicrosecondArray::from(
                values.into_iter().map(|value| value.map(|value| value / 1_000_000)).collect::<Vec<_>>()
            )
            .with_timezone("+02:00")
        ) as ArrayRef),
    ]
}

fn list_column() -> impl Strategy<Value = ArrayRef> {
    prop_oneof![
        some(prop::collection::vec(prop::option::of(double()), 0..4))
            .prop_map(
                |values| Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values)) as ArrayRef
            ),
        some(prop::collection::vec(prop::option::of(long()), 0..4)).prop_map(|values| Arc::new(
            ListArray::from_iter_primitive::<Int64Type, _, _>(values)
        ) as ArrayRef),
    ]
}

/// What only JSON has: structs, lists and lists of structs of everything else.
fn nested_column() -> impl Strategy<Value = ArrayRef> {
    let column = || prop_oneof![6 => flat_column(), 1 => Just(ROWS_MAX).prop_map(no_texts)];
    (column(), column(), prop::collection::vec(any::<bool>(), ROWS_MAX), 0..3).prop_map(
        |(first, second, valid, form)| {
            let fields = Fields::from(vec![
                Field::new("first", first.data_type().clone(), true),
                Field::new("Second", second.data_type().clone(), true),
            ]);
            let columns = vec![where_valid(&first, &valid), where_valid(&second, &valid)];
            let structs = Arc::new(StructArray::new(fields, columns, Some(valid.clone().into()))) as ArrayRef;
            match form {
                0 => structs,
                1 => lists_of(first, &valid),
                _ => lists_of(structs, &valid),
            }
        },
    )
}

fn no_texts(rows: usize) -> ArrayRef {
    Arc::new(StringArray::new_null(rows))
}

/// NULL where there is no struct.
fn where_valid(column: &ArrayRef, valid: &[bool]) -> ArrayRef {
    let places = valid.iter().enumerate().map(|(row, valid)| valid.then_some(row as u64));
    take(column, &places.collect::<UInt64Array>(), None).unwrap()
}

/// Two items for each row where there is a list, from the beginning of a column again and again.
fn lists_of(items: ArrayRef, valid: &[bool]) -> ArrayRef {
    let places = valid.iter().enumerate().filter(|(_, valid)| **valid);
    let places: UInt64Array =
        places.flat_map(|(row, _)| [row as u64, (row as u64 + 5) % ROWS_MAX as u64]).collect();
    let items = take(&items, &places, None).unwrap();
    let offsets = OffsetBuffer::from_lengths(valid.iter().map(|valid| 2 * usize::from(*valid)));
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(ListArray::new(item, offsets, items, Some(valid.to_vec().into())))
}

fn rows_of(columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let named = columns.into_iter().enumerate();
    let named = named.map(|(index, column)| (format!("c{index}"), column.slice(0, rows), true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

fn written(format: &TextFormat, rows: &RecordBatch) -> String {
    let mut encoder = format.encoder(&rows.schema()).unwrap();
    let mut text = Vec::new();
    encoder.header(&mut text);
    encoder.rows(rows, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// All rows, with what could not be read.
fn read(
    mut decoder: impl RecordDecoder,
    schema: &SchemaRef,
    text: &str,
    piece: usize,
) -> (RecordBatch, Vec<String>) {
    let mut batches = VecDeque::new();
    decoder.begin("text");
    for bytes in text.as_bytes().chunks(piece) {
        decoder.decode(bytes, &mut batches).unwrap();
    }
    decoder.finish(&mut batches).unwrap();
    (concat_batches(schema, &batches).unwrap(), decoder.faults().samples)
}

/// Structs compare by their fields, also where they are NULL: so nothing may be left there.
fn same(left: &RecordBatch, right: &RecordBatch) -> bool {
    left.num_rows() == right.num_rows()
        && left.columns().iter().zip(right.columns()).all(|(left, right)| left.to_data() == right.to_data())
}

proptest! {
    #[test]
    fn csv_is_read_back_as_it_was_written(
        columns in prop::collection::vec(flat_column(), 1..4),
        rows in 1..=ROWS_MAX,
        delimiter in prop::sample::select(vec![b',', b';', b'\t', b'|']),
        header in any::<bool>(),
        piece in 1..200_usize,
    ) {
        let rows = rows_of(columns, rows);
        let text = written(&TextFormat::Csv(CsvStyle { delimiter, header }), &rows);
        let csv = CsvSettings { delimiter: Some(delimiter), header: Some(header), ..CsvSettings::default() };
        let decoder = CsvDecoder::new(DecoderSettings { schema: rows.schema(), csv, batch_rows: 5 }).unwrap();
        let (found, faults) = read(decoder, &rows.schema(), &text, piece);
        prop_assert_eq!(faults, [""; 0], "{}", text);
        prop_assert!(same(&found, &rows), "{:?}\n{:?}\n{}", found, rows, text);
    }

    #[test]
    fn ndjson_is_read_back_as_it_was_written(
        columns in prop::collection::vec(prop_oneof![5 => flat_column(), 1 => nested_column()], 1..4),
        rows in 1..=ROWS_MAX,
        piece in 1..200_usize,
    ) {
        let rows = rows_of(columns, rows);
        let text = written(&TextFormat::Ndjson, &rows);
        for line in text.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            prop_assert!(object.is_object());
        }
        let settings = DecoderSettings { schema: rows.schema(), csv: CsvSettings::default(), batch_rows: 5 };
        let (found, faults) = read(NdjsonDecoder::new(settings).unwrap(), &rows.schema(), &text, piece);
        prop_assert_eq!(faults, [""; 0], "{}", text);
        prop_assert!(same(&found, &rows), "{:?}\n{:?}\n{}", found, rows, text);
    }
}

#[test]
fn one_column_tells_null_from_an_empty_text() {
    let texts = StringArray::from(vec![None, Some(""), None, Some("a"), None]);
    let rows = rows_of(vec![Arc::new(texts)], 5);
    let text = written(&TextFormat::csv(), &rows);
    assert_eq!(text, "c0\n\n\"\"\n\na\n\n");
    for (header, text) in
        [(Some(true), text.as_str()), (Some(false), "\n\"\"\n\na\n\n"), (None, text.as_str())]
    {
        let csv = CsvSettings { header, ..CsvSettings::default() };
        let decoder = CsvDecoder::new(DecoderSettings { schema: rows.schema(), csv, batch_rows: 2 }).unwrap();
        let (found, faults) = read(decoder, &rows.schema(), text, 3);
        assert_eq!(faults, [""; 0]);
        assert_eq!(found, rows, "header: {header:?}");
    }
}

#[test]
fn json_has_texts_for_what_is_no_number_there() {
    let values =
        vec![Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY), None, Some(-0.0), Some(1.5)];
    let rows = rows_of(vec![Arc::new(Float64Array::from(values))], 6);
    let expected = "{\"c0\":\"NaN\"}\n{\"c0\":\"Infinity\"}\n{\"c0\":\"-Infinity\"}\n{\"c0\":null}\n\
         {\"c0\":-0.0}\n{\"c0\":1.5}\n";
    assert_eq!(written(&TextFormat::Ndjson, &rows), expected);
}

#[test]
fn lengths_of_time_are_read_back_as_intervals() {
    let nanoseconds =
        [31_377_000_000_000, 0, -1, 86_400_000_000_000, 90_061_000_000_001, i64::MAX, i64::MIN + 1];
    let rows =
        rows_of(vec![Arc::new(DurationNanosecondArray::from(nanoseconds.to_vec()))], nanoseconds.len());
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c0", interval, true)]));
    let settings =
        || DecoderSettings { schema: Arc::clone(&schema), csv: CsvSettings::default(), batch_rows: 5 };
    let (csv, ndjson) = (written(&TextFormat::csv(), &rows), written(&TextFormat::Ndjson, &rows));
    for (found, faults) in [
        read(CsvDecoder::new(settings()).unwrap(), &schema, &csv, 50),
        read(NdjsonDecoder::new(settings()).unwrap(), &schema, &ndjson, 50),
    ] {
        assert_eq!(faults, [""; 0], "{csv}");
        let found = found.column(0).as_primitive::<IntervalMonthDayNanoType>();
        let lengths: Vec<i128> = found
            .values()
            .iter()
            .map(|value| i128::from(value.days) * 86_400_000_000_000 + i128::from(value.nanoseconds))
            .collect();
        assert_eq!(lengths, nanoseconds.map(i128::from));
    }
}
