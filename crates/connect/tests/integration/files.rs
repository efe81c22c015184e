//! Files, patterns, directories; Parquet and Arrow IPC; files that grow.
#![cfg(feature = "tables")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::{Format, sql_type};
use tidemill_connect::standard_streams::{StandardInput, StreamSettings};
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::{Polled, Source};

fn settings(path: impl AsRef<Path>) -> FileSettings {
    FileSettings::new(path.as_ref().display().to_string())
}

fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

/// The first column of all rows of a source that ends.
fn drain(source: &mut dyn Source) -> Result<Vec<i64>, Cause> {
    let mut found = Vec::new();
    loop {
        match source.poll(Duration::from_secs(5))? {
            Polled::Rows(rows) => {
                assert!(rows.num_rows() > 0);
                assert_eq!(rows.schema(), source.schema());
                found.extend(rows.column(0).as_primitive::<Int64Type>().values());
            }
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => return Ok(found),
        }
    }
}

/// Polls until there are as many rows as wanted.
fn take(source: &mut dyn Source, count: usize) -> Vec<i64> {
    let (start, mut found) = (Instant::now(), Vec::new());
    while found.len() < count {
        assert!(start.elapsed() < Duration::from_secs(120), "only {} rows of {count}", found.len());
        match source.poll(Duration::from_millis(100)).unwrap() {
            Polled::Rows(rows) => found.extend(rows.column(0).as_primitive::<Int64Type>().values()),
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => panic!("what is followed does not end"),
        }
    }
    found
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn files_of_a_directory_and_a_pattern_come_in_the_order_of_their_names() {
    let directory = tempfile::tempdir().unwrap();
    for (name, id) in [("b.csv", 2), ("a.csv", 1), ("c.csv", 3), (".hidden.csv", 8), ("_part.csv", 9)] {
        fs::write(directory.path().join(name), format!("id\n{id}\n")).unwrap();
    }
    fs::create_dir(directory.path().join("d.csv")).unwrap();
    let mut all = FileSource::open(settings(directory.path())).unwrap();
    assert_eq!(drain(&mut all).unwrap(), [1, 2, 3]);
    let progress = all.progress();
    assert_eq!((progress.done, progress.total, all.is_finite()), (15, Some(15), true));
    let mut some = FileSource::open(settings(directory.path().join("[bc].csv"))).unwrap();
    assert_eq!(drain(&mut some).unwrap(), [2, 3]);
}

#[test]
fn a_file_of_several_gzip_members_is_read_whole() {
    let directory = tempfile::tempdir().unwrap();
    let member = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let path = directory.path().join("n.csv.gz");
    fs::write(&path, [member("n\n1\n"), member("2\n3\n")].concat()).unwrap();
    let mut source = FileSource::open(settings(path)).unwrap();
    assert_eq!(drain(&mut source).unwrap(), [1, 2, 3]);
}

#[test]
fn what_is_not_there_or_not_known_is_the_users_error_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| FileSource::open(settings(path)).unwrap_err();
    let plain = directory.path().join("none.csv");
    let expected = "none.csv: no such file; check the path and the directory it starts in";
    assert!(error(&plain).to_string().ends_with(expected));
    assert!(error(&directory.path().join("*.csv")).to_string().contains("no file matches"));
    fs::write(directory.path().join("x.weird"), "1").unwrap();
    assert!(error(&directory.path().join("x.weird")).to_string().contains("name it: format = 'csv'"));
    fs::write(directory.path().join("x.csv.xz"), "1").unwrap();
    assert!(error(&directory.path().join("x.csv.xz")).to_string().contains("zstd (.zst) or gzip (.gz)"));
    fs::write(directory.path().join("x.csv"), [0x1f, 0x8b, 8, 0]).unwrap();
    assert!(error(&directory.path().join("x.csv")).to_string().contains("damaged gzip file"));
    fs::write(directory.path().join("bad.parquet"), "PAR1 not really").unwrap();
    assert!(error(&directory.path().join("bad.parquet")).to_string().contains("cannot be read as Parquet"));
    fs::write(directory.path().join("bad.arrow"), "ARROW1 not really").unwrap();
    assert!(error(&directory.path().join("bad.arrow")).to_string().contains("cannot be read as Arrow IPC"));
}

