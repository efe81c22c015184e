//! Copies in binary form: a signature, rows of values with their lengths, an end.

use std::collections::VecDeque;

use tidemill_connect::formats::RecordDecoder;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Cause, Faults};
use tidemill_sql::ParameterType;

use super::text;
use crate::postgres::values::{Column, Kind, parameter, type_of_parameter, write_value};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The signature, the flags, and the length of what extends them.
const HEAD_BYTES: usize = SIGNATURE.len() + 8;
/// In the place of a row's number of values.
const END: [u8; 2] = (-1_i16).to_be_bytes();
/// In the place of a value's length.
const NULL: [u8; 4] = (-1_i32).to_be_bytes();
/// The flags whose meaning a reader must know. None of them is known here.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
const EXTENSION_BYTES_MAX: usize = 64 << 10;
/// As lines of text may have.
const VALUE_BYTES_MAX: usize = 16 << 20;

pub(super) fn write_begin(bytes: &mut Vec<u8>) {
    bytes.extend(SIGNATURE);
    bytes.extend([0; 8]);
}

pub(super) fn write_end(bytes: &mut Vec<u8>) {
    bytes.extend(END);
}

pub(super) fn write_row(columns: &[Column], batch: &RecordBatch, row: usize, bytes: &mut Vec<u8>) {
    bytes.extend((columns.len() as u16).to_be_bytes());
    for (column, array) in columns.iter().zip(batch.columns()) {
        let place = bytes.len();
        bytes.extend(NULL);
        if write_value(column, array, row, bytes) {
            let length = (bytes.len() - place - NULL.len()) as u32;
            bytes[place..place + NULL.len()].copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// Of the lines of text.
const DELIMITER: u8 = b'\t';

/// A column that is read.
struct ReadColumn {
    name: String,
    kind: ParameterType,
}

/// Which part of the copy a reader has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopySection {
    Header,
    /// The header has this many more bytes, which mean nothing here.
    HeaderExtension(usize),
    Rows,
    /// Nothing may come any more.
    Ended,
}

/// Reads rows in binary form. They are written as lines of text, for what reads these checks all values already.
pub(crate) struct BinaryRows {
    columns: Vec<ReadColumn>,
    lines: Box<dyn RecordDecoder>,
    section: CopySection,
    waiting: Vec<u8>,
    rows: u64,
}

impl BinaryRows {
    /// Reads rows with these columns; `lines` reads them as text.
    pub fn new(columns: &[Column], lines: Box<dyn RecordDecoder>) -> Result<BinaryRows, Cause> {
        let read = |column: &Column| match type_of_parameter(column.kind.oid()) {
            Ok(Some(kind)) if !matches!(column.kind, Kind::Array(_) | Kind::Int2Vector) => {
                Ok(ReadColumn { name: column.name.clone(), kind })
            }
            _ => Err(Cause::user(format!(
                "column '{}' is a list, which is not read in binary form; copy it with FORMAT csv, or text",
                column.name
            ))),
        };
        let columns = columns.iter().map(read).collect::<Result<_, _>>()?;
        Ok(BinaryRows { columns, lines, section: CopySection::Header, waiting: Vec::new(), rows: 0 })
    }

    pub fn begin(&mut self, place: &str) {
        self.lines.begin(place);
    }

    pub fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend(bytes);
        let mut rest = &waiting[..];
        let mut lines = Vec::new();
        while let Some(after) = self.step(rest, &mut lines)? {
            rest = after;
        }
        self.waiting = rest.to_vec();
        self.lines.decode(&lines, batches)
    }

    pub fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        // The client has said that this is the end, so the mark is not needed: ADBC does not write it, and PostgreSQL takes that.
        let is_between_rows = self.section == CopySection::Rows && self.waiting.is_empty();
        if self.section != CopySection::Ended && !is_between_rows {
            return Err(Cause::user(format!(
                "the copy ends after {} rows, within the next one; it is cut off",
                self.rows
            )));
        }
        self.lines.finish(batches)
    }

    pub fn faults(&mut self) -> Faults {
        let mut faults = self.lines.faults();
        faults.samples.iter_mut().for_each(|sample| *sample = sample.replacen(", line ", ", row ", 1));
        faults
    }

    /// Reads what is at the beginning; what follows it, or `None` if it is not complete yet.
    fn step<'a>(&mut self, bytes: &'a [u8], lines: &mut Vec<u8>) -> Result<Option<&'a [u8]>, Cause> {
        match self.section {
            CopySection::Header => self.header(bytes),
            CopySection::HeaderExtension(0) => {
                self.section = CopySection::Rows;
                Ok(Some(bytes))
            }
            CopySection::HeaderExtension(left) => {
                let here = left.min(bytes.len());
                self.section = CopySection::HeaderExtension(left - here);
                Ok((here > 0).then(|| &bytes[here..]))
            }
            CopySection::Rows => self.row(bytes, lines),
            CopySection::Ended if bytes.is_empty() => Ok(None),
            CopySection::Ended => Err(Cause::user("there is more behind the mark of the copy's end")),
        }
    }

    fn header<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Cause> {
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(Cause::user("the copy does not begin as copies in binary form do (PGCOPY)"));
        }
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (flags, extension) = (number(SIGNATURE.len()), number(SIGNATURE.len() + 4) as usize);
        if flags & CRITICAL_FLAGS != 0 {
            return Err(Cause::user(format!("the copy has flags that are not known here: {flags:#x}")));
        }
        if extension > EXTENSION_BYTES_MAX {
            return Err(Cause::user(format!(
                "the copy's head has {extension} bytes more; {EXTENSION_BYTES_MAX} are permitted"
            )));
        }
        self.section = CopySection::HeaderExtension(extension);
        Ok(Some(rest))
    }

    fn row<'a>(&mut self, bytes: &'a [u8], lines: &mut Vec<u8>) -> Result<Option<&'a [u8]>, Cause> {
        let Some((count, mut rest)) = bytes.split_first_chunk() else { return Ok(None) };
        if *count == END {
            self.section = CopySection::Ended;
            return Ok(Some(rest));
        }
        let (count, row) = (i16::from_be_bytes(*count), self.rows + 1);
        if usize::try_from(count) != Ok(self.columns.len()) {
            let expected = self.columns.len();
            return Err(Cause::user(format!("row {row} has {count} values instead of {expected}")));
        }
        let start = lines.len();
        for (index, column) in self.columns.iter().enumerate() {
            let wrong = |why: String| Cause::user(format!("row {row}, column '{}': {why}", column.name));
            let value = match value(rest).map_err(wrong)? {
                Some((value, after)) => {
                    rest = after;
                    value
                }
                None => {
                    lines.truncate(start);
                    return Ok(None);
                }
            };
            if index > 0 {
                lines.push(DELIMITER);
            }
            match value {
                None => lines.extend(b"\\N"),
                Some(value) => {
                    let text = parameter(column.kind, true, Some(value)).map_err(wrong)?.value;
                    text::write(text.unwrap_or_default().as_bytes(), DELIMITER, lines);
                }
            }
        }
        lines.push(b'\n');
        self.rows = row;
        Ok(Some(rest))
    }
}

/// The value at the beginning, and what follows it; `None` if it is not complete yet. The value is `None` if it is NULL.
#[allow(clippy::type_complexity)]
fn value(bytes: &[u8]) -> Result<Option<(Option<&[u8]>, &[u8])>, String> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    if *length == NULL {
        return Ok(Some((None, rest)));
    }
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if length <= VALUE_BYTES_MAX => {
            Ok(rest.split_at_checked(length).map(|(value, rest)| (Some(value), rest)))
        }
        _ => Err(format!("a value has {length} bytes; 0 to {VALUE_BYTES_MAX} are permitted")),
    }
}
