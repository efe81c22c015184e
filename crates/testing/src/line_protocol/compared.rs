//! What both parsers read, in a form that can be compared. The fuzz tests compare with it, too.

use std::collections::VecDeque;

use tidemill_connect::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings};
use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{
    Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use tidemill_core::arrow::array::{Array, RecordBatch};
use tidemill_core::arrow::schema::DataType;

use super::columns::schema;
use super::oracle::{self, Point};

/// Makes a decoder of these columns.
pub fn decoder() -> LineProtocolDecoder {
    let settings = DecoderSettings { schema: schema(), csv: Default::default(), batch_rows: 50 };
    let mut decoder = LineProtocolDecoder::new(settings, LineProtocolSettings::default()).expect("served");
    decoder.set_arrival(Some(-1));
    decoder
}

/// The rows, in the oracle's form.
pub fn rows(batches: &VecDeque<RecordBatch>) -> Vec<Point> {
    let mut points = Vec::new();
    for batch in batches {
        points.extend((0..batch.num_rows()).map(|row| point(batch, row)));
    }
    points
}

fn point(batch: &RecordBatch, row: usize) -> Point {
    let mut point = Point::new();
    for (field, column) in
        batch.schema().fields().iter().zip(batch.columns()).filter(|(_, c)| c.is_valid(row))
    {
        let value = match field.data_type() {
            DataType::Utf8 => format!("text {}", column.as_string::<i32>().value(row)),
            DataType::Dictionary(..) => {
                let dictionary = column.as_dictionary::<Int32Type>();
                let key = dictionary.keys().value(row) as usize;
                format!("text {}", dictionary.values().as_string::<i32>().value(key))
            }
            DataType::Int64 => format!("integer {}", column.as_primitive::<Int64Type>().value(row)),
            DataType::UInt64 => format!("unsigned {}", column.as_primitive::<UInt64Type>().value(row)),
            DataType::Float64 => format!("float {}", column.as_primitive::<Float64Type>().value(row)),
            DataType::Boolean => format!("boolean {}", column.as_boolean().value(row)),
            _ => format!("time {}", column.as_primitive::<TimestampNanosecondType>().value(row)),
        };
        point.insert(field.name().clone(), value);
    }
    point
}

/// What the oracle reads, as the columns take it, and how many lines are bad.
pub fn expected(text: &str) -> (Vec<Point>, u64) {
    let (mut points, mut bad) = (Vec::new(), 0);
    for line in text.split('\n') {
        match oracle::parse(line).and_then(|point| point.map(fit).transpose()) {
            Ok(Some(point)) => points.push(point),
            Ok(None) => {}
            Err(()) => bad += 1,
        }
    }
    (points, bad)
}

fn fit(mut point: Point) -> Result<Point, ()> {
    point.entry("time".into()).or_insert("time -1".into());
    let schema = schema();
    point.retain(|name, _| schema.index_of(name).is_ok());
    for (name, value) in &mut point {
        let kind = value.split(' ').next().unwrap_or_default().to_owned();
        let text = value[kind.len() + 1..].to_owned();
        *value = match (name.as_str(), kind.as_str()) {
            ("float", "integer" | "unsigned" | "whole") => {
                format!("float {}", text.parse::<i128>().map_err(|_| ())? as f64)
            }
            ("integer", "integer" | "unsigned" | "whole") => {
                format!("integer {}", text.parse::<i64>().map_err(|_| ())?)
            }
            ("unsigned", "integer" | "unsigned" | "whole") => {
                format!("unsigned {}", text.parse::<u64>().map_err(|_| ())?)
            }
            ("time" | "float" | "boolean", _) if kind == *name => continue,
            ("integer" | "unsigned" | "float" | "boolean", _) => return Err(()),
            (_, "text" | "time") => continue,
            _ => return Err(()),
        };
    }
    Ok(point)
}

/// What the decoder reads, given pieces of this size, and how many lines are bad.
pub fn read(text: &[u8], pieces: usize) -> (Vec<Point>, u64) {
    let (mut decoder, mut batches) = (decoder(), VecDeque::new());
    for piece in text.chunks(pieces.max(1)) {
        decoder.decode(piece, &mut batches).expect("decoded");
    }
    decoder.finish(&mut batches).expect("finished");
    (rows(&batches), decoder.take_faults().count)
}