#[test]
fn columns_of_text_are_inferred() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    let text = "ok,n,x,day,at,name\ntrue,1,1.5,2026-01-01,2026-01-01 10:00:00,a\n,,,,,\nbroken\n";
    fs::write(&path, text).unwrap();
    let schema = FileSource::infer(&mut settings(&path)).unwrap();
    let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    use DataType::{Boolean, Date32, Float64, Int64, Utf8};
    assert_eq!(types, [&Boolean, &Int64, &Float64, &Date32, &time, &Utf8]);

    let path = directory.path().join("t.ndjson");
    let first = "{\"b\":1,\"a\":\"2026-01-01T00:00:00Z\",\"v\":[1,2]}";
    fs::write(&path, format!("{first}\nbad\n{{\"b\":1.5,\"n\":null,\"o\":{{\"x\":1}}}}\n")).unwrap();
    let schema = FileSource::infer(&mut settings(&path)).unwrap();
    let describe = |field: &Arc<Field>| format!("{} {}", field.name(), sql_type(field.data_type()));
    let found: Vec<String> = schema.fields().iter().map(describe).collect();
    assert_eq!(found, ["b DOUBLE", "a TIMESTAMP", "v DOUBLE[]", "n VARCHAR", "o STRUCT<x BIGINT>"]);
}

#[test]
fn headers_are_guessed_where_there_are_only_strings_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.tsv");
    for (text, name) in [("a\tb\nx\ty\n", "a"), ("x\ty\nx\tz\n", "column_1"), ("1\tb\n2\tc\n", "column_1")] {
        fs::write(&path, text).unwrap();
        assert_eq!(FileSource::infer(&mut settings(&path)).unwrap().field(0).name(), name, "{text:?}");
    }
}

fn table() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
    let prices = Float64Array::from_iter_values((0..20_000).map(|id| f64::from(id) / 2.0));
    let prices: ArrayRef = Arc::new(prices);
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..20_000).map(|id| format!("name {id}"))));
    RecordBatch::try_from_iter([("id", ids), ("price", prices), ("name", names)]).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn write_ipc(path: &Path, batch: &RecordBatch) {
    let file = File::create(path).unwrap();
    if path.extension().unwrap() == "arrows" {
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    } else {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    }
}

#[test]
fn parquet_and_arrow_files_are_read_and_projected() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["t.parquet", "t.arrow", "t.arrows"] {
        let path = directory.path().join(name);
        match name {
            "t.parquet" => write_parquet(&path, &table()),
            _ => write_ipc(&path, &table()),
        }
        let mut source = FileSource::open(settings(&path)).unwrap();
        assert_eq!(source.schema().fields().len(), 3);
        let Polled::Rows(rows) = source.poll(Duration::from_secs(5)).unwrap() else { panic!("rows") };
        assert_eq!(rows, table().slice(0, 8192), "{name}");

        let mut source = FileSource::open(settings(&path)).unwrap();
        source.set_projection(&[2, 0]).unwrap();
        let Polled::Rows(rows) = source.poll(Duration::from_secs(5)).unwrap() else { panic!("rows") };
        assert_eq!(rows, table().slice(0, 8192).project(&[2, 0]).unwrap(), "{name}");

        let mut source = FileSource::open(settings(&path)).unwrap();
        source.set_projection(&[]).unwrap();
        let mut count = 0;
        while let Polled::Rows(rows) = source.poll(Duration::from_secs(5)).unwrap() {
            count += rows.num_rows();
        }
        assert_eq!(count, 20_000, "{name}");
        let mut whole = FileSource::open(settings(&path)).unwrap();
        assert_eq!(drain(&mut whole).unwrap(), (0..20_000).collect::<Vec<i64>>());
    }
}

#[test]
fn another_schema_in_a_later_file_is_cast_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let column = |array: ArrayRef, name: &str| RecordBatch::try_from_iter([(name, array)]).unwrap();
    write_parquet(&directory.path().join("a.parquet"), &column(Arc::new(Int64Array::from(vec![1])), "id"));
    write_parquet(&directory.path().join("b.parquet"), &column(Arc::new(Int32Array::from(vec![2])), "ID"));
    let mut source = FileSource::open(settings(directory.path())).unwrap();
    assert_eq!(drain(&mut source).unwrap(), [1, 2]);

    let third = directory.path().join("c.parquet");
    write_parquet(&third, &column(Arc::new(Float64Array::from(vec![3.5])), "id"));
    let mut source = FileSource::open(settings(directory.path())).unwrap();
    let error = drain(&mut source).unwrap_err().to_string();
    assert!(error.contains("c.parquet: column 'id' is DOUBLE, but declared as BIGINT"), "{error}");

    write_parquet(&third, &column(Arc::new(Int64Array::from(vec![3])), "idx"));
    let mut source = FileSource::open(settings(directory.path())).unwrap();
    let error = drain(&mut source).unwrap_err().to_string();
    let expected = "c.parquet: there is no column 'id'; the columns are idx; did you mean 'idx'?";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn values_of_a_wider_type_that_do_not_fit_are_faults() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1 << 40), None, Some(4)]));
    write_parquet(&path, &RecordBatch::try_from_iter([("id", values)]).unwrap());
    let declared = Schema::new(vec![Field::new("id", DataType::Int32, false)]);
    let wanted = FileSettings { schema: Some(Arc::new(declared)), ..settings(&path) };
    let mut source = FileSource::open(wanted).unwrap();
    let Polled::Rows(rows) = source.poll(Duration::from_secs(5)).unwrap() else { panic!("rows") };
    assert_eq!(rows.column(0).as_ref(), &Int32Array::from(vec![1, 4]));
    let faults = source.faults();
    assert_eq!(faults.count, 2);
    assert!(faults.samples[0].ends_with("t.parquet, row 2: column 'id': a value does not fit into INT"));
    assert!(faults.samples[1].ends_with("t.parquet, row 3: column 'id' is NOT NULL, but has no value"));
}

