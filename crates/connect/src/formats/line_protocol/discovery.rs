//! Infers the columns of line protocol from its first lines: time, measurement, then tags and fields as they first
//! occur.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::LineProtocolSettings;
use super::escapes::{end_of_value, plain};
use super::numbers::{Number, number};
use super::points::skip_spaces;

/// The most columns that are inferred.
const COLUMNS_MAX: usize = 1024;

/// The columns of the first points in a text of complete lines; `None` if there is no point. Integers and floats under
/// one name make a DOUBLE; for other types the first one counts.
pub(crate) fn discover(sample: &[u8], points_max: usize) -> Option<SchemaRef> {
    let mut found = DiscoveredColumns::default();
    let lines = sample.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let points = lines.filter(|line| found.line(line.trim_ascii().as_bytes()).is_some()).take(points_max);
    if points.count() == 0 {
        return None;
    }
    let LineProtocolSettings { time_column, measurement_column, .. } = LineProtocolSettings::default();
    let special = [
        Field::new(&time_column, DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new(&measurement_column, DataType::Utf8, true),
    ];
    let others =
        found.columns.into_iter().filter(|(name, _)| *name != time_column && *name != measurement_column);
    let others = others.map(|(name, data_type)| Field::new(name, data_type, true));
    Some(Arc::new(Schema::new(special.into_iter().chain(others).collect::<Vec<_>>())))
}

#[derive(Default)]
struct DiscoveredColumns {
    columns: Vec<(String, DataType)>,
    places: HashMap<String, usize>,
}

impl DiscoveredColumns {
    /// `None` if the line is not a point.
    fn line(&mut self, line: &[u8]) -> Option<()> {
        let end = line.len();
        let (mut at, _) = end_of_value(line, 0, end, *b", \\");
        if at == 0 || line[0] == b'#' {
            return None;
        }
        while line.get(at) == Some(&b',') {
            let (equals, _) = end_of_value(line, at + 1, end, *b"= ,\\");
            self.add(line.get(at + 1..equals)?, DataType::Utf8);
            at = end_of_value(line, equals + 1, end, *b", =\\").0;
        }
        at = skip_spaces(line, at, end);
        loop {
            let (equals, _) = end_of_value(line, at, end, *b"= ,\\");
            let name =
                line.get(at..equals).filter(|name| !name.is_empty() && line.get(equals) == Some(&b'='))?;
            let (data_type, next) = field(line, equals + 1)?;
            self.add(name, data_type);
            match line.get(next) {
                Some(b',') => at = next + 1,
                _ => return Some(()),
            }
        }
    }

    fn add(&mut self, raw: &[u8], data_type: DataType) {
        let name = String::from_utf8_lossy(&plain(raw, b", =")).into_owned();
        if let Some(place) = self.places.get(&name) {
            let known = &mut self.columns[*place].1;
            if known.is_numeric() && data_type.is_numeric() && *known != data_type {
                *known = DataType::Float64;
            }
        } else if self.columns.len() < COLUMNS_MAX {
            self.places.insert(name.clone(), self.columns.len());
            self.columns.push((name, data_type));
        }
    }
}

/// The type of a value, and where it ends.
fn field(line: &[u8], at: usize) -> Option<(DataType, usize)> {
    let end = line.len();
    match line.get(at)? {
        b'"' => {
            let (quote, _) = end_of_value(line, at + 1, end, *b"\"\\");
            (quote < end).then_some((DataType::Utf8, quote + 1))
        }
        b'0'..=b'9' | b'-' | b'.' => {
            let (value, next) = number(line, at, end)?;
            let data_type = match value {
                Number::Signed(_) => DataType::Int64,
                Number::Unsigned(_) => DataType::UInt64,
                Number::Whole(_) | Number::Float(_) => DataType::Float64,
            };
            Some((data_type, next))
        }
        _ => Some((DataType::Boolean, end_of_value(line, at, end, *b", \\").0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_in_the_order_of_the_points() -> Result<(), Box<dyn std::error::Error>> {
        let text = b"# agent\ncpu,host=a,rack\\ no=7 usage=1i,up=t 5\nnot a point\ncpu,host=b usage=1.5,note=\"a,b\"\n";
        let schema = discover(text, 100).ok_or("there are points")?;
        let found: Vec<_> =
            schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        let expected = "time Timestamp(ns), measurement Utf8, host Utf8, rack no Utf8, usage Float64, \
                        up Boolean, note Utf8";
        assert_eq!(found.join(", "), expected);
        assert!(discover(b"# nothing\n", 100).is_none());
        Ok(())
    }
}
