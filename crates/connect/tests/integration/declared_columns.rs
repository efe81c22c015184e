//! The declared columns are a contract: which rows are good does not depend on the columns that a query reads. And which
//! key of a JSON object is which column.
#![cfg(feature = "tables")]

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::{DecoderSettings, Format, text_decoder, with_characters_max};
use tidemill_core::source::{Faults, Polled, Source};

/// `n BIGINT, name VARCHAR NOT NULL, at TIMESTAMP, note VARCHAR`
fn declared() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("name", DataType::Utf8, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("note", DataType::Utf8, true),
    ]))
}

/// Decodes a text and reads these columns of it: the rows, each as the texts of its values, and what was left out.
fn read(format: Format, schema: &SchemaRef, text: &str, columns: &[usize]) -> (Vec<Vec<String>>, Faults) {
    let mut settings = DecoderSettings { schema: schema.clone(), csv: Default::default(), batch_rows: 3 };
    settings.csv.header = Some(false);
    let mut decoder = text_decoder(format, settings).unwrap();
    decoder.set_projection(columns).unwrap();
    decoder.begin("f");
    let mut batches = VecDeque::new();
    decoder.decode(text.as_bytes(), &mut batches).unwrap();
    decoder.finish(&mut batches).unwrap();
    let cells = |batch: &RecordBatch, row: usize| -> Vec<String> {
        let cell = |column| array_value_to_string(column, row).unwrap();
        batch.columns().iter().map(|column| cell(column.as_ref())).collect()
    };
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| cells(batch, row)));
    (rows.collect(), decoder.faults())
}

/// The numbers of the lines that are reported as bad.
fn bad_lines(faults: &Faults) -> Vec<usize> {
    let number = |sample: &String| sample.strip_prefix("f, line ")?.split(':').next()?.parse().ok();
    let mut lines: Vec<usize> = faults.samples.iter().filter_map(number).collect();
    lines.sort_unstable();
    lines
}

/// One record with all of its columns in a format, and whether it is good.
#[derive(Clone, Debug)]
struct Record {
    n: &'static str,
    name: &'static str,
    time: &'static str,
    note: &'static str,
}

impl Record {
    fn text(&self, format: &Format) -> String {
        let Record { n, name, time, note } = self;
        match format {
            Format::Csv => format!("{n},{name},{time},{note}\n"),
            Format::Json => {
                let pairs = [("n", n), ("name", name), ("time", time), ("note", note)];
                let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
                let pairs: Vec<String> = given.map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
                format!("{{{}}}\n", pairs.join(","))
            }
            _ => {
                let tags = [("name", name), ("note", note)];
                let given = tags.into_iter().filter(|(_, value)| !value.is_empty());
                let tags: String = given.map(|(key, value)| format!(",{key}={value}")).collect();
                let n = if n.is_empty() { "other=1".to_owned() } else { format!("n={n}") };
                format!("m{tags} {n} {}\n", if time.is_empty() { "" } else { time })
            }
        }
    }
}

fn record(format: Format) -> impl Strategy<Value = (Record, bool)> {
    let is_points = format == Format::LineProtocol;
    let numbers: &[&str] =
        if is_points { &["1", "-7", "", "1.5", "true"] } else { &["1", "-7", "", "1.5", "x"] };
    let times: &[&str] =
        if is_points { &["1767225600000000000", "x"] } else { &["2026-01-01T00:00:00", "", "soon"] };
    let (numbers, times) = (numbers.to_vec(), times.to_vec());
    let one_of = proptest::sample::select::<&'static str>;
    (one_of(numbers), one_of(vec!["a", "b", ""]), one_of(times), one_of(vec!["", "c", "1"])).prop_map(
        |(n, name, time, note)| {
            let is_good =
                !matches!(n, "1.5" | "x" | "true") && !name.is_empty() && !matches!(time, "x" | "soon");
            (Record { n, name, time, note }, is_good)
        },
    )
}

fn some_columns() -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence(vec![0usize, 1, 2, 3], 0..=4).prop_shuffle()
}

