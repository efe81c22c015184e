//! Files as other programs write them: encodings, line ends, compression, JSON documents, titles; and columns that
//! are inferred from all records.
#![cfg(feature = "tables")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::{Format, sql_type};
use tidemill_core::source::{Faults, Polled, Source, SourceOffsets, note_offsets};

fn settings(path: &Path) -> FileSettings {
    FileSettings::new(path.display().to_string())
}

fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

fn ids_of(rows: &RecordBatch) -> Vec<i64> {
    rows.column_by_name("id").expect("ids").as_primitive::<Int64Type>().values().to_vec()
}

/// All ids and faults of a source that ends.
fn drain(source: &mut FileSource) -> (Vec<i64>, Faults) {
    let mut found = Vec::new();
    loop {
        match source.poll(Duration::from_secs(5)).unwrap() {
            Polled::Rows(rows) => found.extend(ids_of(&rows)),
            Polled::Ended => return (found, source.faults()),
            _ => {}
        }
    }
}

fn take(source: &mut FileSource, count: usize) -> Vec<i64> {
    let (start, mut found) = (Instant::now(), Vec::new());
    while found.len() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "only {found:?} of {count}");
        if let Polled::Rows(rows) = source.poll(Duration::from_millis(50)).unwrap() {
            found.extend(ids_of(&rows));
        }
    }
    found
}

fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).filter(|_| mark).chain(text.encode_utf16());
    units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Files that all have the ids 1, 2 and 3, and names with `ü`.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let csv = "id,name\n1,ü\n2,b\n3,\"c, d\"\n";
    let objects = ["{\"id\": 1, \"name\": \"ü [}\"}", "{\"id\": 2, \"name\": null}", "{\"id\": 3}"];
    let (one_line, lines) = (format!("[{}]", objects.join(",")), format!("[\n{}\n]\n", objects.join(",\n")));
    let pretty = "{\n  \"id\": 1,\n  \"name\": \"ü\"\n}\n{\n  \"id\": 2\n}\n\
        {\n  \"id\": 3,\n  \"n\": {\n    \"x\": [1,\n2]\n  }\n}\n";
    vec![
        ("cr.csv", csv.replace('\n', "\r").into_bytes()),
        ("cr_without_end.csv", csv.trim_end().replace('\n', "\r").into_bytes()),
        ("crlf.csv", csv.replace('\n', "\r\n").into_bytes()),
        ("mark.csv", format!("\u{feff}{csv}").into_bytes()),
        ("little.csv", utf16(csv, false, true)),
        ("big.csv", utf16(csv, true, true)),
        ("unmarked.csv", utf16(csv, false, false)),
        ("windows.csv", utf16(&csv.replace('\n', "\r\n"), false, true)),
        ("packed.csv.gz", gzip(csv.as_bytes())),
        ("padded.csv.gz", [gzip(csv.as_bytes()), vec![0; 700]].concat()),
        ("packed_utf16.csv.gz", gzip(&utf16(csv, true, true))),
        ("packed_cr.csv.zst", zstd(csv.replace('\n', "\r").as_bytes())),
        ("sep.csv", format!("sep=;\r\n{}", csv.replace("c, d", "c").replace(',', ";")).into_bytes()),
        (
            "sep_utf16.csv",
            utf16(&format!("sep=;\n{}", csv.replace("c, d", "c").replace(',', ";")), false, true),
        ),
        ("lines.json", objects.join("\n").into_bytes()),
        ("cr.json", objects.join("\r").into_bytes()),
        ("little.json", utf16(&objects.join("\n"), false, false)),
        ("array.json", one_line.clone().into_bytes()),
        ("lines_of_array.json", lines.clone().into_bytes()),
        ("array_of_windows.json", utf16(&lines.replace('\n', "\r\n"), false, true)),
        ("arrays.json", format!("[{}]\n[{},{}]\n", objects[0], objects[1], objects[2]).into_bytes()),
        ("pretty.json", pretty.as_bytes().to_vec()),
        ("pretty.json.gz", gzip(pretty.as_bytes())),
        ("array.json.zst", zstd(one_line.as_bytes())),
    ]
}

