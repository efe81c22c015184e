//! One JSON object per line.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_json::WriterBuilder;
use arrow_json::writer::{
    Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, make_encoder,
};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use tidemill_core::Cause;

use super::{TextEncoder, unrepresentable};
use crate::formats::encode::must_differ;
use crate::formats::value_text;

/// Writes each row as a JSON object on its own line, with all its columns: NULL is `null`. JSON has no numbers for
/// NaN and the infinities, so they are written as the texts `"NaN"`, `"Infinity"` and `"-Infinity"`, as PostgreSQL
/// writes them and our reader reads them. Timestamps are ISO 8601 (`2026-11-20T19:00:00`), binary values hexadecimal, intervals
/// as PostgreSQL writes them.
#[derive(Debug)]
pub struct NdjsonEncoder {
    is_lenient: bool,
}

impl NdjsonEncoder {
    /// An encoder for rows of this schema.
    ///
    /// # Errors
    /// [`Cause::user`] if two columns have the same name: most readers would keep only one of them.
    pub fn new(schema: &SchemaRef) -> Result<Self, Cause> {
        must_differ(schema, "JSON")?;
        Ok(NdjsonEncoder { is_lenient: false })
    }

    /// An encoder that writes the text `ERROR: ...` in place of a value without a text, such as a date outside the
    /// calendar (beyond the year 262,000).
    ///
    /// # Errors
    /// As for [`NdjsonEncoder::new`].
    pub fn of_any_value(schema: &SchemaRef) -> Result<Self, Cause> {
        must_differ(schema, "JSON")?;
        Ok(NdjsonEncoder { is_lenient: true })
    }
}

impl TextEncoder for NdjsonEncoder {
    fn header(&self, _text: &mut Vec<u8>) {}

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if !self.is_lenient
            && let Some(wrong) = unrepresentable(rows).into_iter().next()
        {
            return Err(Cause::user(format!("{}; cast it to another type", wrong.reason)));
        }
        let start = text.len();
        let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(OwnTexts));
        let mut writer = builder.build::<_, LineDelimited>(&mut *text);
        let written = writer.write(rows).and_then(|()| writer.finish());
        written.map_err(|error| {
            text.truncate(start);
            Cause::user(format!("rows cannot be written as JSON: {error}; cast the column to another type"))
                .with_source(error)
        })
    }
}

/// Writes floating-point numbers and intervals, also within lists and structs.
#[derive(Debug)]
struct OwnTexts;

/// Arrow's own way of writing.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

impl EncoderFactory for OwnTexts {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if matches!(array.data_type(), DataType::Interval(_) | DataType::Duration(_)) {
            return Ok(Some(NullableEncoder::new(Box::new(IntervalEncoder(array)), array.nulls().cloned())));
        }
        let is_number = match array.data_type() {
            DataType::Float32 => {
                array.as_primitive::<Float32Type>().values().iter().all(|value| value.is_finite())
            }
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().values().iter().all(|value| value.is_finite())
            }
            _ => true,
        };
        if is_number {
            return Ok(None);
        }
        let plain = make_encoder(field, array, &PLAIN)?;
        Ok(Some(NullableEncoder::new(Box::new(FloatEncoder { array, plain }), array.nulls().cloned())))
    }
}

struct IntervalEncoder<'a>(&'a dyn Array);

impl Encoder for IntervalEncoder<'_> {
    fn encode(&mut self, row: usize, text: &mut Vec<u8>) {
        let interval = value_text::exact_text(self.0, row).unwrap_or_default();
        text.extend_from_slice(format!("\"{interval}\"").as_bytes());
    }
}

struct FloatEncoder<'a> {
    array: &'a dyn Array,
    plain: NullableEncoder<'a>,
}

impl Encoder for FloatEncoder<'_> {
    fn encode(&mut self, row: usize, text: &mut Vec<u8>) {
        let value = match self.array.data_type() {
            DataType::Float32 => f64::from(self.array.as_primitive::<Float32Type>().value(row)),
            _ => self.array.as_primitive::<Float64Type>().value(row),
        };
        match value {
            value if value.is_nan() => text.extend_from_slice(b"\"NaN\""),
            f64::INFINITY => text.extend_from_slice(b"\"Infinity\""),
            f64::NEG_INFINITY => text.extend_from_slice(b"\"-Infinity\""),
            _ => self.plain.encode(row, text),
        }
    }
}
