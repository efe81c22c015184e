//! How rows are written in a copy: as PostgreSQL's text, or as CSV.

use tidemill_connect::formats::{
    CsvSettings, DecoderSettings, Format, LineParser, ParsedLines, ParsedRow, RecordDecoder, text_decoder,
};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;

use crate::values::{Column, write_value};

/// Rows of a batch that are decoded at once.
const BATCH_ROWS: usize = 8192;

/// How rows are written in a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFormat {
    pub is_csv: bool,
    pub delimiter: u8,
    /// What stands for a value that is not there.
    pub null: String,
    /// Whether the first line has the names of the columns.
    pub has_header: bool,
    /// Around values of CSV that need it.
    pub quote: u8,
    /// Whether lines that are wrong are left out; otherwise the first one ends the copy.
    pub leaves_out_errors: bool,
}

impl CopyFormat {
    pub fn text() -> CopyFormat {
        CopyFormat {
            is_csv: false,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            has_header: false,
            quote: b'"',
            leaves_out_errors: false,
        }
    }

    pub fn csv() -> CopyFormat {
        CopyFormat { is_csv: true, delimiter: b',', null: String::new(), ..CopyFormat::text() }
    }

    /// Writes the line with the names of the columns.
    pub fn write_header(&self, columns: &[Column], line: &mut Vec<u8>) {
        for (index, column) in columns.iter().enumerate() {
            self.delimit(index, line);
            self.write_text(column.name.as_bytes(), line);
        }
        line.push(b'\n');
    }

    /// Writes a row as a line.
    pub fn write_row(&self, columns: &[Column], batch: &RecordBatch, row: usize, line: &mut Vec<u8>) {
        let mut value = Vec::new();
        for (index, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
            self.delimit(index, line);
            value.clear();
            match write_value(column, array, row, &mut value) {
                true => self.write_text(&value, line),
                false => line.extend(self.null.as_bytes()),
            }
        }
        line.push(b'\n');
    }

    fn delimit(&self, index: usize, line: &mut Vec<u8>) {
        if index > 0 {
            line.push(self.delimiter);
        }
    }

    fn write_text(&self, text: &[u8], line: &mut Vec<u8>) {
        match self.is_csv {
            true => self.write_quoted(text, line),
            false => text.iter().for_each(|byte| self.write_escaped(*byte, line)),
        }
    }

    fn write_quoted(&self, text: &[u8], line: &mut Vec<u8>) {
        let is_special =
            |byte: &u8| *byte == self.delimiter || *byte == self.quote || matches!(byte, b'\n' | b'\r');
        if text != self.null.as_bytes() && text != b"\\." && !text.iter().any(is_special) {
            line.extend(text);
            return;
        }
        line.push(self.quote);
        for byte in text {
            if *byte == self.quote {
                line.push(self.quote);
            }
            line.push(*byte);
        }
        line.push(self.quote);
    }

    fn write_escaped(&self, byte: u8, line: &mut Vec<u8>) {
        let letter = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            byte if byte == self.delimiter => byte,
            byte => return line.push(byte),
        };
        line.extend([b'\\', letter]);
    }

    /// What reads lines with these columns.
    pub fn decoder(&self, schema: &SchemaRef) -> Result<Box<dyn RecordDecoder>, Cause> {
        let csv = CsvSettings {
            header: Some(self.has_header),
            delimiter: Some(self.delimiter),
            quote: self.quote,
            null: self.null.clone(),
        };
        let settings = DecoderSettings { schema: SchemaRef::clone(schema), csv, batch_rows: BATCH_ROWS };
        if self.is_csv {
            return text_decoder(Format::Csv, settings);
        }
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let parser = EscapedText { format: self.clone(), columns, is_at_header: self.has_header };
        Ok(Box::new(ParsedLines::new(parser, settings)?))
    }
}

/// Takes a line of PostgreSQL's text apart.
struct EscapedText {
    format: CopyFormat,
    columns: Vec<String>,
    is_at_header: bool,
}

impl LineParser for EscapedText {
    fn parse<'line>(&mut self, line: &'line str, row: &mut ParsedRow<'line, '_>) -> Result<(), String> {
        // The end of the rows, in versions of the protocol before this one.
        if std::mem::take(&mut self.is_at_header) || line == "\\." {
            row.leave_out();
            return Ok(());
        }
        let mut columns = self.columns.iter();
        let mut fields = 0;
        for field in self.fields(line) {
            fields += 1;
            match columns.next() {
                Some(_) if field == self.format.null => {}
                Some(column) => row.set(column, unescaped(field)?),
                None => {}
            }
        }
        match fields == self.columns.len() {
            true => Ok(()),
            false => Err(format!("it has {fields} values instead of {}", self.columns.len())),
        }
    }
}

