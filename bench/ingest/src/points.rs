//! The messages: points of line protocol of about 500 bytes, ten tags and ten fields, from a number of sensors.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_connect::formats::line_protocol::LineProtocolDecoder;
use tidemill_connect::formats::{BATCH_ROWS, DecoderSettings, RecordDecoder};

/// How much is parsed at once, as from a socket.
pub const PIECE_BYTES: usize = 256 << 10;

const TAGS: usize = 9;
const FIELDS: usize = 10;

/// Time, measurement, the sensor (the key), nine more tags, ten fields.
pub fn schema(is_dictionary: bool) -> SchemaRef {
    let tag = if is_dictionary {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    } else {
        DataType::Utf8
    };
    let mut columns = vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("measurement", tag.clone(), true),
        Field::new("sensor", DataType::Utf8, true),
    ];
    columns.extend((0..TAGS).map(|index| Field::new(format!("tag_name_{index}"), tag.clone(), true)));
    columns.extend((0..FIELDS).map(|index| {
        let data_type = if index % 3 == 1 { DataType::Int64 } else { DataType::Float64 };
        Field::new(format!("field_name_{index}"), data_type, true)
    }));
    Arc::new(Schema::new(columns))
}

pub fn decoder_settings(is_dictionary: bool) -> DecoderSettings {
    DecoderSettings { schema: schema(is_dictionary), csv: Default::default(), batch_rows: BATCH_ROWS }
}

/// The number of the sensor of a message: each comes once in `sensors` messages, far from the next one.
pub fn sensor(message: u64, sensors: u64) -> u64 {
    // The multiplier is a prime, larger than any number of sensors here.
    message.wrapping_mul(2_654_435_761) % sensors
}

/// The value of `field_name_0` of a message.
pub fn value(message: u64) -> f64 {
    let thousandths = message.wrapping_mul(7919) % 100_000;
    thousandths as f64 / 1000.0
}

/// Messages from number `first` on.
pub fn text(first: u64, count: u64, sensors: u64) -> Vec<u8> {
    let mut text = String::with_capacity(count as usize * 512);
    for message in first..first + count {
        let _ = write!(text, "cpu,sensor=sensor-{:07}", sensor(message, sensors));
        for tag in 0..TAGS as u64 {
            let _ = write!(text, ",tag_name_{tag}=host-{:08}", (message * 7 + tag) % 500);
        }
        for field in 0..FIELDS as u64 {
            text.push(if field == 0 { ' ' } else { ',' });
            let number = message.wrapping_mul(7919).wrapping_add(field * 104_729) % 100_000;
            let _ = match field % 3 {
                1 => write!(text, "field_name_{field}={number}i"),
                _ => write!(text, "field_name_{field}={}.{:03}", number / 1000, number % 1000),
            };
        }
        let _ = writeln!(text, " {}", 1_767_225_600_000_000_000 + message * 1_000_000);
    }
    text.into_bytes()
}

/// The same messages, parsed.
pub fn batches(first: u64, count: u64, sensors: u64) -> Result<Vec<RecordBatch>> {
    let mut decoder = LineProtocolDecoder::new(decoder_settings(false), Default::default())?;
    let mut batches = Vec::new();
    let mut at = first;
    while at < first + count {
        let rows = (BATCH_ROWS as u64).min(first + count - at);
        decoder.push(&text(at, rows, sensors))?;
        batches.push(decoder.take_rows()?);
        at += rows;
    }
    anyhow::ensure!(decoder.faults().count == 0, "the messages cannot be parsed");
    Ok(batches)
}
