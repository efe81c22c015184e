//! Points that are written, read by both parsers, and compared.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use tidemill_connect::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings, Precision};
use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{
    Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use tidemill_core::arrow::array::{Array, RecordBatch};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::oracle::{self, Point};

pub const TAGS: [&str; 3] = ["host", "a b", "x=,\\y"];

pub fn schema() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("measurement", DataType::Utf8, true),
        Field::new("host", dictionary, true),
        Field::new("a b", DataType::Utf8, true),
        Field::new("x=,\\y", DataType::Utf8, true),
        Field::new("integer", DataType::Int64, true),
        Field::new("unsigned", DataType::UInt64, true),
        Field::new("float", DataType::Float64, true),
        Field::new("boolean", DataType::Boolean, true),
        Field::new("text", DataType::Utf8, true),
    ]))
}

pub fn decoder() -> LineProtocolDecoder {
    let settings = DecoderSettings { schema: schema(), csv: Default::default(), batch_rows: 5 };
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

fn escape(text: &str, escaped: &str) -> String {
    text.chars().fold(String::new(), |mut written, character| {
        if escaped.contains(character) {
            written.push('\\');
        }
        written.push(character);
        written
    })
}

fn tags() -> impl Strategy<Value = String> {
    let tag = (0..TAGS.len(), "[a-zé\\\\ ,=]{0,11}[a-z]");
    proptest::collection::vec(tag, 0..4).prop_map(|tags| {
        let write = |(name, value): &(usize, String)| {
            format!(",{}={}", escape(TAGS[*name], ", ="), escape(value, ", ="))
        };
        tags.iter().map(write).collect()
    })
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| format!("integer={value}i")),
        any::<u64>().prop_map(|value| format!("unsigned={value}u")),
        any::<i32>().prop_map(|value| format!("integer={value}")),
        (-1e9..1e9).prop_map(|value: f64| format!("float={value}")),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("float={value:e}")),
        any::<bool>().prop_map(|value| format!("boolean={value}")),
        "[a-z\\\\\", =é#]{0,20}".prop_map(|text| format!("text=\"{}\"", escape(&text, "\"\\"))),
        "(text|boolean|integer|other)=(5i|t|\"a\"|-1u|)",
    ]
}

fn line() -> impl Strategy<Value = String> {
    let fields = proptest::collection::vec(field(), 1..5).prop_map(|fields| fields.join(","));
    let time = prop_oneof![Just(String::new()), any::<i64>().prop_map(|time| format!(" {time}"))];
    let line =
        ("[a-z,= ]{0,8}[a-z]", tags(), fields, time, "\r?").prop_map(|(name, tags, fields, time, end)| {
            format!("{}{tags} {fields}{time}{end}", escape(&name, ", "))
        });
    prop_oneof![8 => line, 1 => Just("# comment".to_owned()), 1 => Just(String::new())]
}

fn read(text: &[u8], pieces: usize) -> (Vec<Point>, u64) {
    let (mut decoder, mut batches) = (decoder(), VecDeque::new());
    for piece in text.chunks(pieces.max(1)) {
        decoder.decode(piece, &mut batches).expect("decoded");
    }
    decoder.finish(&mut batches).expect("finished");
    (rows(&batches), decoder.take_faults().count)
}

proptest! {
    #[test]
    fn points_are_read_as_by_the_slow_parser(lines in proptest::collection::vec(line(), 1..12), pieces in 1usize..300) {
        let text = lines.join("\n");
        prop_assert_eq!(read(text.as_bytes(), pieces), expected(&text), "{}", text);
    }

    #[test]
    fn damaged_points_are_read_as_by_the_slow_parser(
        lines in proptest::collection::vec(line(), 1..6),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), "[ ,=\"\\\\\ni1.#e-]"), 0..4),
    ) {
        let mut text: Vec<char> = lines.join("\n").chars().collect();
        for (place, character) in damage {
            let place = place.index(text.len() + 1);
            text.insert(place, character.chars().next().unwrap_or(' '));
        }
        let text: String = text.into_iter().collect();
        prop_assert_eq!(read(text.as_bytes(), 64), expected(&text), "{}", text);
    }
}

#[test]
fn times_have_the_precision_that_is_said() {
    let mut decoder = decoder();
    let mut batches = VecDeque::new();
    for precision in
        [Precision::Seconds, Precision::Milliseconds, Precision::Microseconds, Precision::Nanoseconds]
    {
        decoder.set_precision(precision);
        decoder.decode(b"m float=1 -5\n", &mut batches).expect("decoded");
    }
    let times: Vec<_> = rows(&batches).iter().map(|point| point["time"].clone()).collect();
    assert_eq!(times, ["time -5000000000", "time -5000000", "time -5000", "time -5"]);
    decoder.set_precision(Precision::Seconds);
    decoder.decode(b"m float=1 9223372036854775\n", &mut batches).expect("decoded");
    assert!(decoder.faults().samples[0].contains("out of range; check the precision"));
}