fn same_rows_are_good(format: Format, records: &[(Record, bool)], columns: &[usize]) {
    let text: String = records.iter().map(|(record, _)| record.text(&format)).collect();
    let good = records.iter().filter(|(_, is_good)| *is_good).count();
    let (rows, faults) = read(format, &declared(), &text, columns);
    let told: Vec<usize> =
        (1..).zip(records).filter(|(_, (_, is_good))| !is_good).map(|(line, _)| line).collect();
    assert_eq!(rows.len(), good, "{text}");
    let others = faults.samples.iter().filter(|sample| sample.contains("no column has this name")).count();
    assert_eq!(faults.count, (told.len() + others) as u64, "{text}{faults:?}");
    if told.len() + others <= Faults::SAMPLES_MAX {
        assert_eq!(bad_lines(&faults), told, "{text}{faults:?}");
    }
    let name = columns.iter().position(|column| *column == 1);
    if let Some(name) = name {
        let names = rows.iter().map(|row| row[name].as_str());
        assert!(names.eq(records.iter().filter(|(_, is_good)| *is_good).map(|(record, _)| record.name)));
    }
}

proptest! {
    #[test]
    fn the_same_records_of_a_csv_are_good_for_every_reader(
        records in proptest::collection::vec(record(Format::Csv), 1..8), columns in some_columns(),
    ) {
        same_rows_are_good(Format::Csv, &records, &columns);
    }

    #[test]
    fn the_same_json_objects_are_good_for_every_reader(
        records in proptest::collection::vec(record(Format::Json), 1..8), columns in some_columns(),
    ) {
        same_rows_are_good(Format::Json, &records, &columns);
    }

    #[test]
    fn the_same_points_are_good_for_every_reader(
        records in proptest::collection::vec(record(Format::LineProtocol), 1..8), columns in some_columns(),
    ) {
        same_rows_are_good(Format::LineProtocol, &records, &columns);
    }
}

#[test]
fn an_object_where_a_text_should_be_is_its_text_for_every_reader() {
    let text = "{\"n\":1,\"name\":\"a\",\"note\":{\"x\":1}}\n{\"n\":2,\"name\":\"b\"}\n";
    for columns in [&[0][..], &[3], &[]] {
        let (rows, faults) = read(Format::Json, &declared(), text, columns);
        assert_eq!((rows.len(), faults.count), (2, 0), "{faults:?}");
    }
    let (rows, _) = read(Format::Json, &declared(), text, &[3]);
    assert_eq!(rows, [["{\"x\":1}"], [""]]);
}

#[test]
fn a_column_of_a_parquet_file_that_is_not_read_is_checked_where_it_may_not_fit() {
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("name", DataType::Utf8, true)];
    let file = Arc::new(Schema::new(fields));
    let numbers = Arc::new(Int64Array::from(vec![Some(1), Some(300), Some(3), None]));
    let names = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("d")]));
    let rows = RecordBatch::try_new(file.clone(), vec![numbers, names]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), file, None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let declared = vec![Field::new("n", DataType::Int8, true), Field::new("name", DataType::Utf8, false)];
    for columns in [&[0, 1][..], &[0], &[1], &[1, 0], &[]] {
        let mut settings = FileSettings::new(path.to_str().unwrap());
        settings.schema = Some(Arc::new(Schema::new(declared.clone())));
        let mut source = FileSource::open(settings).unwrap();
        source.set_projection(columns).unwrap();
        let mut count = 0;
        while let Polled::Rows(rows) = source.poll(std::time::Duration::from_secs(5)).unwrap() {
            count += rows.num_rows();
            assert_eq!(rows.num_columns(), columns.len());
        }
        assert_eq!((count, source.faults().count), (2, 2), "{columns:?}");
    }
}

/// The rows of JSON with the columns `id BIGINT, "Name" VARCHAR`.
fn objects(text: &str) -> (Vec<Vec<String>>, Faults) {
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("Name", DataType::Utf8, true)];
    read(Format::Json, &Arc::new(Schema::new(fields)), text, &[0, 1])
}

#[test]
fn a_key_in_another_case_is_the_column_where_none_is_written_like_it() {
    let text = "{\"x\":0}\n{\"ID\":1,\"name\":\"a\"}\n{\"id\":2,\"Name\":\"b\"}\n\
                {\"Id\":3,\"NAME\":\"c\",\"Name\":\"d\"}\n\
                {\"ID\":4,\"id\":5}\n{\"id\":null,\"ID\":6}\n{\"ID\":7}\n{\"ID\":8}\n{\"o\":{\"id\":9},\"v\":\"ID\"}\n";
    let (rows, faults) = objects(text);
    let expected =
        [["", ""], ["1", "a"], ["2", "b"], ["3", "d"], ["5", ""], ["", ""], ["7", ""], ["8", ""], ["", ""]];
    assert_eq!(rows, expected);
    assert_eq!(faults.count, 0, "{faults:?}");
}

