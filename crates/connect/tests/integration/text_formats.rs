//! CSV and NDJSON: what is read, what is a fault, and that neither depends on how the bytes come in pieces.
#![cfg(feature = "tables")]

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit, UnionFields, UnionMode};
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use tidemill_connect::formats::{
    CsvSettings, DecoderSettings, Format, RECORD_LIMIT_BYTES, RecordDecoder, text_decoder,
};
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::Faults;

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn decoder(
    format: Format,
    schema: &SchemaRef,
    csv: CsvSettings,
    batch_rows: usize,
) -> Box<dyn RecordDecoder> {
    text_decoder(format, DecoderSettings { schema: schema.clone(), csv, batch_rows }).unwrap()
}

fn decode(
    decoder: &mut dyn RecordDecoder,
    pieces: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<(RecordBatch, Faults), Cause> {
    let mut batches = VecDeque::new();
    decoder.begin("f");
    for piece in pieces {
        decoder.decode(piece.as_ref(), &mut batches)?;
    }
    decoder.finish(&mut batches)?;
    let batch = concat_batches(&decoder.schema(), batches.iter()).unwrap();
    Ok((batch, decoder.faults()))
}

fn read(
    format: Format,
    schema: &SchemaRef,
    csv: CsvSettings,
    text: impl AsRef<[u8]>,
) -> (Vec<String>, Faults) {
    let (batch, faults) = decode(&mut *decoder(format, schema, csv, 3), [text]).unwrap();
    (rows(&batch), faults)
}

/// Each row as one text; NULL is `~`.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let cell = |column: &dyn Array, row| {
        if column.is_null(row) { "~".to_owned() } else { array_value_to_string(column, row).unwrap() }
    };
    let row = |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

fn without_header() -> CsvSettings {
    CsvSettings { header: Some(false), ..CsvSettings::default() }
}

fn with_header() -> CsvSettings {
    CsvSettings { header: Some(true), ..CsvSettings::default() }
}

fn id_and_name() -> SchemaRef {
    schema(&[("id", DataType::Int64), ("name", DataType::Utf8)])
}

#[test]
fn csv_nulls_quotes_and_line_ends() {
    let text = "\u{feff}1,a\r\n\r\n2,\n3,\"\"\n,\"b \"\"x\"\"\r\nc\"\n\n5,d\"e";
    let (rows, faults) = read(Format::Csv, &id_and_name(), without_header(), text);
    assert_eq!(rows, ["1|a", "2|~", "3|", "~|b \"x\"\r\nc", "5|d\"e"]);
    assert_eq!(faults, Faults::default());
}

#[test]
fn csv_null_text_delimiter_and_quote_can_be_set() {
    let csv = CsvSettings {
        header: Some(true),
        delimiter: Some(b';'),
        quote: b'\'',
        null: "NA".to_owned(),
        ..CsvSettings::default()
    };
    let text = "id;name\nNA;NA\n;\n3;'NA'\n4;'it''s;'\n";
    let (rows, faults) = read(Format::Csv, &id_and_name(), csv, text);
    assert_eq!(rows, ["~|~", "~|", "3|NA", "4|it's;"]);
    assert_eq!(faults.count, 0);
}

#[test]
fn csv_header_is_matched_by_name_in_any_case_and_guessed() {
    let text = "Other,NAME,Id\nx,a,1\ny,b,2\n";
    for header in [None, Some(true)] {
        let csv = CsvSettings { header, ..CsvSettings::default() };
        assert_eq!(read(Format::Csv, &id_and_name(), csv, text).0, ["1|a", "2|b"]);
    }
    let csv = CsvSettings::default();
    assert_eq!(read(Format::Csv, &id_and_name(), csv, "1,a\n2,b\n").0, ["1|a", "2|b"]);
}

#[test]
fn csv_missing_column_names_file_columns_and_a_close_match() {
    let wanted = schema(&[("event_time", DataType::Utf8)]);
    let mut decoder = decoder(Format::Csv, &wanted, with_header(), 10);
    let error = decode(&mut *decoder, ["ad,evnt_time\n1,2\n"]).unwrap_err();
    let text = "f: there is no column 'event_time'; the columns are ad, evnt_time; did you mean 'evnt_time'?";
    assert_eq!(error, Cause::user(text.to_owned()));
}