#[test]
fn a_parquet_file_that_is_cut_off_or_damaged_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    write_parquet(&path, &table());
    let mut bytes = fs::read(&path).unwrap();
    bytes[4..40].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let mut source = FileSource::open(settings(&path)).unwrap();
    let error = drain(&mut source).expect_err("it is damaged").to_string();
    assert!(error.contains("t.parquet: damaged after row"), "{error}");
}

#[test]
fn what_is_appended_comes_and_half_lines_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    fs::write(&path, "id\n1\n2").unwrap();
    let follow = FileSettings { follow: true, schema: Some(ids()), ..settings(&path) };
    let mut source = FileSource::open(follow).unwrap();
    assert!(!source.is_finite());
    assert_eq!(take(&mut source, 1), [1]);
    let start = Instant::now();
    assert!(matches!(source.poll(Duration::from_millis(120)).unwrap(), Polled::Nothing));
    assert!(start.elapsed() >= Duration::from_millis(120), "{:?}", start.elapsed());
    append(&path, "3\n4\n");
    assert_eq!(take(&mut source, 2), [23, 4]);
    let writer = std::thread::spawn(move || {
        for id in 5..500 {
            append(&path, &format!("{id}"));
            std::thread::sleep(Duration::from_micros(200));
            append(&path, "\n");
        }
    });
    assert_eq!(take(&mut source, 495), (5..500).collect::<Vec<i64>>());
    writer.join().unwrap();
    assert_eq!(source.faults().count, 0);
}

#[test]
fn a_replaced_or_truncated_file_is_read_anew_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    fs::write(&path, "id\n1\n").unwrap();
    let follow = FileSettings { follow: true, schema: Some(ids()), ..settings(&path) };
    let mut source = FileSource::open(follow).unwrap();
    assert_eq!(take(&mut source, 1), [1]);
    append(&path, "2\n3");
    fs::rename(&path, directory.path().join("old")).unwrap();
    fs::write(&path, "id\n4\n").unwrap();
    assert_eq!(take(&mut source, 3), [2, 3, 4]);
    let faults = source.faults();
    assert!(faults.count == 0 && faults.notices.newest()[0].contains("was replaced"), "{faults:?}");
    append(&path, "5\n6\n7\n");
    assert_eq!(take(&mut source, 3), [5, 6, 7]);
    File::create(&path).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(100)).unwrap(), Polled::Nothing));
    append(&path, "id\n8\n");
    assert_eq!(take(&mut source, 1), [8]);
    let faults = source.faults();
    assert!(faults.count == 0 && faults.notices.newest()[0].contains("was truncated"), "{faults:?}");
}

#[test]
fn new_files_of_a_directory_are_found_also_parquet_that_is_still_being_written() {
    let directory = tempfile::tempdir().unwrap();
    let format = Some(Format::Json);
    let follow = FileSettings { follow: true, schema: Some(ids()), format, ..settings(directory.path()) };
    let mut source = FileSource::open(follow).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
    append(&directory.path().join("a.json"), "{\"id\":1}\n");
    append(&directory.path().join("b.json"), "{\"id\":2}\n");
    assert_eq!(take(&mut source, 2), [1, 2]);
    append(&directory.path().join("a.json"), "{\"id\":3}\n{\"id\":4}");
    assert_eq!(take(&mut source, 1), [3]);
    fs::remove_file(directory.path().join("a.json")).unwrap();
    assert_eq!(take(&mut source, 1), [4]);
    append(&directory.path().join("a.json"), "{\"id\":5}\n");
    assert_eq!(take(&mut source, 1), [5]);
    assert_eq!(source.faults().count, 0);

    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("_whole");
    write_parquet(&whole, &table());
    let bytes = fs::read(&whole).unwrap();
    let format = Some(Format::Parquet);
    let follow = FileSettings { follow: true, schema: Some(ids()), format, ..settings(directory.path()) };
    let mut source = FileSource::open(follow).unwrap();
    let path = directory.path().join("t.parquet");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(100)).unwrap(), Polled::Nothing));
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&bytes[bytes.len() / 2..]).unwrap();
    assert_eq!(take(&mut source, 20_000), (0..20_000).collect::<Vec<i64>>());

    let single = FileSettings { follow: true, ..settings(&path) };
    assert!(FileSource::open(single).unwrap_err().to_string().contains("follow its directory"));
}

