//! From lines to rows: one pass over the bytes, straight into the columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;

use super::boolean::boolean;
use super::column::{Column, Refused, Value};
use super::equal_shape_lines::EqualShapeLines;
use super::escapes::{end_of_value, plain, unescape};
use super::names::{NameMatch, Names, ValueTarget};
use super::numbers::{number, whole};
use super::scan::find;
use super::shape::{MarkedLine, Shapes};
use super::{LineProtocolSettings, Precision};
use crate::formats::sql_type;

/// The most undeclared names that are reported.
const UNDECLARED_MAX: usize = 64;
/// The most bytes of a name or value that a message shows.
const SHOWN_BYTES: usize = 60;

/// Rows made from lines.
#[derive(Debug)]
pub(super) struct Points {
    schema: SchemaRef,
    /// All declared columns, read or not: whether a point is good does not depend on who reads it.
    columns: Vec<Column>,
    /// The columns that are read, in the order of the schema.
    read: Vec<usize>,
    names: Names,
    shapes: Shapes,
    time_column: Option<usize>,
    measurement_column: Option<usize>,
    /// Columns that must have a value in each row.
    required: Vec<usize>,
    /// Whether points without a time are left without one.
    leaves_times_open: bool,
    settings: LineProtocolSettings,
    /// The measurement of the last line.
    measurement: Option<usize>,
    rows: usize,
    scratch: Vec<u8>,
    undeclared: HashSet<Box<[u8]>>,
    /// Undeclared names that have not been reported yet.
    news: Vec<String>,
}

/// The time of a line without one, in nanoseconds since 1970.
pub(super) type Arrival = i64;

/// The part of a point that a name is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Tag,
    Field,
}

impl Points {
    /// `read`: the declared columns whose values are wanted.
    pub(super) fn new(
        declared: &SchemaRef,
        read: &[usize],
        settings: LineProtocolSettings,
    ) -> Result<Points, Cause> {
        let schema = crate::formats::project(declared, read)?;
        let column = |(index, field): (usize, &FieldRef)| {
            if read.contains(&index) {
                Column::new(Arc::clone(field))
            } else {
                Column::unread(Arc::clone(field))
            }
        };
        let columns: Vec<Column> =
            declared.fields().iter().enumerate().map(column).collect::<Result<_, _>>()?;
        let points = Points {
            time_column: index_of(declared, &settings.time_column),
            measurement_column: index_of(declared, &settings.measurement_column),
            required: (0..columns.len()).filter(|index| !declared.field(*index).is_nullable()).collect(),
            leaves_times_open: false,
            schema,
            columns,
            read: read.to_vec(),
            names: Names::default(),
            shapes: Shapes::default(),
            settings,
            measurement: None,
            rows: 0,
            scratch: Vec::new(),
            undeclared: HashSet::new(),
            news: Vec::new(),
        };
        points.check().map(|()| points)
    }