#[test]
fn csv_faults_have_line_and_reason_and_neighbours_stay() {
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("small", DataType::Int8, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
    ]));
    let mut text = b"id,small,at\n1,2,2026-01-01T00:00:00\nx,2,\n2,300,\n3,,2026-13-01\n4,,\n".to_vec();
    text.extend(b",1,\n5,1\n5,1,,\n\"6,1,\n7,1,\n8,\xff,\n9,\0,\n\"10\"x,1,\n99999999999999999999,,\n11,,\n");
    let (rows, faults) = read(Format::Csv, &(columns as SchemaRef), with_header(), text);
    assert_eq!(rows, ["1|2|2026-01-01T00:00:00", "4|~|~", "7|1|~", "11|~|~"]);
    assert_eq!(faults.count, 11);
    let expected = [
        "f, line 3: column 'id': 'x' is not a BIGINT",
        "f, line 4: column 'small': 300 does not fit into TINYINT",
        "f, line 5: column 'at': '2026-13-01' is not a TIMESTAMP",
        "f, line 7: column 'id' is NOT NULL, but has no value",
        "f, line 8: 2 fields instead of 3",
        "f, line 9: 4 fields instead of 3",
        "f, line 10: text follows a closing quote (a quote in a quoted field is doubled)",
    ];
    for text in expected {
        assert!(faults.samples.iter().any(|sample| sample == text), "{text} is not in {:#?}", faults.samples);
    }
}

#[test]
fn csv_bytes_that_are_no_text_are_faults() {
    let (rows, faults) = read(Format::Csv, &id_and_name(), without_header(), b"1,a\n2,\xff\xfe\n3,\0\n4,d\n");
    assert_eq!(rows, ["1|a", "4|d"]);
    assert_eq!(faults.samples, ["f, line 2: bytes that are not UTF-8", "f, line 3: a NUL byte"]);
}

#[test]
fn a_record_that_is_too_long_is_one_fault() {
    let long = "y".repeat(2 * RECORD_LIMIT_BYTES + 77);
    let csv = format!("1,a\n2,{long}\n3,b\n4,\"{}\n5,c\n", "z\n".repeat(10));
    let (rows, faults) = read(Format::Csv, &id_and_name(), without_header(), csv);
    assert_eq!(&rows[..2], ["1|a", "3|b"]);
    assert_eq!(rows.last().unwrap(), "5|c");
    assert!(faults.samples[0].starts_with("f, line 2: longer than 1048576 bytes"), "{:?}", faults.samples);
    assert_eq!(faults.samples[1], "f, line 4: a quote is not closed");
    let json = format!("{{\"id\":1}}\n{{\"name\":\"{long}\"}}\n{{\"id\":3}}\n");
    let (rows, faults) = read(Format::Json, &id_and_name(), CsvSettings::default(), json);
    assert_eq!(rows, ["1|~", "3|~"]);
    assert_eq!(faults.samples, ["f, line 2: longer than 1048576 bytes"]);
}

#[test]
fn a_quote_that_is_never_closed_does_not_take_the_rest_along() {
    let rest: String = (0..300_000).map(|id| format!("{id},name\n")).collect();
    let (rows, faults) = read(Format::Csv, &id_and_name(), without_header(), format!("0,\"open\n{rest}"));
    assert_eq!((rows.len(), faults.count), (300_000, 1));
}

#[test]
fn ndjson_faults_have_line_and_reason_and_neighbours_stay() {
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
    ])) as SchemaRef;
    let mut text =
        b"\xef\xbb\xbf{\"id\":1,\"at\":\"2026-01-01 00:00:00\",\"x\":[{}]}\r\n\n{\"id\":1.5}\n".to_vec();
    text.extend(
        b"{\"id\":\n2}\n{\"id\":3}{\"id\":4}\n{\"id\":5\n{\"id\":6}\n{}\n[1]\n7\n{\"id\":8,\"at\":17}\n",
    );
    text.extend(b"{\"id\":\"9\"}\n\0\n\xff\n{\"id\":1e3}\n{\"id\":{}}\n{\"id\":10}");
    let (rows, faults) = read(Format::Json, &columns, CsvSettings::default(), text);
    assert_eq!(rows, ["1|2026-01-01T00:00:00", "6|~", "9|~", "1000|~", "10|~"]);
    assert_eq!(faults.count, 12);
    assert!(faults.samples.contains(&"f, line 3: column 'id': 1.5 does not fit into BIGINT".to_owned()));
    assert!(faults.samples.contains(&"f, line 6: not one JSON object".to_owned()), "{:#?}", faults.samples);
}