#[test]
fn a_file_that_is_followed_may_come_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    let follow = FileSettings { follow: true, schema: Some(ids()), ..settings(&path) };
    let mut source = FileSource::open(follow).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
    fs::write(&path, "id\n1\n").unwrap();
    assert_eq!(take(&mut source, 1), [1]);
}

#[test]
fn standard_input_times_out_and_goes_on() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"id,name\n1,a\n").unwrap();
    let mut source = StandardInput::from_reader("pipe", reader, StreamSettings::new(Format::Csv)).unwrap();
    assert_eq!(source.schema().field(1).name(), "name");
    source.set_projection(&[0]).unwrap();
    assert_eq!(take(&mut source, 1), [1]);
    let start = Instant::now();
    assert!(matches!(source.poll(Duration::from_millis(50)).unwrap(), Polled::Nothing));
    assert!(start.elapsed() >= Duration::from_millis(50));
    writer.write_all(b"2,b\nx,c\n3,d").unwrap();
    assert_eq!(take(&mut source, 1), [2]);
    drop(writer);
    assert_eq!(drain(&mut source).unwrap(), [3]);
    assert_eq!(source.faults().samples, ["pipe, line 4: column 'id': 'x' is not a BIGINT"]);
}

#[test]
fn a_reader_that_fails_is_an_operations_error() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("cable pulled"))
        }
    }
    let declared = StreamSettings { schema: Some(ids()), ..StreamSettings::new(Format::Json) };
    let mut source = StandardInput::from_reader("line", Broken, declared).unwrap();
    let error = source.poll(Duration::from_secs(5)).unwrap_err();
    assert!(error.fault == Fault::Operation && error.message.contains("cable pulled"), "{error}");
    let inferred = StandardInput::from_reader("line", Broken, StreamSettings::new(Format::Json));
    assert!(matches!(inferred, Err(Cause { fault: Fault::Operation, .. })));
    let empty = StandardInput::from_reader("line", std::io::empty(), StreamSettings::new(Format::Csv));
    assert!(matches!(empty, Err(Cause { fault: Fault::User, .. })));
}

#[test]
fn compressed_text_is_read_and_a_damaged_rest_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv.zst");
    let text: String = (0..200_000).map(|id| format!("{id}\n")).collect();
    let compressed = ruzstd::encoding::compress_to_vec(
        format!("id\n{text}").as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(&path, &compressed).unwrap();
    let mut source = FileSource::open(settings(&path)).unwrap();
    assert_eq!(drain(&mut source).unwrap(), (0..200_000).collect::<Vec<i64>>());
    assert_eq!(source.progress().done, compressed.len() as u64);
    fs::write(&path, &compressed[..compressed.len() / 2]).unwrap();
    let declared = FileSettings { schema: Some(ids()), ..settings(&path) };
    let error = drain(&mut FileSource::open(declared).unwrap()).unwrap_err().to_string();
    assert!(error.contains("t.csv.zst: damaged zstd file at byte"), "{error}");
    let follow = FileSettings { follow: true, schema: Some(ids()), ..settings(&path) };
    let error = FileSource::open(follow).unwrap().poll(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("a compressed file cannot be followed"), "{error}");
}

#[test]
fn a_file_that_is_cut_or_rewritten_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let text = |first: i64| {
        let lines: String = (first..first + 1_000_000).map(|id| format!("{id}\n")).collect();
        format!("id\n{lines}")
    };
    let (whole, longer, other) = (text(0), text(0) + "7\n8\n", text(1_000_000));
    for (now, expected) in [
        (&whole, Some(1_000_000)),
        (&longer, Some(1_000_002)),
        (&whole[..70].to_owned(), None),
        (&other, None),
    ] {
        fs::write(&path, &whole).unwrap();
        let mut source = FileSource::open(settings(&path)).unwrap();
        let Polled::Rows(first) = source.poll(Duration::from_secs(120)).unwrap() else { panic!("no rows") };
        assert!(first.num_rows() < 500_000, "{}", first.num_rows());
        fs::write(&path, now).unwrap();
        match expected {
            Some(count) => assert_eq!(first.num_rows() + drain(&mut source).unwrap().len(), count),
            None => {
                let cause = drain(&mut source).unwrap_err();
                assert_eq!(cause.fault, Fault::Operation);
                assert!(cause.message.contains("was cut or rewritten while it was read"), "{cause}");
            }
        }
    }
}