    fn check(&self) -> Result<(), Cause> {
        let fields = self.columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>();
        crate::formats::text_form::refuse_restricted(&Schema::new(fields), "line protocol")?;
        let time = &self.settings.time_column;
        for (index, column) in self.columns.iter().enumerate() {
            let (name, data_type) = (column.field.name(), column.field.data_type());
            let is_time = self.time_column == Some(index);
            if is_time != matches!(data_type, DataType::Timestamp(..)) {
                let text = if is_time {
                    format!(
                        "it is the time of a point, so declare it as TIMESTAMP, not {}",
                        sql_type(data_type)
                    )
                } else {
                    format!("only the column '{time}' can be a TIMESTAMP; declare this one as BIGINT")
                };
                return Err(Cause::user(format!("column '{name}' of line protocol: {text}")));
            }
            if self.measurement_column == Some(index) && !column.is_text() {
                return Err(Cause::user(format!(
                    "column '{name}': it is the measurement, so declare it as VARCHAR"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn set_precision(&mut self, precision: Precision) {
        self.settings.precision = precision;
    }

    /// Leaves the following points without a time if they have none, even if the column is NOT NULL.
    pub(super) fn leave_times_open(&mut self) {
        self.leaves_times_open = true;
        self.required.retain(|column| Some(*column) != self.time_column);
        let open = |(index, field): (usize, &FieldRef)| {
            if Some(self.read[index]) == self.time_column {
                Arc::new(field.as_ref().clone().with_nullable(true))
            } else {
                Arc::clone(field)
            }
        };
        let fields: Vec<FieldRef> = self.schema.fields().iter().enumerate().map(open).collect();
        self.schema = Arc::new(Schema::new(fields));
    }

    /// Names that were seen for the first time and are not declared.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// Takes lines, starting with this one, that are UTF-8 and look like earlier ones. Returns how many lines, and how
    /// many marks they have; none if the first looks different or is bad. There will be at most `rows_max` rows.
    pub(super) fn push_alike(
        &mut self,
        text: &[u8],
        line: MarkedLine,
        rows_max: usize,
        arrival: Arrival,
    ) -> (usize, usize) {
        let Points { shapes, columns, settings, measurement_column, time_column, rows, .. } = self;
        let leaves_times_open = self.leaves_times_open;
        let Some(shape) = shapes.find(text, line) else { return (0, 0) };
        let alike = EqualShapeLines::new(text, line, shape, settings.line_bytes_max);
        let mut lines = alike.lines().min(rows_max.saturating_sub(*rows));
        if let Some(column) = measurement_column {
            let places = std::iter::repeat_n(alike.measurement(), lines);
            lines = columns[*column].push_texts(*rows, text, places);
        }
        if let Some(column) = time_column.filter(|_| shape.has_time || !leaves_times_open) {
            let column = &mut columns[column];
            let DataType::Timestamp(unit, _) = *column.field.data_type() else { return (0, 0) };
            let times = alike.times().take(lines);
            let times = times.map_while(|given| in_unit(unit, given, settings.precision, arrival));
            lines = column.push_times(*rows, times);
        }
        let lines = alike.first(lines).push(columns, *rows);
        *rows += lines;
        columns.iter_mut().for_each(|column| column.truncate(*rows));
        (lines, lines * shape.marks())
    }

    /// Remembers the shape of a line that was just accepted, with all its marks.
    pub(super) fn learn(&mut self, text: &[u8], line: MarkedLine) {
        self.shapes.learn(text, line, &self.names);
    }

    /// Takes the line `at..end` of a text that is UTF-8, without its line end; returns whether it was a point.
    ///
    /// # Errors
    /// The reason if it is bad; nothing of it is kept then.
    #[inline]
    pub(super) fn push(
        &mut self,
        text: &[u8],
        at: usize,
        end: usize,
        arrival: Arrival,
    ) -> Result<bool, String> {
        let result = self.point(text, at, end, arrival);
        if !matches!(result, Ok(true)) {
            self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
        }
        self.rows += usize::from(matches!(result, Ok(true)));
        result
    }

    /// The rows so far; the next batch begins.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, Cause> {
        let bug = |error| Cause::bug(format!("a batch of points: {error}")).with_source(error);
        let rows = std::mem::take(&mut self.rows);
        let mut columns = Vec::with_capacity(self.read.len());
        for column in &self.read {
            columns.push(self.columns[*column].finish(rows).map_err(bug)?);
        }
        // Those that are not read are forgotten.
        self.columns.iter_mut().for_each(|column| column.truncate(0));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(bug)
    }

    /// Whether there is a point of a wanted measurement.
    fn point(&mut self, text: &[u8], at: usize, end: usize, arrival: Arrival) -> Result<bool, String> {
        let mut at = skip_spaces(text, at, end);
        if at == end || text[at] == b'#' {
            return Ok(false);
        }
        let (stop, has_backslash) = end_of_value(text, at, end, *b", \\");
        if stop == at {
            return Err("the measurement is missing".to_owned());
        }
        let name = &text[at..stop];
        if !self.settings.measurements.is_empty() && !self.is_wanted(name) {
            return Ok(false);
        }
        self.measurement = self.names.measurement(self.measurement, name);
        if let Some(column) = self.measurement_column {
            self.push_text(column, &text[at..], name.len(), has_backslash.then_some(&b", "[..]))
                .map_err(|refused| self.refusal(refused, column, name))?;
        }
        let mut before = self.measurement.unwrap_or(usize::MAX);
        let mut left = self.settings.values_max;
        at = stop;
        while at < end && text[at] == b',' {
            self.count(&mut left)?;
            (at, before) = self.tag(text, at + 1, end, before)?;
        }
        at = skip_spaces(text, at, end);
        if at == end {
            return Err("the fields are missing".to_owned());
        }
        loop {
            self.count(&mut left)?;
            (at, before) = self.field(text, at, end, before)?;
            match text[..end].get(at) {
                Some(b',') => at += 1,
                Some(b' ') | None => break,
                Some(_) => return Err(format!("something follows a value: '{}'", shown(&text[at..end]))),
            }
        }
        self.time(text, skip_spaces(text, at, end), end, arrival)?;
        match self.required.iter().find(|column| self.columns[**column].lacks(self.rows)) {
            None => Ok(true),
            Some(column) => {
                Err(format!("column '{}' is NOT NULL, but has no value", self.columns[*column].field.name()))
            }
        }
    }

    #[inline(always)]
    fn count(&self, left: &mut usize) -> Result<(), String> {
        *left = left.checked_sub(1).ok_or_else(|| {
            format!("more than {} tags and fields; send them as several points", self.settings.values_max)
        })?;
        Ok(())
    }

    #[cold]
    fn is_wanted(&self, name: &[u8]) -> bool {
        let name = plain(name, b", ");
        self.settings.measurements.iter().any(|wanted| wanted.as_bytes() == name)
    }

    /// Reads a tag; returns where it ends, and the number of its name.
    #[inline(always)]
    fn tag(&mut self, text: &[u8], at: usize, end: usize, before: usize) -> Result<(usize, usize), String> {
        let found = self.name(text, at, end, before, Part::Tag)?;
        let (stop, has_backslash) = end_of_value(text, found.value, end, *b", =\\");
        let value = &text[found.value..stop];
        if value.is_empty() || text[..end].get(stop) == Some(&b'=') {
            return Err(self.bad_tag(value, &text[at..found.value]));
        }
        if let ValueTarget::Column(column) = found.target {
            self.push_text(column, &text[found.value..], value.len(), has_backslash.then_some(&b", ="[..]))
                .map_err(|refused| self.refusal(refused, column, value))?;
        }
        Ok((stop, found.number))
    }

    #[cold]
    fn bad_tag(&self, value: &[u8], name: &[u8]) -> String {
        if value.is_empty() {
            format!("tag '{}' has no value; remove the tag", shown(name))
        } else {
            format!("tag '{}': a '=' in the value must be written '\\='", shown(name))
        }
    }

    /// As [`Points::tag`].
    #[inline(always)]
    fn field(&mut self, text: &[u8], at: usize, end: usize, before: usize) -> Result<(usize, usize), String> {
        let found = self.name(text, at, end, before, Part::Field)?;
        let (value, stop) = match text[..end].get(found.value) {
            Some(b'"') => {
                let (stop, has_backslash) = end_of_value(text, found.value + 1, end, *b"\"\\");
                if stop >= end {
                    return Err(
                        "a string has no closing quote, and the end of the line ends the point".to_owned()
                    );
                }
                let escaped = has_backslash.then_some(&b"\"\\"[..]);
                if let ValueTarget::Column(column) = found.target {
                    self.push_text(column, &text[found.value + 1..], stop - found.value - 1, escaped)
                        .map_err(|refused| self.refusal(refused, column, &text[found.value..=stop]))?;
                }
                (None, stop + 1)
            }
            Some(b'0'..=b'9' | b'-' | b'.') => match number(text, found.value, end) {
                Some((value, stop)) => (Some(Value::Number(value)), stop),
                None => return Err(bad_value(text, found.value, end)),
            },
            _ => {
                let stop = find(text, found.value, end, *b", ");
                let value = boolean(&text[found.value.min(stop)..stop]);
                (Some(Value::Boolean(value.ok_or_else(|| bad_value(text, found.value, end))?)), stop)
            }
        };
        if stop < end && !matches!(text[stop], b',' | b' ') {
            return Err(bad_value(text, found.value, end));
        }
        if let (ValueTarget::Column(column), Some(value)) = (found.target, value) {
            self.columns[column]
                .push(self.rows, value)
                .map_err(|refused| self.refusal(refused, column, &text[found.value..stop]))?;
        }
        Ok((stop, found.number))
    }

    #[inline(always)]
    fn name(
        &mut self,
        text: &[u8],
        at: usize,
        end: usize,
        before: usize,
        part: Part,
    ) -> Result<NameMatch, String> {
        if let Some(found) = self.names.follow(before, text, at)
            && found.value <= end
        {
            return Ok(found);
        }
        let Points { names, columns, settings, undeclared, news, .. } = self;
        let resolve = |raw: &[u8]| {
            let name = plain(raw, b", =");
            let target = target(&name, columns, settings);
            let is_new = undeclared.len() < UNDECLARED_MAX && !undeclared.contains(&name[..]);
            if target == ValueTarget::Undeclared && is_new {
                let what = if part == Part::Tag { "tag" } else { "field" };
                news.push(format!("{what} '{}' is ignored because no column has this name", shown(&name)));
                undeclared.insert(name.into());
            }
            target
        };
        Ok(names.look_up(before, text, at, end, resolve)?)
    }

    /// Stores the text at the beginning of `rest`; in it these bytes may be escaped by a backslash.
    #[inline(always)]
    fn push_text(
        &mut self,
        column: usize,
        rest: &[u8],
        length: usize,
        escaped: Option<&[u8]>,
    ) -> Result<(), Refused> {
        match escaped {
            None => self.columns[column].push_text(self.rows, rest, length),
            Some(escaped) => self.push_escaped(column, &rest[..length], escaped),
        }
    }

    #[cold]
    fn push_escaped(&mut self, column: usize, raw: &[u8], escaped: &[u8]) -> Result<(), Refused> {
        self.scratch.clear();
        unescape(raw, escaped, &mut self.scratch);
        self.columns[column].push_text(self.rows, &self.scratch, self.scratch.len())
    }

    #[inline(always)]
    fn time(&mut self, text: &[u8], at: usize, end: usize, arrival: Arrival) -> Result<(), String> {
        let stop = find(text, at, end, [b' ']);
        if skip_spaces(text, stop, end) != end {
            return Err(format!("something follows the time: '{}'", shown(&text[stop..end])));
        }
        let given = if at == end {
            None
        } else {
            Some(whole(text, at, stop).ok_or_else(|| {
                format!("'{}' is not a time; a time is a whole number since 1970", shown(&text[at..stop]))
            })?)
        };
        let Some(column) = self.time_column else { return Ok(()) };
        if given.is_none() && self.leaves_times_open {
            return Ok(());
        }
        let DataType::Timestamp(unit, _) = *self.columns[column].field.data_type() else { return Ok(()) };
        let Some(time) = in_unit(unit, given, self.settings.precision, arrival) else {
            return Err(format!("the time {} is out of range; check the precision", shown(&text[at..stop])));
        };
        self.columns[column]
            .push_time(self.rows, time)
            .map_err(|refused| self.refusal(refused, column, b"time"))
    }

    #[cold]
    fn refusal(&self, refused: Refused, column: usize, value: &[u8]) -> String {
        let field = &self.columns[column].field;
        let (name, data_type) = (field.name(), sql_type(field.data_type()));
        match refused {
            Refused::Twice => format!("column '{name}' has two values"),
            Refused::Mismatch => format!("column '{name}': '{}' is not a {data_type}", shown(value)),
        }
    }
}

/// The column of a name; if none has exactly that name, one that differs only in case.
fn target(name: &[u8], columns: &[Column], settings: &LineProtocolSettings) -> ValueTarget {
    let special = [settings.time_column.as_bytes(), settings.measurement_column.as_bytes()];
    let is_like = |candidate: &str, exact: bool| {
        let candidate = candidate.as_bytes();
        let is_same = candidate == name || !exact && candidate.eq_ignore_ascii_case(name);
        is_same && !special.contains(&candidate)
    };
    for exact in [true, false] {
        if let Some(column) = columns.iter().position(|column| is_like(column.field.name(), exact)) {
            return ValueTarget::Column(column);
        }
    }
    ValueTarget::Undeclared
}

fn index_of(schema: &Schema, name: &str) -> Option<usize> {
    schema.fields().iter().position(|field| field.name() == name)
}

#[inline(always)]
pub(super) fn skip_spaces(text: &[u8], mut at: usize, end: usize) -> usize {
    while at < end && text[at] == b' ' {
        at += 1;
    }
    at
}

#[cold]
fn bad_value(text: &[u8], at: usize, end: usize) -> String {
    let stop = find(text, at, end, *b", ");
    let value = shown(&text[at.min(stop)..stop]);
    format!("'{value}' is not a value; write 1.5, 7i, 7u, true or \"text\"")
}

/// A point's time in a column's unit, rounded towards the past; `None` if it does not fit.
#[inline(always)]
fn in_unit(unit: TimeUnit, given: Option<i64>, precision: Precision, arrival: Arrival) -> Option<i64> {
    let wanted = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let (value, per_second) = match given {
        Some(time) => (time, precision.per_second()),
        None => (arrival, Precision::Nanoseconds.per_second()),
    };
    if wanted >= per_second {
        value.checked_mul(wanted / per_second)
    } else {
        Some(value.div_euclid(per_second / wanted))
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    let dots = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{dots}", text.escape_debug())
}