#[test]
fn ndjson_lists_structs_and_keys_in_another_case() {
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let inner = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    let columns = schema(&[("vector", DataType::List(item)), ("userid", DataType::Int64), ("o", inner)]);
    let text = "{\"userId\":7,\"vector\":[1,2.5],\"o\":{\"x\":3}}\n{\"userId\":8}\n";
    let (rows, faults) = read(Format::Json, &columns, CsvSettings::default(), text);
    assert_eq!((rows, faults.count), (vec!["[1.0, 2.5]|7|{x: 3}".to_owned(), "~|8|~".to_owned()], 0));
}

#[test]
fn csv_has_vectors_decimals_dictionaries_and_zones() {
    let item = || Arc::new(Field::new_list_field(DataType::Float64, false));
    let columns = schema(&[
        ("v", DataType::List(item())),
        ("p", DataType::FixedSizeList(item(), 2)),
        ("m", DataType::Decimal128(6, 2)),
        ("d", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))),
        ("z", DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into()))),
        ("b", DataType::Boolean),
        ("t", DataType::Time64(TimeUnit::Nanosecond)),
    ]);
    let text = "\"[1, 2.5]\",\"[3,4]\",1.25,x,2026-01-01 01:00:00,T,10:00:01\n\
                [],,12345.00,,,,\n\
                \"[1,x]\",,,,,,\n\
                ,[1],,,,,\n\
                ,\"[1,]\",,,,,\n\
                ,,,y,,2,\n\
                [7],,-3.5,x,2025-12-31T23:00:00Z,0,\n";
    let (rows, faults) = read(Format::Csv, &columns, without_header(), text);
    let expected = [
        "[1.0, 2.5]|[3.0, 4.0]|1.25|x|2026-01-01T01:00:00+02:00|true|10:00:01",
        "[7.0]|~|-3.50|x|2026-01-01T01:00:00+02:00|false|~",
    ];
    assert_eq!(rows, expected);
    assert_eq!(faults.count, 5);
    assert!(faults.samples.contains(&"f, line 2: column 'm': '12345.00' is not a DECIMAL(6, 2)".to_owned()));
    assert!(faults.samples.contains(&"f, line 3: column 'v': '[1,x]' is not a DOUBLE[]".to_owned()));
}

