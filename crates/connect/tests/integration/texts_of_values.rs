//! The texts of values in CSV are those of PostgreSQL, and CSV and JSON are read as the values that were written.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::formats::{CsvSettings, DecoderSettings, Format, text_decoder};
use tidemill_core::source::Faults;

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn row(parts: &[(&str, DataType)]) -> DataType {
    let parts = parts.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    DataType::Struct(parts.collect())
}

fn map(value: DataType) -> DataType {
    let entry = vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
}

/// A type, a value of it in JSON, and its text. Those of lists, rows, intervals and bytes are what PostgreSQL 15 answers.
fn table() -> Vec<(DataType, &'static str, &'static str)> {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let texts = list(DataType::Utf8);
    let pair = row(&[("n", DataType::Int32), ("t", DataType::Utf8)]);
    vec![
        (interval.clone(), r#""1 day 12 hours""#, "1 day 12:00:00"),
        (interval.clone(), r#""-14 months 3 days -1.5 seconds""#, "-1 years -2 mons +3 days -00:00:01.5"),
        (interval.clone(), r#""0 days""#, "00:00:00"),
        (list(interval), r#"["1 day", null, "2 hours"]"#, r#"{"1 day",NULL,02:00:00}"#),
        (DataType::Binary, r#""0aff""#, r"\x0aff"),
        (list(DataType::Int64), "[1,null,-3]", "{1,NULL,-3}"),
        (list(DataType::Float64), "[1.5,2.0]", "{1.5,2}"),
        (list(DataType::Boolean), "[true,false]", "{t,f}"),
        (list(time), r#"["2026-01-31 12:30:00.000000001"]"#, r#"{"2026-01-31 12:30:00.000000001"}"#),
        (texts.clone(), "[]", "{}"),
        (
            texts.clone(),
            r#"["a b", "c,d", "e\"f", "g\\h", "", null, "null", "x{y}", "(z)", "ü\n"]"#,
            "{\"a b\",\"c,d\",\"e\\\"f\",\"g\\\\h\",\"\",NULL,\"null\",\"x{y}\",(z),\"ü\n\"}",
        ),
        (list(texts.clone()), r#"[["a","b}"],[],["c"]]"#, r#"{{a,"b}"},{},{c}}"#),
        (list(list(DataType::Int32)), "[[1,2],[3,4]]", "{{1,2},{3,4}}"),
        (pair.clone(), r#"{"n":1,"t":"a b"}"#, r#"(1,"a b")"#),
        (pair.clone(), r#"{"n":null,"t":"x"}"#, "(,x)"),
        (pair.clone(), r#"{"n":2,"t":null}"#, "(2,)"),
        (pair.clone(), r#"{"n":3,"t":"say \"\\\", {a}, null"}"#, r#"(3,"say \"\\\", {a}, null")"#),
        (list(pair.clone()), r#"[{"n":1,"t":"a,b"},null]"#, r#"{"(1,\"a,b\")",NULL}"#),
        (
            row(&[("p", pair), ("l", texts)]),
            r#"{"p":{"n":1,"t":"a \"b"},"l":["c d",null]}"#,
            r#"("(1,\"a \\\"b\")","{\"c d\",NULL}")"#,
        ),
        (map(DataType::Int32), r#"{"a":1,"b c":null}"#, r#"{"(a,1)","(\"b c\",)"}"#),
    ]
}

fn schema(data_type: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, true),
        Field::new("v", data_type.clone(), true),
    ]))
}

fn read(format: Format, schema: &SchemaRef, text: &[u8]) -> (Option<RecordBatch>, Faults) {
    let settings = DecoderSettings { schema: schema.clone(), csv: CsvSettings::default(), batch_rows: 100 };
    let mut decoder = text_decoder(format, settings).unwrap();
    let mut batches = VecDeque::new();
    decoder.begin("f");
    decoder.decode(text, &mut batches).unwrap();
    decoder.finish(&mut batches).unwrap();
    (batches.pop_front(), decoder.faults())
}

#[test]
fn what_is_written_is_read_again_and_csv_has_postgresqls_texts() {
    for (data_type, json, text) in table() {
        let schema = schema(&data_type);
        let given = format!("{{\"id\":1,\"v\":{json}}}\n{{\"id\":2,\"v\":null}}\n");
        let (rows, faults) = read(Format::Json, &schema, given.as_bytes());
        let rows = rows.unwrap_or_else(|| panic!("{json}: {faults:?}"));
        let mut encoder = TextFormat::csv().encoder(&schema).unwrap();
        let mut written = Vec::new();
        encoder.header(&mut written);
        encoder.rows(&rows, &mut written).unwrap();
        let shown = String::from_utf8(written.clone()).unwrap();
        let is_quoted = text.contains(['"', ',', '\n']);
        let field = if is_quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() };
        assert_eq!(shown, format!("id,v\n1,{field}\n2,\n"), "{json}");
        let (again, faults) = read(Format::Csv, &schema, &written);
        assert_eq!((again, faults.count), (Some(rows.clone()), 0), "{json}: {faults:?}");
        let mut written = Vec::new();
        TextFormat::Ndjson.encoder(&schema).unwrap().rows(&rows, &mut written).unwrap();
        let (again, faults) = read(Format::Json, &schema, &written);
        assert_eq!((again, faults.count), (Some(rows), 0), "{json}: {faults:?}");
        if matches!(data_type, DataType::Interval(_)) {
            let line = format!("{{\"id\":1,\"v\":\"{text}\"}}\n");
            assert!(String::from_utf8(written).unwrap().starts_with(&line), "{json}");
        }
    }
}

#[test]
fn texts_that_are_no_lists_or_rows_are_refused() {
    let texts = list(DataType::Utf8);
    let pair = row(&[("n", DataType::Int32), ("t", DataType::Utf8)]);
    let wrong = [
        (
            &texts,
            vec![
                "a",
                "{a",
                "a}",
                "{{a},{b}}",
                "{a}b}",
                "{a,}",
                "{,a}",
                "{\"a}",
                "{a\\}",
                "{a}{b}",
                "{\"a\"b{}",
            ],
        ),
        (&pair, vec!["1,a", "(1,a", "(1)", "(1,a,b)", "(x,a)", "(1,\"a)", "(1,a)b", "()"]),
        (&map(DataType::Int32), vec!["{a}", "{\"(a)\"}", "{\"(,1)\"}", "{\"(a,x)\"}"]),
    ];
    for (data_type, texts) in wrong {
        for text in texts {
            let field = text.replace('"', "\"\"");
            let (rows, faults) =
                read(Format::Csv, &schema(data_type), format!("id,v\n1,\"{field}\"\n").as_bytes());
            assert_eq!((rows, faults.count), (None, 1), "{text}");
        }
    }
}
