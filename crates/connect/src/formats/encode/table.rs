//! Aligned columns, for people.

use std::fmt::Write;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use tidemill_core::Cause;

use super::column_texts::{ColumnTexts, WithoutText};
use super::display_width::display_width;
use super::{TextEncoder, no_text};

/// How a table is written. Widths are counted in terminal columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStyle {
    /// Whether more rows come later. Columns then get room for longer values than those of the first rows.
    pub rows_follow: bool,
    /// How rows are laid out.
    pub layout: TableLayout,
    /// The largest column width. A longer text overflows.
    pub width_max: usize,
    /// The text for NULL.
    pub null: String,
}

/// How rows are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableLayout {
    /// Each row is a line, however long.
    #[default]
    Lines,
    /// Each row is a line if the first rows fit into this many terminal columns; otherwise each value is a line.
    Fitting(usize),
    /// A line for each value, with the column's name.
    Values,
}

impl Default for TableStyle {
    fn default() -> Self {
        TableStyle { rows_follow: true, layout: TableLayout::default(), width_max: 200, null: "NULL".into() }
    }
}

/// Writes a table: the header once, before the first rows, then a line per row or per value. Numbers are right-aligned.
/// The first rows determine the column widths. Values are never truncated: if a value is wider than its column, its
/// line overflows. Line breaks and other control characters are written as escapes.
#[derive(Debug)]
pub struct TableEncoder {
    columns: Vec<Column>,
    style: TableStyle,
    /// Known from the first rows on.
    form: Option<Form>,
    rows_written: u64,
    value: String,
    line: String,
}

/// The layout chosen for the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines,
    Values,
}

#[derive(Debug)]
struct Column {
    name: String,
    width: usize,
    is_number: bool,
    is_text: bool,
}

/// The number of rows that determine the widths.
const ROWS_MEASURED_MAX: usize = 1000;
/// The most characters, after the names, of the line between two rows if each value has a line.
const RULE_MAX: usize = 40;

impl TableEncoder {
    /// An encoder for rows of this schema.
    pub fn new(schema: &SchemaRef, style: TableStyle) -> Self {
        let columns =
            schema.fields().iter().map(|field| Column::new(field.name(), field.data_type(), &style));
        let columns = columns.collect();
        TableEncoder {
            columns,
            style,
            form: None,
            rows_written: 0,
            value: String::new(),
            line: String::new(),
        }
    }