#[test]
fn a_file_has_its_rows_however_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files() {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        for schema in [None, Some(ids())] {
            let mut source = FileSource::open(FileSettings { schema, ..settings(&path) }).unwrap();
            assert_eq!(drain(&mut source), (vec![1, 2, 3], Faults::default()), "{name}");
        }
    }
}

#[test]
fn titles_and_comments_are_left_out_and_damaged_records_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("Monthly report\nid,name\n1,a\n2,b\n3,c\n", 0),
        ("Monthly report\n\nShop: Berlin\n\nid,name\n1,a\n2,b\n3,c\n", 0),
        ("# made 2026\n# by x, y, z\nid,name\n1,a\n# in the middle\n2,b\n3,c\n", 0),
        ("# made by x, y\nid,name\n1,a\n2,b\n3,c\n", 0),
        ("sep=,\nReport\nid,name\n1,a\n2,b\n3,c\n", 0),
        ("id,name\n1,a\n2,b\n#3\n3,c\n", 1),
        ("id,name\n1,a\nReport\n2,b\n3,c\n", 1),
        ("Report\nid,name\n1,a\n# 2\n2,b\n3,c\n", 1),
    ];
    for (text, bad) in cases {
        let path = folder.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let (found, faults) = drain(&mut FileSource::open(settings(&path)).unwrap());
        assert_eq!((found, faults.count), (vec![1, 2, 3], bad), "{text:?}");
    }
    // Told how many lines they are.
    fs::write(folder.path().join("t.csv"), "A report\n\n1,a\nid,name\n1,a\n2,b\n3,c\n").unwrap();
    let mut declared = FileSettings { schema: Some(ids()), ..settings(&folder.path().join("t.csv")) };
    declared.csv.skip = 3;
    assert_eq!(drain(&mut FileSource::open(declared).unwrap()).0, [1, 2, 3]);
    // Other files of the folder need not have titles, nor the same number of them.
    let others = folder.path().join("folder");
    fs::create_dir(&others).unwrap();
    for (name, text) in
        [("a.csv", "One\nTwo\nid,n\n1,a\n"), ("b.csv", "id,n\n2,b\n"), ("c.csv", "x\nid,n\n3,c\n")]
    {
        fs::write(others.join(name), text).unwrap();
    }
    let (found, faults) = drain(&mut FileSource::open(settings(&others.join("*.csv"))).unwrap());
    assert_eq!((found, faults.count), (vec![1, 2, 3], 0));
}

#[test]
fn what_is_wrong_in_a_document_is_counted_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    fs::write(&path, "[{\"id\": 1}, {\"id\": \"x\"}, 7, {\"id\": 2}").unwrap();
    let mut source = FileSource::open(FileSettings { schema: Some(ids()), ..settings(&path) }).unwrap();
    let (found, faults) = drain(&mut source);
    assert_eq!((found, faults.count), (vec![1, 2], 3), "{faults:?}");
    assert!(
        faults.samples.iter().any(|text| text.contains("t.json, with one value per line, line 2: ")),
        "{faults:?}"
    );
    assert!(faults.samples.iter().any(|text| text.ends_with("line 5: not one JSON object")), "it is cut off");
    fs::write(&path, [&[0xff, 0xfe, 0, 0], &b"a\0\0\0"[..]].concat()).unwrap();
    let error = FileSource::open(FileSettings { schema: Some(ids()), ..settings(&path) }).unwrap_err();
    assert!(
        error.to_string().ends_with("t.json: a text in UTF-32 cannot be read; write it in UTF-8"),
        "{error}"
    );
}

