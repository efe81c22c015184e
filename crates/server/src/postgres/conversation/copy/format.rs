//! How rows are written in a copy: as PostgreSQL's text, as CSV, or in binary form.

use std::collections::VecDeque;

use tidemill_connect::formats::{
    CsvSettings, DecoderSettings, Format, ParsedLines, RecordDecoder, text_decoder,
};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, Faults};

use super::binary::{self, BinaryRows};
use super::end_mark::EndMark;
use super::text::{self, EscapedText};
use crate::postgres::values::{Column, columns, write_value};

/// Rows of a batch that are decoded at once.
const BATCH_ROWS: usize = 8192;

/// What a copy consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyLayout {
    Text,
    Csv,
    Binary,
}

/// How rows are written in a copy. All but the layout is of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFormat {
    pub layout: CopyLayout,
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
            layout: CopyLayout::Text,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            has_header: false,
            quote: b'"',
            leaves_out_errors: false,
        }
    }

    pub fn csv() -> CopyFormat {
        let (layout, null) = (CopyLayout::Csv, String::new());
        CopyFormat { layout, delimiter: b',', null, ..CopyFormat::text() }
    }

    pub fn binary() -> CopyFormat {
        CopyFormat { layout: CopyLayout::Binary, ..CopyFormat::text() }
    }

    pub fn is_binary(&self) -> bool {
        self.layout == CopyLayout::Binary
    }

    /// What comes before the rows.
    pub fn write_begin(&self, columns: &[Column], bytes: &mut Vec<u8>) {
        if self.is_binary() {
            binary::write_begin(bytes);
        } else if self.has_header {
            self.write_header(columns, bytes);
        }
    }

    /// What comes behind the rows.
    pub fn write_end(&self, bytes: &mut Vec<u8>) {
        if self.is_binary() {
            binary::write_end(bytes);
        }
    }

    /// Writes the line with the names of the columns.
    fn write_header(&self, columns: &[Column], line: &mut Vec<u8>) {
        for (index, column) in columns.iter().enumerate() {
            self.delimit(index, line);
            self.write_text(column.name.as_bytes(), line);
        }
        line.push(b'\n');
    }

    pub fn write_row(&self, columns: &[Column], batch: &RecordBatch, row: usize, bytes: &mut Vec<u8>) {
        if self.is_binary() {
            binary::write_row(columns, batch, row, bytes)
        } else {
            self.write_line(columns, batch, row, bytes)
        }
    }

    fn write_line(&self, columns: &[Column], batch: &RecordBatch, row: usize, line: &mut Vec<u8>) {
        let mut value = Vec::new();
        for (index, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
            self.delimit(index, line);
            value.clear();
            if write_value(column, array, row, &mut value) {
                self.write_text(&value, line)
            } else {
                line.extend(self.null.as_bytes())
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
        match self.layout {
            CopyLayout::Csv => self.write_quoted(text, line),
            _ => text::write(text, self.delimiter, line),
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

    /// What reads rows with these columns.
    pub fn decoder(&self, schema: &SchemaRef) -> Result<CopyDecoder, Cause> {
        let lines = self.line_decoder(schema)?;
        Ok(if self.is_binary() {
            CopyDecoder::Binary(Box::new(BinaryRows::new(&columns(schema, &[1]), lines)?))
        } else if self.layout == CopyLayout::Csv {
            CopyDecoder::Csv(lines, EndMark::default())
        } else {
            CopyDecoder::Lines(lines)
        })
    }

    fn line_decoder(&self, schema: &SchemaRef) -> Result<Box<dyn RecordDecoder>, Cause> {
        let csv = CsvSettings {
            header: Some(self.has_header),
            delimiter: Some(self.delimiter),
            quote: self.quote,
            null: self.null.clone(),
            names_delimiter: false,
            ..CsvSettings::default()
        };
        let settings = DecoderSettings { schema: SchemaRef::clone(schema), csv, batch_rows: BATCH_ROWS };
        if self.layout == CopyLayout::Csv {
            return text_decoder(Format::Csv, settings);
        }
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let (delimiter, null) = (self.delimiter, self.null.clone());
        let parser = EscapedText { delimiter, null, columns, is_at_header: self.has_header };
        Ok(Box::new(ParsedLines::new(parser, settings)?))
    }
}

/// Reads the rows of a copy.
pub(crate) enum CopyDecoder {
    Lines(Box<dyn RecordDecoder>),
    Csv(Box<dyn RecordDecoder>, EndMark),
    Binary(Box<BinaryRows>),
}

impl CopyDecoder {
    /// Begins; messages name the place.
    pub fn begin(&mut self, place: &str) {
        match self {
            CopyDecoder::Lines(lines) | CopyDecoder::Csv(lines, _) => lines.begin(place),
            CopyDecoder::Binary(rows) => rows.begin(place),
        }
    }

    /// Reads what has come.
    pub fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        match self {
            CopyDecoder::Lines(lines) => lines.decode(bytes, batches),
            CopyDecoder::Csv(lines, mark) => lines.decode(&mark.pass(bytes), batches),
            CopyDecoder::Binary(rows) => rows.decode(bytes, batches),
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        match self {
            CopyDecoder::Lines(lines) => lines.finish(batches),
            CopyDecoder::Csv(lines, mark) => {
                lines.decode(&mark.finish(), batches)?;
                lines.finish(batches)
            }
            CopyDecoder::Binary(rows) => rows.finish(batches),
        }
    }

    /// What was wrong since this was last asked.
    pub fn faults(&mut self) -> Faults {
        match self {
            CopyDecoder::Lines(lines) | CopyDecoder::Csv(lines, _) => lines.faults(),
            CopyDecoder::Binary(rows) => rows.faults(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_engine::arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn rows() -> RecordBatch {
        let numbers = Arc::new(Int64Array::from(vec![Some(-7), None, Some(3), Some(4)])) as ArrayRef;
        let texts = vec![Some("a\tb\\,\"c\"\nd\re\u{8}\u{b}\u{c}ö"), Some("x"), None, Some("\\N")];
        let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)]).unwrap()
    }

    fn written(format: &CopyFormat, batch: &RecordBatch) -> String {
        let columns = columns(&batch.schema(), &[]);
        let mut bytes = Vec::new();
        format.write_begin(&columns, &mut bytes);
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