impl EscapedText {
    /// The fields of a line, as they are written.
    fn fields<'line>(&self, line: &'line str) -> impl Iterator<Item = &'line str> + use<'line> {
        let (delimiter, mut rest) = (self.format.delimiter, Some(line));
        std::iter::from_fn(move || {
            let line = rest?;
            let (mut is_escaped, mut end) = (false, line.len());
            for (at, byte) in line.bytes().enumerate() {
                if byte == delimiter && !is_escaped {
                    end = at;
                    break;
                }
                is_escaped = byte == b'\\' && !is_escaped;
            }
            rest = line.get(end + 1..);
            Some(&line[..end])
        })
    }
}

fn unescaped(field: &str) -> Result<String, String> {
    if !field.contains('\\') {
        return Ok(field.to_owned());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, rest) {
            (b'\\', [letter, after @ ..]) => {
                let (value, digits) = match letter {
                    b'b' => (0x08, 0),
                    b'f' => (0x0c, 0),
                    b'n' => (b'\n', 0),
                    b'r' => (b'\r', 0),
                    b't' => (b'\t', 0),
                    b'v' => (0x0b, 0),
                    b'x' if number(after, 16, 2).1 > 0 => number(after, 16, 2),
                    b'0'..=b'7' => {
                        let (value, digits) = number(rest, 8, 3);
                        (value, digits - 1)
                    }
                    other => (*other, 0),
                };
                bytes.push(value);
                rest = &after[digits..];
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The number at the beginning, and how many digits it has.
fn number(text: &[u8], base: u32, digits_max: usize) -> (u8, usize) {
    let digits = text.iter().take(digits_max).map_while(|byte| char::from(*byte).to_digit(base));
    let (value, count) = digits.fold((0, 0), |(value, count), digit| (value * base + digit, count + 1));
    (value as u8, count)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use tidemill_engine::arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::values::columns;

    fn rows() -> RecordBatch {
        let numbers = Arc::new(Int64Array::from(vec![Some(-7), None, Some(3), Some(4)])) as ArrayRef;
        let texts = vec![Some("a\tb\\,\"c\"\nd\re\u{8}\u{b}\u{c}ö"), Some("x"), None, Some("\\N")];
        let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)]).unwrap()
    }

    fn written(format: &CopyFormat, batch: &RecordBatch) -> String {
        let columns = columns(&batch.schema(), &[]);
        let mut bytes = Vec::new();
        if format.has_header {
            format.write_header(&columns, &mut bytes);
        }
        (0..batch.num_rows()).for_each(|row| format.write_row(&columns, batch, row, &mut bytes));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn rows_are_written_as_postgresql_writes_them_and_read_again() {
        let text = "-7\ta\\tb\\\\,\"c\"\\nd\\re\\b\\v\\fö\n\\N\tx\n3\t\\N\n4\t\\\\N\n";
        assert_eq!(written(&CopyFormat::text(), &rows()), text);
        let csv = "-7,\"a\tb\\,\"\"c\"\"\nd\re\u{8}\u{b}\u{c}ö\"\n,x\n3,\n4,\\N\n";
        assert_eq!(written(&CopyFormat::csv(), &rows()), csv);
        for format in [
            CopyFormat::text(),
            CopyFormat::csv(),
            CopyFormat { has_header: true, delimiter: b';', ..CopyFormat::csv() },
            CopyFormat { delimiter: b'|', null: "null".to_owned(), ..CopyFormat::text() },
        ] {
            let mut decoder = format.decoder(&rows().schema()).unwrap();
            let mut batches = VecDeque::new();
            decoder.begin("test");
            decoder.decode(written(&format, &rows()).as_bytes(), &mut batches).unwrap();
            decoder.finish(&mut batches).unwrap();
            assert_eq!(decoder.faults().samples, [""; 0]);
            assert_eq!(batches.iter().next(), Some(&rows()), "{format:?}");
        }
    }

    #[test]
    fn what_others_escape_is_read_and_what_is_wrong_has_its_line() {
        let format = CopyFormat::text();
        let mut decoder = format.decoder(&rows().schema()).unwrap();
        let mut batches = VecDeque::new();
        decoder.begin("COPY r");
        let text = "1\t\\x41\\101\\q\nx\ty\n1\n2\t\\xff\n3\tlast\n\\.\n";
        decoder.decode(text.as_bytes(), &mut batches).unwrap();
        decoder.finish(&mut batches).unwrap();
        let texts = StringArray::from(vec!["AAq", "last"]);
        assert_eq!(**batches[0].column(1), texts);
        let mut samples = decoder.faults().samples;
        samples.sort();
        assert_eq!(samples.len(), 3, "{samples:?}");
        assert!(samples[0].starts_with("COPY r, line 2: "), "{samples:?}");
        assert!(samples[1].starts_with("COPY r, line 3: it has 1 values instead of 2"), "{samples:?}");
        assert!(samples[2].starts_with("COPY r, line 4: it is not UTF-8"), "{samples:?}");
    }
}