#[test]
fn only_chosen_columns_are_made() {
    for (format, text) in
        [(Format::Csv, "id,name\n1,a\n2,b\n"), (Format::Json, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n")]
    {
        let mut decoder = decoder(format, &id_and_name(), with_header(), 10);
        decoder.set_projection(&[1]).unwrap();
        let (batch, faults) = decode(&mut *decoder, [text]).unwrap();
        assert_eq!((rows(&batch), faults.count), (vec!["a".to_owned(), "b".to_owned()], 0));
        decoder.set_projection(&[]).unwrap();
        assert_eq!(
            decode(&mut *decoder, [text]).unwrap().0.num_rows(),
            2,
            "rows without columns are counted"
        );
        assert!(matches!(decoder.set_projection(&[5]), Err(Cause { fault: Fault::Bug, .. })));
    }
}

#[test]
fn settings_that_cannot_be_served_are_refused() {
    let refused = |format, columns: &SchemaRef, csv| {
        let settings = DecoderSettings { schema: columns.clone(), csv, batch_rows: 1 };
        matches!(text_decoder(format, settings), Err(Cause { fault: Fault::User, .. }))
    };
    let comma_twice = CsvSettings { quote: b',', ..CsvSettings::default() };
    assert!(refused(Format::Csv, &id_and_name(), comma_twice));
    let union = schema(&[("u", DataType::Union(UnionFields::empty(), UnionMode::Sparse))]);
    assert!(refused(Format::Csv, &union, CsvSettings::default()));
    assert!(refused(Format::Parquet, &id_and_name(), CsvSettings::default()));
}

/// A value of a table that is written and read back.
#[derive(Clone, Debug)]
struct Row {
    id: Option<i64>,
    number: Option<f64>,
    text: Option<String>,
    at: Option<i64>,
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop_oneof!["[a-z ,\"\r\n\t;'üé漢]{0,12}", Just("true".to_owned()), Just(String::new())];
    let finite = any::<f64>().prop_filter("finite", |value| value.is_finite());
    let times = -2_000_000_000_000_000_000i64..4_000_000_000_000_000_000;
    let option = proptest::option::of::<BoxedStrategy<i64>>;
    (
        option(any::<i64>().boxed()),
        proptest::option::of(finite),
        proptest::option::of(text),
        option(times.boxed()),
    )
        .prop_map(|(id, number, text, at)| Row { id, number, text, at })
}

/// ISO 8601 by counting days, the slow way.
fn time(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (mut days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = |year: i64| 365 + i64::from(is_leap(year));
    let mut year = 1970;
    while days < 0 {
        year -= 1;
        days += length(year);
    }
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let mut month = 1;
    for month_days in [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < month_days {
            break;
        }
        days -= month_days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = nanoseconds.rem_euclid(1_000_000_000);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}", days + 1)
}

fn write_csv(table: &[Row], style: &[u8]) -> String {
    let mut text = "id,number,text,at\n".to_owned();
    for (row, style) in table.iter().zip(style.iter().cycle()) {
        let quoted = row.text.as_ref().map(|text| format!("\"{}\"", text.replace('"', "\"\"")));
        let mut fields = [
            row.id.map_or(String::new(), |id| id.to_string()),
            row.number.map_or(String::new(), |number| format!("{number:e}")),
            quoted.unwrap_or_default(),
            row.at.map_or(String::new(), time),
        ];
        if style & 1 == 1 {
            fields[0] = format!("\"{}\"", fields[0]);
        }
        text += &fields.join(",");
        text += if style & 2 == 2 { "\r\n" } else { "\n" };
        text += if style & 12 == 12 { "\n" } else { "" };
    }
    text
}

fn write_json(table: &[Row], style: &[u8]) -> String {
    let escape = |text: &str| {
        let escaped = text.chars().map(|character| match character {
            '"' => "\\\"".to_owned(),
            other if u32::from(other) < 32 => format!("\\u{:04x}", u32::from(other)),
            other => other.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    let mut lines = String::new();
    for (row, style) in table.iter().zip(style.iter().cycle()) {
        let mut pairs = vec![
            row.id.map(|id| format!("\"id\":{id}")),
            row.number.map(|number| format!("\"number\" : {number:e}")),
            row.text.as_ref().map(|text| format!("\"text\":{}", escape(text))),
            row.at.map(|at| format!("\"at\":\"{}\"", time(at))),
        ];
        pairs.rotate_left(usize::from(style % 4));
        let pairs: Vec<String> = pairs.into_iter().flatten().collect();
        lines += &format!("{{{}}}{}", pairs.join(", "), if style & 4 == 4 { "\r\n" } else { "\n" });
    }
    lines
}

fn table_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    schema(&[("id", DataType::Int64), ("number", DataType::Float64), ("text", DataType::Utf8), ("at", time)])
}

fn check_table(batch: &RecordBatch, table: &[Row]) {
    assert_eq!(batch.num_rows(), table.len());
    let ids: Vec<Option<i64>> = batch.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(ids, table.iter().map(|row| row.id).collect::<Vec<_>>());
    let numbers: Vec<Option<f64>> = batch.column(1).as_primitive::<Float64Type>().iter().collect();
    assert_eq!(numbers, table.iter().map(|row| row.number).collect::<Vec<_>>());
    let texts: Vec<Option<&str>> = batch.column(2).as_string::<i32>().iter().collect();
    assert_eq!(texts, table.iter().map(|row| row.text.as_deref()).collect::<Vec<_>>());
    let times: Vec<Option<i64>> = batch.column(3).as_primitive::<TimestampNanosecondType>().iter().collect();
    assert_eq!(times, table.iter().map(|row| row.at).collect::<Vec<_>>());
}

/// Divides bytes at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(bytes.len());
    let mut start = 0;
    cuts.into_iter().map(|cut| &bytes[std::mem::replace(&mut start, cut)..cut]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        table in prop::collection::vec(row(), 0..40),
        style in prop::collection::vec(any::<u8>(), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        batch_rows in 1usize..20,
    ) {
        let texts = [(Format::Csv, write_csv(&table, &style)), (Format::Json, write_json(&table, &style))];
        for (format, text) in texts {
            let mut decoder = decoder(format, &table_schema(), with_header(), batch_rows);
            let (batch, faults) = decode(&mut *decoder, pieces(text.as_bytes(), &cuts)).unwrap();
            prop_assert_eq!(faults, Faults::default());
            check_table(&batch, &table);
        }
    }

    #[test]
    fn rows_and_faults_do_not_depend_on_the_pieces(
        bytes in prop::collection::vec(
            prop_oneof![
                8 => proptest::sample::select(b"1,\"\n\r;{}[]:a".to_vec()),
                1 => any::<u8>(),
            ], 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        batch_rows in 1usize..5,
    ) {
        for format in [Format::Csv, Format::Json] {
            let mut whole = decoder(format.clone(), &id_and_name(), without_header(), 8192);
            let (expected, expected_faults) = decode(&mut *whole, [&bytes]).unwrap();
            let mut divided = decoder(format, &id_and_name(), without_header(), batch_rows);
            let (found, faults) = decode(&mut *divided, pieces(&bytes, &cuts)).unwrap();
            prop_assert_eq!(rows(&expected), rows(&found));
            prop_assert_eq!(expected_faults.count, faults.count);
        }
    }

    #[test]
    fn what_is_json_does_not_depend_on_the_pieces(
        lines in prop::collection::vec(proptest::sample::select(vec![
            r#"{"id":1}"#, r#"{"ID":2,"name":"a"}"#, r#"{"x":1-2,"id":3}"#, r#"{"x":1e999,"id":4}"#, r#"{"id":[5]}"#,
            "{}", "[6]", r#"{"id":7}{"id":8}"#, r#"{"x":[1,"a"],"id":9}"#, r#"{"x":.5,"Id":"10"}"#, "{nonsense}",
            r#"{"id":11,"id":12}"#, r#"{"x":{"id":13},"name":null}"#, "",
        ]), 0..12),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        batch_rows in 1usize..5,
    ) {
        let bytes = lines.join("\n").into_bytes();
        let mut whole = decoder(Format::Json, &id_and_name(), without_header(), 8192);
        let (expected, expected_faults) = decode(&mut *whole, [&bytes]).unwrap();
        let mut divided = decoder(Format::Json, &id_and_name(), without_header(), batch_rows);
        let (found, faults) = decode(&mut *divided, pieces(&bytes, &cuts)).unwrap();
        prop_assert_eq!(rows(&expected), rows(&found));
        // Which of them is found first is not said.
        let sorted = |mut samples: Vec<String>| {
            samples.sort();
            samples
        };
        prop_assert_eq!(sorted(expected_faults.samples), sorted(faults.samples));
    }

    #[test]
    fn good_neighbours_of_random_bytes_stay(
        garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..30),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        for format in [Format::Csv, Format::Json] {
            let mut bytes = Vec::new();
            for (id, garbage) in garbage.iter().enumerate() {
                // A quote could begin a record with newlines in it, of which the neighbours are a part.
                let garbage = garbage.iter().filter(|byte| !matches!(byte, b'\n' | b'"' ));
                bytes.extend(garbage);
                bytes.push(b'\n');
                bytes.extend(match format {
                    Format::Csv => format!("{id},good\n").into_bytes(),
                    _ => format!("{{\"id\":{id},\"name\":\"good\"}}\n").into_bytes(),
                });
            }
            let mut decoder = decoder(format, &id_and_name(), without_header(), 7);
            let (batch, _) = decode(&mut *decoder, pieces(&bytes, &cuts)).unwrap();
            let found = rows(&batch);
            let good: Vec<_> = found.iter().filter(|row| row.ends_with("|good")).cloned().collect();
            let expected: Vec<_> = (0..garbage.len()).map(|id| format!("{id}|good")).collect();
            prop_assert_eq!(good, expected);
        }
    }
}
