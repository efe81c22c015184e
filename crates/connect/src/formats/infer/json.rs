//! The columns of NDJSON: keys in the order in which they first occur.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_json::reader::{ValueIter, infer_json_schema_from_iterator};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use serde_json::Value;
use tidemill_core::error::Cause;

use super::guess::Guess;
use super::{RECORDS_MAX, check_columns};
use crate::formats::ndjson::NdjsonDecoder;
use crate::formats::outermost_keys;
use crate::formats::{DecoderSettings, RecordDecoder};

/// `None` if there is no object.
pub(super) fn infer(sample: &[u8]) -> Result<Option<SchemaRef>, Cause> {
    let order = keys(sample)?;
    let lines = sample.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let object = |line| {
        let mut values = ValueIter::new(line, Some(2));
        match (values.next(), values.next()) {
            (Some(Ok(value)), None) if value.is_object() => Some(value),
            _ => None,
        }
    };
    let mut objects: Vec<_> = lines.take(RECORDS_MAX).filter_map(object).collect();
    with_numbers(&mut objects);
    if objects.is_empty() {
        return Ok(None);
    }
    let infer =
        |count: usize| infer_json_schema_from_iterator(objects[..count].iter().map(Ok::<_, ArrowError>));
    // Where a key is now an object and now a number, there is no common type: the first object's is taken.
    let Ok(schema) = infer(objects.len()).or_else(|_| infer(1)) else { return Ok(None) };
    check_columns(schema.fields().iter().map(count).sum())?;
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| usual(field)).collect();
    fields.sort_by_key(|field| order.get(field.name().as_bytes()).copied().unwrap_or(usize::MAX));
    with_times(sample, Arc::new(Schema::new(fields))).map(Some)
}

/// Treats the texts for NaN and the infinities as numbers, in columns that otherwise contain only numbers: JSON has no
/// other way to write them.
fn with_numbers(objects: &mut [Value]) {
    let is_no_number = |value: &Value| matches!(value.as_str(), Some("NaN" | "Infinity" | "-Infinity"));
    let mut numbers: HashMap<String, bool> = HashMap::new();
    for (key, value) in objects.iter().filter_map(Value::as_object).flatten() {
        let is_possible = value.is_number() || value.is_null() || is_no_number(value);
        let so_far = numbers.entry(key.clone()).or_insert(true);
        *so_far &= is_possible;
    }
    let has_number = |objects: &[Value], key: &str| objects.iter().any(|object| object[key].is_number());
    numbers.retain(|key, is_possible| *is_possible && has_number(objects, key));
    for (key, value) in objects.iter_mut().filter_map(Value::as_object_mut).flatten() {
        if numbers.contains_key(key) && is_no_number(value) {
            *value = Value::from(0.5);
        }
    }
}

/// The keys of the objects, as they are written, with their places in the order in which they first occur; broken lines may
/// add others.
fn keys(sample: &[u8]) -> Result<HashMap<&[u8], usize>, Cause> {
    let mut known = HashMap::new();
    let lines = sample.split(|byte| *byte == b'\n').take(RECORDS_MAX);
    for key in lines.flat_map(outermost_keys) {
        let place = known.len();
        known.entry(key).or_insert(place);
        check_columns(known.len())?;
    }
    Ok(known)
}

/// A field, or the fields of a struct.
fn count(field: &FieldRef) -> usize {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().map(count).sum(),
        DataType::List(item) => count(item),
        _ => 1,
    }
}

/// A column without values is VARCHAR, and numbers in lists are DOUBLE.
fn usual(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Null => DataType::Utf8,
        DataType::List(item) => {
            let item = usual(item);
            let is_number = item.data_type().is_numeric();
            let item = if is_number { item.with_data_type(DataType::Float64) } else { item };
            DataType::List(Arc::new(item))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| usual(field)).collect()),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}

/// A column of strings that are all times is a column of times.
fn with_times(sample: &[u8], schema: SchemaRef) -> Result<SchemaRef, Cause> {
    // Only these are decoded: a sample of many columns, of which each object has a few, would take much more memory.
    let texts: Vec<usize> =
        (0..schema.fields().len()).filter(|at| schema.field(*at).data_type() == &DataType::Utf8).collect();
    if texts.is_empty() {
        return Ok(schema);
    }
    let wanted =
        Arc::new(schema.project(&texts).map_err(|error| Cause::bug(error.to_string()).with_source(error))?);
    let settings = DecoderSettings { schema: wanted, csv: Default::default(), batch_rows: RECORDS_MAX };
    let mut decoder = NdjsonDecoder::new(settings)?;
    let mut batches = VecDeque::new();
    decoder.decode(sample, &mut batches)?;
    let fields = schema.fields().iter().enumerate().map(|(index, field)| {
        let mut guess = Guess::default();
        let Ok(at) = texts.binary_search(&index) else { return field.as_ref().clone() };
        for batch in &batches {
            batch.column(at).as_string::<i32>().iter().flatten().for_each(|text| guess.update(text));
        }
        match guess.data_type() {
            found @ (DataType::Date32 | DataType::Timestamp(..)) => {
                field.as_ref().clone().with_data_type(found)
            }
            _ => field.as_ref().clone(),
        }
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_no_numbers_are_numbers_among_numbers() {
        let sample = b"{\"a\": 1, \"b\": \"NaN\", \"c\": \"NaN\", \"d\": \"-Infinity\"}\n\
            {\"a\": \"NaN\", \"b\": \"Nancy\", \"c\": null, \"d\": 2.5}\n";
        let schema = infer(sample).unwrap().expect("columns");
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [DataType::Float64, DataType::Utf8, DataType::Utf8, DataType::Float64]);
    }
}
