//! Values as JSON, as PostgreSQL writes them: `{"id":1,"at":"2026-01-31T12:30:00"}`.

use std::fmt::Write;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::Result;

use tidemill_connect::formats::write_json_text;

use super::kind::told_texts;
use crate::logical::casts::value_texts::texts;

/// A column whose values are written as JSON.
pub(super) enum JsonColumn {
    Flags(BooleanArray),
    Floats(ArrayRef),
    /// Numbers with a text that JSON has, too.
    Numbers(StringArray),
    Texts(StringArray),
    /// Texts that are JSON themselves.
    Json(StringArray),
    /// Times, with a `T` between the day and the time of day.
    Times(StringArray),
    List(ListArray, Box<JsonColumn>),
    Row(StructArray, Vec<(String, JsonColumn)>),
    Nothing,
}

impl JsonColumn {
    /// Prepares to write texts that are JSON.
    pub fn of_json(values: &ArrayRef) -> Result<JsonColumn> {
        Ok(JsonColumn::Json(cast(values, &DataType::Utf8)?.as_string().clone()))
    }

    /// Prepares to write the values of a column.
    pub fn of(values: &ArrayRef) -> Result<JsonColumn> {
        if let Some(texts) = told_texts(values) {
            return JsonColumn::of_json(&texts);
        }
        Ok(match values.data_type() {
            DataType::Null => JsonColumn::Nothing,
            DataType::Boolean => JsonColumn::Flags(values.as_boolean().clone()),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                JsonColumn::Floats(cast(values, &DataType::Float64)?)
            }
            other if other.is_numeric() => JsonColumn::Numbers(texts(values)?),
            DataType::Timestamp(..) => JsonColumn::Times(texts(values)?),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let list = cast(values, &DataType::List(Field::clone(item).into()))?.as_list().clone();
                let items = JsonColumn::of(list.values())?;
                JsonColumn::List(list, Box::new(items))
            }
            DataType::Struct(fields) => {
                let row = values.as_struct().clone();
                let columns = fields.iter().zip(row.columns());
                let columns =
                    columns.map(|(field, values)| Ok((field.name().clone(), JsonColumn::of(values)?)));
                let columns = columns.collect::<Result<_>>()?;
                JsonColumn::Row(row, columns)
            }
            _ => JsonColumn::Texts(texts(values)?),
        })
    }

    /// Returns the value of a row.
    pub fn text(&self, row: usize) -> String {
        let mut text = String::new();
        self.write(row, &mut text);
        text
    }

    /// Writes the value of a row.
    pub fn write(&self, row: usize, text: &mut String) {
        match self {
            JsonColumn::Flags(flags) if !flags.is_null(row) => {
                text.push_str(if flags.value(row) { "true" } else { "false" });
            }
            JsonColumn::Floats(floats) if !floats.is_null(row) => {
                write_float(floats.as_primitive::<Float64Type>().value(row), text);
            }
            JsonColumn::Numbers(texts) | JsonColumn::Json(texts) if !texts.is_null(row) => {
                text.push_str(texts.value(row));
            }
            JsonColumn::Texts(texts) if !texts.is_null(row) => write_json_text(texts.value(row), text),
            JsonColumn::Times(times) if !times.is_null(row) => write_time(times.value(row), text),
            JsonColumn::List(list, items) if !list.is_null(row) => {
                let (first, end) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
                text.push('[');
                for place in first..end {
                    if place > first {
                        text.push(',');
                    }
                    items.write(place as usize, text);
                }
                text.push(']');
            }
            JsonColumn::Row(rows, columns) if !rows.is_null(row) => {
                text.push('{');
                for (place, (name, values)) in columns.iter().enumerate() {
                    if place > 0 {
                        text.push(',');
                    }
                    write_json_text(name, text);
                    text.push(':');
                    values.write(row, text);
                }
                text.push('}');
            }
            _ => text.push_str("null"),
        }
    }
}

/// Writes a number of floating point. JSON has no number for those that are not finite.
fn write_float(float: f64, text: &mut String) {
    // Writing into a string cannot fail.
    let _ = if float.is_nan() {
        write!(text, "\"NaN\"")
    } else if float.is_infinite() {
        write!(text, "\"{}Infinity\"", if float < 0.0 { "-" } else { "" })
    } else if float == 0.0 || (1e-4..1e15).contains(&float.abs()) {
        write!(text, "{float}")
    } else {
        write!(text, "{float:e}")
    };
}

/// Writes a time as ISO 8601 has it: `2026-01-31T12:30:00+01:00`.
fn write_time(time: &str, text: &mut String) {
    let time = time.replacen(' ', "T", 1);
    let is_short = time.len() > 3 && time[..time.len() - 2].ends_with(['+', '-']) && time.contains(':');
    let _ = write!(text, "\"{time}{}\"", if is_short { ":00" } else { "" });
}
