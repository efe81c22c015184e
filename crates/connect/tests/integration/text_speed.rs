//! How fast text is decoded, compared with Arrow's own decoders: `cargo test --release --features tables --test
//! text_speed -- --ignored --nocapture`.
#![cfg(feature = "tables")]

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_connect::formats::{BATCH_ROWS, CsvSettings, DecoderSettings, Format, text_decoder};

const ROWS: usize = 1_000_000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("campaign", DataType::Utf8, true),
        Field::new("price", DataType::Float64, true),
        Field::new("count", DataType::Int32, true),
    ]))
}

fn texts() -> (String, String) {
    let (mut csv, mut json) = (String::new(), String::new());
    for id in 0..ROWS {
        let (second, price, count) = (id / 1000 % 60, (id * 7919 % 100_000) as f64 / 100.0, id * 31 % 5000);
        let at = format!("2026-01-31T12:30:{second:02}.{:03}", id % 1000);
        let name = id * 7 % 1000;
        writeln!(csv, "{id},{at},campaign-{name},{price},{count}").unwrap();
        let line = format!("\"campaign\":\"campaign-{name}\",\"price\":{price},\"count\":{count}");
        writeln!(json, "{{\"id\":{id},\"at\":\"{at}\",{line}}}").unwrap();
    }
    (csv, json)
}

/// Megabytes per second, the best of three.
fn speed(bytes: usize, mut decode: impl FnMut() -> usize) -> f64 {
    let time = || {
        let start = Instant::now();
        assert_eq!(decode(), ROWS);
        start.elapsed().as_secs_f64()
    };
    let best = std::iter::repeat_with(time).take(3).fold(f64::INFINITY, f64::min);
    bytes as f64 / best / 1e6
}

fn ours(format: Format, text: &str, projection: &[usize]) -> f64 {
    speed(text.len(), || {
        let csv = CsvSettings { header: Some(false), ..CsvSettings::default() };
        let settings = DecoderSettings { schema: schema(), csv, batch_rows: BATCH_ROWS };
        let mut decoder = text_decoder(format.clone(), settings).unwrap();
        decoder.set_projection(projection).unwrap();
        let (mut batches, mut rows) = (VecDeque::new(), 0);
        for piece in text.as_bytes().chunks(512 * 1024) {
            decoder.decode(piece, &mut batches).unwrap();
            rows += batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
        }
        decoder.finish(&mut batches).unwrap();
        rows + batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>()
    })
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed_of_decoding() {
    let (csv, json) = texts();
    let arrow_csv = speed(csv.len(), || {
        let reader = arrow_csv::ReaderBuilder::new(schema()).with_batch_size(BATCH_ROWS);
        reader.build_buffered(csv.as_bytes()).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
    });
    let arrow_json = speed(json.len(), || {
        let reader = arrow_json::ReaderBuilder::new(schema()).with_batch_size(BATCH_ROWS);
        reader.build(json.as_bytes()).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
    });
    let all = [0, 1, 2, 3, 4];
    println!("csv: {:.0} MB/s, arrow-csv {arrow_csv:.0}", ours(Format::Csv, &csv, &all));
    println!("csv, 2 of 5 columns: {:.0} MB/s", ours(Format::Csv, &csv, &[1, 2]));
    println!("json: {:.0} MB/s, arrow-json {arrow_json:.0}", ours(Format::Json, &json, &all));
    let broken: String = json
        .lines()
        .enumerate()
        .map(|(at, line)| match at % 100 {
            0 => format!("{line}\n{{\"id\":1 2}}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    println!("json, every 100th line broken: {:.0} MB/s", ours(Format::Json, &broken, &all));
    println!("json, 2 of 5 columns: {:.0} MB/s", ours(Format::Json, &json, &[1, 2]));
}