    /// Determines the column widths and, from these, the layout.
    fn measure(&mut self, cells: &[ColumnTexts<'_>], row_count: usize) -> Result<Form, Cause> {
        // All of an overflowing text must be visible: that decides whether lines fit.
        let mut line_width = 0;
        for (column, cells) in self.columns.iter_mut().zip(cells) {
            let mut widest = column.width;
            for row in 0..row_count.min(ROWS_MEASURED_MAX) {
                write_cell(cells, row, &self.style.null, &mut self.value)?;
                let width = display_width(&self.value);
                widest = widest.max(width);
                let width = if column.is_text { width.min(self.style.width_max.max(1)) } else { width };
                column.width = column.width.max(width);
            }
            line_width += widest + 3;
        }
        Ok(match self.style.layout {
            TableLayout::Values => Form::Values,
            TableLayout::Fitting(width_max) if line_width > width_max.saturating_add(1) => Form::Values,
            _ => Form::Lines,
        })
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

    /// Appends the aligned value to the line.
    fn push_cell(&mut self, index: usize) {
        let column = &self.columns[index];
        let padding = column.width.saturating_sub(display_width(&self.value));
        let is_last = index + 1 == self.columns.len();
        self.line.push_str(match (index, is_last && self.value.is_empty()) {
            (0, false) => " ",
            (0, true) => "",
            (_, false) => " | ",
            (_, true) => " |",
        });
        let (before, after) = if column.is_number { (padding, 0) } else { (0, padding) };
        if !self.value.is_empty() {
            self.line.extend(std::iter::repeat_n(' ', before));
        }
        self.line.push_str(&self.value);
        if !is_last {
            let empty = if self.value.is_empty() { before } else { 0 };
            self.line.extend(std::iter::repeat_n(' ', after + empty));
        }
    }

    fn push_line(&mut self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.line.as_bytes());
        text.push(b'\n');
        self.line.clear();
    }

    /// A row as a line for each value.
    fn push_values(
        &mut self,
        row: usize,
        cells: &[ColumnTexts<'_>],
        text: &mut Vec<u8>,
    ) -> Result<(), Cause> {
        let names_width = self.columns.iter().map(|column| display_width(&column.name)).max().unwrap_or(0);
        let widest = self.columns.iter().map(|column| column.width).max().unwrap_or(0).min(RULE_MAX);
        let title = format!("-[ {} ]", self.rows_written + 1);
        let names_rule = (names_width + 2).max(title.len());
        self.line.push_str(&title);
        self.line.extend(std::iter::repeat_n('-', names_rule - title.len()));
        self.line.push('+');
        self.line.extend(std::iter::repeat_n('-', widest + 2));
        self.push_line(text);
        for (column, cells) in self.columns.iter().zip(cells) {
            write_cell(cells, row, &self.style.null, &mut self.value)?;
            let padding = names_rule - 1 - display_width(&column.name);
            self.line.push(' ');
            self.line.push_str(&column.name);
            self.line.extend(std::iter::repeat_n(' ', padding));
            self.line.push_str(if self.value.is_empty() { "|" } else { "| " });
            self.line.push_str(&self.value);
            text.extend_from_slice(self.line.as_bytes());
            text.push(b'\n');
            self.line.clear();
        }
        Ok(())
    }

    fn all_rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let cells = rows.columns().iter().zip(names).map(|(array, name)| {
            ColumnTexts::new(array, WithoutText::Told).map_err(|error| no_text("text", name, &error))
        });
        let cells = cells.collect::<Result<Vec<_>, Cause>>()?;
        let form = match self.form {
            Some(form) => form,
            None => {
                let form = self.measure(&cells, rows.num_rows())?;
                if form == Form::Lines {
                    self.push_header(text);
                }
                *self.form.insert(form)
            }
        };
        for row in 0..rows.num_rows() {
            match form {
                Form::Values => self.push_values(row, &cells, text)?,
                Form::Lines => {
                    for (index, cells) in cells.iter().enumerate() {
                        write_cell(cells, row, &self.style.null, &mut self.value)?;
                        self.push_cell(index);
                    }
                    self.push_line(text);
                }
            }
            self.rows_written += 1;
        }
        Ok(())
    }
}

impl TextEncoder for TableEncoder {
    /// Nothing: the header comes with the first rows, which determine the widths.
    fn header(&self, _text: &mut Vec<u8>) {}

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let start = text.len();
        self.all_rows(rows, text).inspect_err(|_| {
            text.truncate(start);
            self.line.clear();
        })
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
        let is_text = !data_type.is_numeric() && !is_fixed;
        let room = match data_type {
            _ if !style.rows_follow => 1,
            DataType::Timestamp(_, None) => 19,
            DataType::Timestamp(_, Some(_)) => 25,
            DataType::Date32 => 10,
            DataType::Boolean => 5,
            other if other.is_numeric() => 8,
            _ => 12.min(style.width_max),
        };
        let width = display_width(&escaped).max(room);
        Column { name: escaped, width, is_number: data_type.is_numeric(), is_text }
    }
}

/// Writes a value of a table into `value`.
fn write_cell(column: &ColumnTexts<'_>, row: usize, null: &str, value: &mut String) -> Result<(), Cause> {
    value.clear();
    if column.is_null(row) {
        value.push_str(null);
        return Ok(());
    }
    let written = column.write(row, &mut Escaping(value));
    written.map_err(|_| Cause::bug("a value of a table could not be written"))
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        push_escaped(text, self.0);
        Ok(())
    }
}

fn push_escaped(text: &str, escaped: &mut String) {
    if !text.chars().any(is_command) {
        return escaped.push_str(text);
    }
    for character in text.chars() {
        if is_command(character) {
            escaped.extend(character.escape_default())
        } else {
            escaped.push(character)
        }
    }
}

/// Whether a character controls the terminal, or changes the direction in which the rest of the line is read.
fn is_command(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
