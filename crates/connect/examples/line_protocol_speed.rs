//! How fast line protocol is read on one core, beside a plain search for line ends in the same bytes:
//! `cargo run --release -p tidemill-connect --features tables --example line_protocol_speed [seconds]`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_connect::formats::line_protocol::LineProtocolDecoder;
use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
use tidemill_core::Cause;
use tidemill_core::arrow::schema::{DataType, Field, Schema, TimeUnit};

/// What comes at once, as from a socket or a request.
const PIECE_BYTES: usize = 1 << 18;

fn main() -> Result<(), Cause> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    for (name, tags, fields) in [("10 tags, 10 fields", 10, 10), ("2 tags, 1 field", 2, 1)] {
        let text = points(tags, fields, 20_000);
        println!("{name}: {} bytes per point", text.len() / 20_000);
        report("line ends alone", &text, time, |piece| Ok(memchr::memchr_iter(b'\n', piece).count()))?;
        for is_dictionary in [false, true] {
            let mut decoder = decoder(tags, fields, is_dictionary)?;
            let mut batches = VecDeque::new();
            report(
                if is_dictionary { "tags as dictionaries" } else { "tags as texts" },
                &text,
                time,
                |piece| {
                    decoder.decode(piece, &mut batches)?;
                    Ok(batches.drain(..).map(|batch| std::hint::black_box(batch).num_rows()).sum())
                },
            )?;
            assert_eq!(decoder.faults().count, 0);
        }
    }
    Ok(())
}

fn decoder(tags: usize, fields: usize, is_dictionary: bool) -> Result<LineProtocolDecoder, Cause> {
    let tag = if is_dictionary {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    } else {
        DataType::Utf8
    };
    let mut columns = vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("measurement", tag.clone(), true),
    ];
    columns.extend((0..tags).map(|index| Field::new(format!("tag_name_{index}"), tag.clone(), true)));
    columns.extend((0..fields).map(|index| {
        let data_type = if index % 3 == 1 { DataType::Int64 } else { DataType::Float64 };
        Field::new(format!("field_name_{index}"), data_type, true)
    }));
    let settings =
        DecoderSettings { schema: Arc::new(Schema::new(columns)), csv: Default::default(), batch_rows: 8192 };
    LineProtocolDecoder::new(settings, Default::default())
}

/// Points of 500 hosts.
fn points(tags: usize, fields: usize, count: u64) -> Vec<u8> {
    let mut text = String::new();
    for point in 0..count {
        text.push_str("cpu");
        for tag in 0..tags {
            let _ = write!(text, ",tag_name_{tag}=host-{:05}", (point * 7 + tag as u64) % 500);
        }
        for field in 0..fields {
            text.push(if field == 0 { ' ' } else { ',' });
            let value = (point * 7919 + field as u64 * 104_729) % 1_000_003;
            let _ = match field % 3 {
                1 => write!(text, "field_name_{field}={value}i"),
                _ => write!(text, "field_name_{field}={}.{:03}", value % 100, value % 1000),
            };
        }
        let _ = writeln!(text, " {}", 1_767_225_600_000_000_000 + point * 1_000_000);
    }
    text.into_bytes()
}

fn report(
    name: &str,
    text: &[u8],
    time: Duration,
    mut read: impl FnMut(&[u8]) -> Result<usize, Cause>,
) -> Result<(), Cause> {
    let start = Instant::now();
    let (mut points, mut bytes) = (0, 0);
    while start.elapsed() < time {
        for piece in text.chunks(PIECE_BYTES) {
            points += read(piece)?;
        }
        bytes += text.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    let (millions, gigabytes) = (points as f64 / seconds / 1e6, bytes as f64 / seconds / 1e9);
    println!("{millions:8.2} M points/s {gigabytes:8.2} GB/s  {name}");
    Ok(())
}