/// Reads until `stop` batches have come, and continues in another run: each row comes once.
#[test]
fn a_run_continues_behind_the_rows_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<i64> = (0..50).collect();
    let objects: Vec<String> = all.iter().map(|id| format!("{{\"id\": {id}}}")).collect();
    let csv = std::iter::once("id".to_owned()).chain(all.iter().map(i64::to_string)).collect::<Vec<_>>();
    let texts = [
        ("a.json", format!("[{}]", objects.join(",")).into_bytes()),
        ("b.json", objects.join("\n").replace('{', "{\n  ").into_bytes()),
        ("c.csv", csv.join("\r").into_bytes()),
        ("d.csv", utf16(&csv.join("\n"), false, true)),
        ("e.csv", format!("sep=;\n{}\n", csv.join("\n")).into_bytes()),
        ("f.csv", [&[0; 9][..], csv.join("\n").as_bytes()].concat()),
    ];
    for (name, bytes) in texts {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let settings = FileSettings { schema: Some(ids()), batch_rows: 7, ..settings(&path) };
        for stop in 0..=8 {
            let (mut found, mut offsets) = (Vec::new(), SourceOffsets::new());
            let mut source = FileSource::open(settings.clone()).unwrap();
            for _ in 0..stop {
                if let Polled::Rows(rows) = source.poll(Duration::from_secs(1)).unwrap() {
                    found.extend(ids_of(&rows));
                    note_offsets(&mut offsets, source.offsets());
                }
            }
            let mut source = FileSource::open(settings.clone()).unwrap();
            if !offsets.is_empty() {
                source.resume(&offsets).unwrap();
            }
            found.extend(drain(&mut source).0);
            assert_eq!(found, all, "{name}, {stop}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_followed_is_named_and_the_others_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("app.json");
    fs::write(&plain, "{\"id\": 1}\n").unwrap();
    let follow = |path: &Path| FileSettings {
        follow: true,
        schema: Some(ids()),
        format: Some(Format::Json),
        ..settings(path)
    };
    let line = b"{\"id\": 7}\n";
    let others: [(&str, Vec<u8>, &str); 6] = [
        (
            "cr.json",
            b"{\"id\": 7}\r{\"id\": 8}\r{".to_vec(),
            "a file whose lines end with CR alone cannot be followed",
        ),
        ("app.json.1.gz", gzip(line), "a compressed file cannot be followed"),
        ("app.json.2.zst", zstd(line), "a compressed file cannot be followed"),
        ("array.json", b"[{\"id\": 7}]".to_vec(), "a JSON array or pretty-printed JSON cannot be followed"),
        ("little.json", utf16("{\"id\": 7}\n", false, true), "a file in UTF-16 cannot be followed"),
        (
            "pretty.json",
            b"{\n  \"id\": 7\n}\n".to_vec(),
            "a JSON array or pretty-printed JSON cannot be followed",
        ),
    ];
    for (name, bytes, reason) in &others {
        fs::write(folder.path().join(name), bytes).unwrap();
        let error = FileSource::open(follow(&folder.path().join(name))).unwrap().poll(Duration::from_secs(1));
        assert!(error.unwrap_err().to_string().contains(reason), "{name}");
    }
    let mut source = FileSource::open(follow(folder.path())).unwrap();
    assert_eq!(take(&mut source, 1), [1]);
    fs::write(folder.path().join("later.json"), line).unwrap();
    assert_eq!(take(&mut source, 1), [7]);
    let faults = source.faults();
    assert_eq!((faults.count, faults.notices.count()), (0, others.len() as u64), "{faults:?}");
    for (name, _, reason) in &others {
        let told = |text: &&String| {
            text.contains(&format!("{name}: {reason}")) && text.ends_with("; its rows are left out")
        };
        assert!(faults.notices.newest().iter().any(|text| told(&text)), "{name}: {faults:?}");
    }
    // One that becomes compressed is said to be once, and ends nothing.
    fs::rename(&plain, folder.path().join("app.json.3")).unwrap();
    fs::write(&plain, "{\"id\": 2}\n").unwrap();
    assert_eq!(take(&mut source, 1), [2]);
    fs::write(folder.path().join("app.json.3.gz"), gzip(b"{\"id\": 1}\n")).unwrap();
    fs::remove_file(folder.path().join("app.json.3")).unwrap();
    fs::OpenOptions::new().append(true).open(&plain).unwrap().write_all(b"{\"id\": 3}\n").unwrap();
    assert_eq!(take(&mut source, 1), [3]);
    assert_eq!(source.faults().count, 0);
}

/// `copytruncate`, with a program that keeps its place in the file and writes no header again.
#[test]
fn a_log_that_was_emptied_continues_behind_nuls_and_without_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, "name,id\na,1\nb,2\n").unwrap();
    let mut follow = FileSettings { follow: true, schema: Some(ids()), ..settings(&path) };
    follow.csv.header = Some(true);
    let mut source = FileSource::open(follow).unwrap();
    assert_eq!(take(&mut source, 2), [1, 2]);
    let emptied = |text: &[u8]| {
        fs::write(&path, "").unwrap();
        std::thread::sleep(Duration::from_millis(300));
        fs::write(&path, text).unwrap();
    };
    assert!(matches!(source.poll(Duration::from_millis(50)).unwrap(), Polled::Nothing));
    emptied(&[&[0; 16][..], b"c,3\nd,4\n"].concat());
    assert_eq!(take(&mut source, 2), [3, 4]);
    emptied(b"id,name\n5,e\n");
    assert_eq!(take(&mut source, 1), [5], "this program wrote its header, with another order");
    let faults = source.faults();
    assert_eq!(faults.count, 0, "{faults:?}");
    assert!(faults.notices.newest().iter().any(|text| text.contains("reading continues at its start")));
}

