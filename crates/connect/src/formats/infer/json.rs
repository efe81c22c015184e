//! The columns of NDJSON: keys in the order in which they first occur.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use serde::de::IgnoredAny;
use tidemill_core::error::Cause;

use super::check_columns;
use super::shape::Members;
use crate::formats::RECORD_LIMIT_BYTES;
use crate::formats::json::depth::is_too_deep;

/// Finds the columns of objects, one per line, of a text that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct JsonScan {
    /// A line that is not complete.
    begun: Vec<u8>,
    members: Members,
    has_objects: bool,
}

impl JsonScan {
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Cause> {
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..newline], &bytes[newline + 1..]);
            bytes = rest;
            if self.begun.is_empty() {
                self.line(line);
            } else {
                self.begun.extend_from_slice(line);
                let line = std::mem::take(&mut self.begun);
                self.line(&line);
                self.begun = line;
                self.begun.clear();
            }
        }
        // The decoder reads no longer line either.
        if self.begun.len() <= RECORD_LIMIT_BYTES {
            self.begun.extend_from_slice(bytes);
        }
        check_columns(self.members.count())
    }

    /// `None` if there was no object.
    pub(super) fn schema(&self) -> Option<SchemaRef> {
        let fields = self.members.iter().map(|(name, shape)| Field::new(name, shape.column_type(), true));
        self.has_objects.then(|| Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        let is_object = line.first() == Some(&b'{')
            && line.len() <= RECORD_LIMIT_BYTES
            && !is_too_deep(line)
            && serde_json::from_slice::<IgnoredAny>(line).is_ok();
        let Some(text) = std::str::from_utf8(line).ok().filter(|_| is_object) else { return };
        self.has_objects = true;
        self.members.take_object(text);
    }
}

/// The type of a value of any depth, as tests name it.
#[cfg(test)]
fn inferred(text: &str) -> Vec<(String, arrow_schema::DataType)> {
    let mut scan = JsonScan::default();
    scan.take(text.as_bytes()).unwrap();
    scan.take(b"\n").unwrap();
    let schema = scan.schema().expect("columns");
    schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, TimeUnit};

    use super::*;
    use crate::formats::json::depth::DEPTH_MAX;

    fn types(text: &str) -> Vec<DataType> {
        inferred(text).into_iter().map(|(_, data_type)| data_type).collect()
    }

    #[test]
    fn texts_for_no_numbers_are_numbers_among_numbers() {
        let text = "{\"a\": 1, \"b\": \"NaN\", \"c\": \"NaN\", \"d\": \"-Infinity\"}\n\
            {\"a\": \"NaN\", \"b\": \"Nancy\", \"c\": null, \"d\": 2.5}\n";
        assert_eq!(types(text), [DataType::Float64, DataType::Utf8, DataType::Utf8, DataType::Float64]);
    }

    #[test]
    fn a_column_has_a_type_that_keeps_all_its_values() {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let decimal = DataType::Decimal128(38, 0);
        let cases = [
            (vec!["1", "2"], DataType::Int64),
            (vec!["1", "2.5"], DataType::Float64),
            (vec!["11111111111111111112", "7"], decimal.clone()),
            (vec!["9007199254740993", "0.5"], DataType::Decimal128(38, 1)),
            (vec!["9007199254740993", "1e5"], DataType::Utf8),
            (vec!["true", "false", "null"], DataType::Boolean),
            (vec!["true", "1"], DataType::Utf8),
            (vec!["1", "\"1\""], DataType::Utf8),
            (vec!["\"01\"", "\"02\""], DataType::Utf8),
            (vec!["\"1\"", "\"2\""], DataType::Utf8),
            (vec!["\"2026-01-31\""], DataType::Date32),
            (vec!["\"2026-01-31\"", "\"2026-01-31T10:00:00Z\""], timestamp),
            (vec!["null"], DataType::Utf8),
            (vec!["[]"], list(DataType::Utf8)),
            (vec!["[1, 2]"], list(DataType::Float64)),
            (vec!["[1, 9007199254740993]"], list(DataType::Int64)),
            (vec!["[11111111111111111112]"], list(decimal)),
            (vec!["[\"a\", null]"], list(DataType::Utf8)),
            (vec!["[[1], [2.5]]"], list(list(DataType::Float64))),
            (vec!["{\"x\": 1}", "3"], DataType::Utf8),
            (vec!["{\"x\": 1}", "[3]"], DataType::Utf8),
            (vec!["[1]", "3"], DataType::Utf8),
            (
                vec!["{\"y\": 1}", "{\"x\": \"2026-01-31\", \"y\": 11111111111111111112}"],
                DataType::Struct(
                    vec![
                        Field::new("y", DataType::Decimal128(38, 0), true),
                        Field::new("x", DataType::Utf8, true),
                    ]
                    .into(),
                ),
            ),
        ];
        for (values, expected) in cases {
            let lines: Vec<String> = values.iter().map(|value| format!("{{\"v\": {value}}}")).collect();
            assert_eq!(types(&lines.join("\n")), [expected], "{values:?}");
        }
    }

    #[test]
    fn broken_lines_and_strange_keys_change_nothing_else() {
        let text =
            "\u{feff}{\"a\\u00fc\\n\": 1, \"b\": \"x\\\"}\"}\n{\"a\": \n[1]\n\n{\"c\": [}\n{\"late\": {}}";
        let names: Vec<String> = inferred(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["aü\n", "b", "late"]);
        let deep = |depth: usize| format!("{{\"d\": {}1{}}}\n", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(inferred(&format!("{}{{\"a\": 1}}", deep(1_000_000 / 2))).len(), 1);
        assert_eq!(inferred(&deep(DEPTH_MAX - 1)).len(), 1);
    }
}
