//! Aligned columns, for people.

use std::fmt::Write;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::ArrayFormatter;
use arrow_schema::{DataType, SchemaRef};
use tidemill_core::Cause;

use super::display_width::{prefix, width};
use super::{DISPLAY, TextEncoder, no_text};

/// How a table is written. Widths count columns of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStyle {
    /// Whether more rows come later: columns then get room for longer values than those of the first rows.
    pub rows_follow: bool,
    /// Texts wider than this are cut.
    pub width_max: usize,
    /// What stands for NULL.
    pub null: String,
}

impl Default for TableStyle {
    fn default() -> Self {
        TableStyle { rows_follow: true, width_max: 40, null: String::new() }
    }
}

/// Writes a table: the header once, before the first rows, then a line per row. Numbers stand right. The
/// first rows decide how wide the columns are; a text that is wider is cut and ends with `…`. A number is
/// never cut: its line then sticks out. Line breaks and other control characters are written as escapes, so
/// that a row is a line and no value can command the terminal.
#[derive(Debug)]
pub struct TableEncoder {
    columns: Vec<Column>,
    style: TableStyle,
    has_widths: bool,
    value: String,
    line: String,
}

#[derive(Debug)]
struct Column {
    name: String,
    width: usize,
    is_number: bool,
    may_be_cut: bool,
}

/// So many rows decide the widths.
const ROWS_MEASURED_MAX: usize = 1000;

impl TableEncoder {
    /// An encoder for rows of this schema.
    pub fn new(schema: &SchemaRef, style: TableStyle) -> Self {
        let columns =
            schema.fields().iter().map(|field| Column::new(field.name(), field.data_type(), &style));
        let columns = columns.collect();
        TableEncoder { columns, style, has_widths: false, value: String::new(), line: String::new() }
    }

    fn measure(&mut self, cells: &[Cells<'_>], row_count: usize) -> Result<(), Cause> {
        for (column, cells) in self.columns.iter_mut().zip(cells) {
            for row in 0..row_count.min(ROWS_MEASURED_MAX) {
                cells.write(row, &self.style.null, &mut self.value)?;
                let width = width(&self.value);
                let width = if column.may_be_cut { width.min(self.style.width_max.max(1)) } else { width };
                column.width = column.width.max(width);
            }
        }
        self.has_widths = true;
        Ok(())
    }

    fn push_header(&mut self, text: &mut Vec<u8>) {
        for index in 0..self.columns.len() {
            self.value.clone_from(&self.columns[index].name);
            self.push_cell(index);
        }
        self.push_line(text);
        for (index, column) in self.columns.iter().enumerate() {
            text.extend_from_slice(if index > 0 { b"+" } else { b"" });
            text.resize(text.len() + column.width + 2, b'-');
        }
        text.push(b'\n');
    }

    /// Puts the value, cut and aligned, at the end of the line.
    fn push_cell(&mut self, index: usize) {
        let column = &self.columns[index];
        let mut value_width = width(&self.value);
        if value_width > column.width && column.may_be_cut {
            self.value.truncate(prefix(&self.value, column.width.saturating_sub(1)));
            self.value.push('…');
            value_width = width(&self.value);
        }
        let padding = column.width.saturating_sub(value_width);
        self.line.push_str(if index > 0 { " | " } else { " " });
        let (before, after) = if column.is_number { (padding, 0) } else { (0, padding) };
        self.line.extend(std::iter::repeat_n(' ', before));
        self.line.push_str(&self.value);
        self.line.extend(std::iter::repeat_n(' ', after));
    }

    fn push_line(&mut self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.line.trim_end().as_bytes());
        text.push(b'\n');
        self.line.clear();
    }
}

impl TextEncoder for TableEncoder {
    /// Nothing: the header comes with the first rows, which decide the widths.
    fn header(&self, _text: &mut Vec<u8>) {}

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let cells = rows.columns().iter().zip(names).map(|(array, name)| Cells::new(array, name));
        let cells = cells.collect::<Result<Vec<_>, Cause>>()?;
        if !self.has_widths {
            self.measure(&cells, rows.num_rows())?;
            self.push_header(text);
        }
        for row in 0..rows.num_rows() {
            for (index, cells) in cells.iter().enumerate() {
                cells.write(row, &self.style.null, &mut self.value)?;
                self.push_cell(index);
            }
            self.push_line(text);
        }
        Ok(())
    }
}

impl Column {
    fn new(name: &str, data_type: &DataType, style: &TableStyle) -> Column {
        let mut escaped = String::new();
        push_escaped(name, &mut escaped);
        let data_type = match data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        let is_fixed = data_type.is_temporal() || *data_type == DataType::Boolean;
        let may_be_cut = !data_type.is_numeric() && !is_fixed;
        let room = match data_type {
            _ if !style.rows_follow => 1,
            DataType::Timestamp(_, None) => 19,
            DataType::Timestamp(_, Some(_)) => 25,
            DataType::Date32 => 10,
            DataType::Boolean => 5,
            other if other.is_numeric() => 8,
            _ => 12.min(style.width_max),
        };
        let width = width(&escaped).max(room);
        Column { name: escaped, width, is_number: data_type.is_numeric(), may_be_cut }
    }
}

/// The values of a column as texts.
struct Cells<'a> {
    formatter: ArrayFormatter<'a>,
    nulls: Option<tidemill_core::arrow::buffer::NullBuffer>,
}

impl<'a> Cells<'a> {
    fn new(array: &'a dyn Array, name: &str) -> Result<Cells<'a>, Cause> {
        let formatter = ArrayFormatter::try_new(array, &DISPLAY);
        let formatter = formatter.map_err(|error| no_text("text", name, &error))?;
        Ok(Cells { formatter, nulls: array.logical_nulls() })
    }

    /// Puts a value into `value`.
    fn write(&self, row: usize, null: &str, value: &mut String) -> Result<(), Cause> {
        value.clear();
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            value.push_str(null);
            return Ok(());
        }
        let written = write!(Escaping(value), "{}", self.formatter.value(row));
        written.map_err(|_| Cause::Bug("a value of a table could not be written".into()))
    }
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        push_escaped(text, self.0);
        Ok(())
    }
}

fn push_escaped(text: &str, escaped: &mut String) {
    if !text.chars().any(char::is_control) {
        return escaped.push_str(text);
    }
    for character in text.chars() {
        match character.is_control() {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
}