fn types(path: &Path) -> Vec<String> {
    let schema = FileSource::infer(&mut settings(path)).unwrap();
    let described = |field: &Arc<Field>| format!("{} {}", field.name(), sql_type(field.data_type()));
    schema.fields().iter().map(described).map(|text| text.replace(", ", ",")).collect()
}

#[test]
fn the_last_record_of_the_last_file_counts_as_much_as_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let many = |last: &str| {
        let rows: String =
            (0..120_000).map(|row| format!("{row},{row}.5,2026-01-31,{}\n", row % 7)).collect();
        format!("a,b,c,d\n{rows}{last}")
    };
    for (last, expected) in [
        ("", ["a BIGINT", "b DOUBLE", "c DATE", "d BIGINT"]),
        ("x,1,2026-01-31,1\n", ["a VARCHAR", "b DOUBLE", "c DATE", "d BIGINT"]),
        ("1,1,2026-01-31T10:00:00Z,01", ["a BIGINT", "b DOUBLE", "c TIMESTAMP", "d VARCHAR"]),
        (
            "18446744073709551615,9007199254740993,,+1\n",
            ["a DECIMAL(38,0)", "b DECIMAL(38,1)", "c DATE", "d VARCHAR"],
        ),
        ("1.5,,,\n", ["a DOUBLE", "b DOUBLE", "c DATE", "d BIGINT"]),
    ] {
        let text = many(last);
        for (name, bytes) in [
            ("t.csv", text.clone().into_bytes()),
            ("t.tsv", text.replace(',', "\t").into_bytes()),
            ("t.csv.gz", gzip(text.as_bytes())),
            ("u.csv", utf16(&text, false, true)),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            assert_eq!(types(&path), expected, "{name} {last:?}");
        }
        // Another file after one with small numbers only, whose columns have another order.
        let parts = folder.path().join("parts");
        fs::create_dir_all(&parts).unwrap();
        fs::write(parts.join("1.csv"), "b,a,d,c\n0.5,1,1,2026-01-31\n").unwrap();
        fs::write(parts.join("2.csv"), &text).unwrap();
        let mut found = types(&parts.join("*.csv"));
        found.sort();
        assert_eq!(found, expected, "{last:?}");
    }
}

#[test]
fn keys_that_come_late_are_columns_and_those_of_followed_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    let rows: String = (0..60_000).map(|id| format!("{{\"id\": {id}, \"text\": \"some text\"}}\n")).collect();
    fs::write(&path, format!("{rows}{{\"id\": -1, \"late\": 5}}\n")).unwrap();
    assert_eq!(types(&path), ["id BIGINT", "text VARCHAR", "late BIGINT"]);
    let follow = FileSettings { follow: true, ..settings(&path) };
    let mut source = FileSource::open(follow).unwrap();
    assert_eq!(source.schema().fields().len(), 2);
    assert_eq!(take(&mut source, 60_001).last(), Some(&-1));
    let faults = source.faults();
    let told = faults.notices.newest();
    assert!(faults.count == 0 && told.len() == 1, "{faults:?}");
    assert!(told[0].contains("t.json, line 60001: the key 'late' has no column"), "{told:?}");

    fs::write(folder.path().join("1.csv"), "id\n1\n").unwrap();
    fs::write(folder.path().join("2.csv"), "id,extra\n2,x\n").unwrap();
    let (found, faults) = drain(&mut FileSource::open(settings(&folder.path().join("*.csv"))).unwrap());
    assert_eq!((found, faults.count), (vec![1, 2], 0));
    assert!(faults.notices.newest()[0].starts_with("column 'extra' is in a later file"), "{faults:?}");
}