#[test]
fn two_keys_that_could_both_be_a_column_are_a_fault() {
    let (rows, faults) = objects("{\"ID\":1,\"Id\":2}\n{\"ID\":3}\n{\"ID\":4,\"iD\":5,\"id\":6}\n");
    assert_eq!(rows, [["3", ""], ["6", ""]]);
    assert_eq!(faults.samples, ["f, line 1: column 'id': both 'ID' and 'Id' could be its key"]);
}

#[test]
fn a_key_that_is_another_columns_own_is_not_taken() {
    let fields = ["id", "ID"].map(|name| Field::new(name, DataType::Int64, true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
    let text = "{\"ID\":1}\n{\"id\":2}\n{\"iD\":3,\"ID\":4}\n{\"iD\":5,\"id\":6}\n{\"id\":7,\"iD\":8}\n";
    let (rows, faults) = read(Format::Json, &schema, text, &[0, 1]);
    assert_eq!(faults.count, 0, "{faults:?}");
    assert_eq!(rows, [["", "1"], ["2", ""], ["3", "4"], ["6", "5"], ["7", "8"]]);
}

#[test]
fn keys_that_change_from_line_to_line_are_read_however_lines_come_together() {
    let spelled = ["id", "ID", "Id", "iD"];
    let text: String = (0..5000).map(|n| format!("{{\"{}\":{n}}}\n", spelled[n % 7 % 4])).collect();
    let (rows, faults) = objects(&text);
    assert_eq!(faults.count, 0);
    assert!(rows.iter().map(|row| row[0].clone()).eq((0..5000).map(|n| n.to_string())));
}

#[test]
fn a_text_that_is_longer_than_declared_is_no_value_whoever_reads_it() {
    let name = with_characters_max(Field::new("name", DataType::Utf8, true), 3);
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), name]));
    let csv = "1,abc\n2,abcd\n3,äöü\n4,\n5,äöüß\n";
    let json = "{\"n\":1,\"name\":\"abc\"}\n{\"n\":2,\"name\":\"abcd\"}\n{\"n\":3,\"name\":\"äöü\"}\n{\"n\":4}\n\
                {\"n\":5,\"name\":\"äöüß\"}\n";
    for (format, text) in [(Format::Csv, csv), (Format::Json, json)] {
        for columns in [&[0, 1][..], &[0]] {
            let (rows, faults) = read(format.clone(), &schema, text, columns);
            let numbers: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
            assert_eq!((numbers, bad_lines(&faults)), (vec!["1", "3", "4"], vec![2, 5]), "{columns:?}");
            assert!(faults.samples[0].contains("4 characters do not fit into VARCHAR(3)"), "{faults:?}");
        }
    }
    // A format that would not check it refuses it.
    for (format, column) in [(Format::LineProtocol, "name"), (Format::Lines, "line")] {
        let line = with_characters_max(Field::new(column, DataType::Utf8, false), 3);
        let schema: SchemaRef = Arc::new(Schema::new(vec![line]));
        let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 3 };
        let refused = text_decoder(format, settings).map(drop).unwrap_err().to_string();
        assert!(refused.contains("write VARCHAR"), "{refused}");
    }
}

#[test]
fn a_text_in_a_parquet_file_that_is_longer_than_declared_is_no_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.parquet");
    let names = Arc::new(StringArray::from(vec!["abc", "abcd", "äöü"]));
    let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let rows = RecordBatch::try_from_iter([("n", numbers as _), ("name", names as _)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let name = with_characters_max(Field::new("name", DataType::Utf8, true), 3);
    for columns in [&[0, 1][..], &[0]] {
        let mut settings = FileSettings::new(path.to_str().unwrap());
        let fields = vec![Field::new("n", DataType::Int64, true), name.clone()];
        settings.schema = Some(Arc::new(Schema::new(fields)));
        let mut source = FileSource::open(settings).unwrap();
        source.set_projection(columns).unwrap();
        let (mut rows, mut faults) = (0, Faults::default());
        while let Polled::Rows(batch) = source.poll(std::time::Duration::from_secs(5)).unwrap() {
            rows += batch.num_rows();
            faults.merge(source.faults());
        }
        faults.merge(source.faults());
        assert_eq!((rows, faults.count), (2, 1), "{faults:?}");
    }
}
