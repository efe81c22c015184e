//! The types of the columns of a CSV, from all its records.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::guess::Guess;
use crate::formats::{
    CsvSettings, RECORD_LIMIT_BYTES, Span, Step, different_names, field_text, is_comment, named_delimiter,
    next_record,
};

/// Finds the types of the columns of texts that come in pieces.
#[derive(Debug)]
pub(crate) struct CsvScan {
    settings: CsvSettings,
    names: Vec<String>,
    guesses: Vec<Guess>,
    /// For each field of a record of this file its column, once that is known.
    columns: Option<Vec<Option<usize>>>,
    /// Whether something of this file was read.
    has_begun: bool,
    /// Lines of this file that were left out before its header.
    left_out: u64,
    /// Begins with a record.
    buffer: Vec<u8>,
    spans: Vec<Span>,
    /// Columns of later files that the first one does not have.
    others: Vec<String>,
}

impl CsvScan {
    /// For columns of these names, with all settings known.
    pub(super) fn new(settings: CsvSettings, names: Vec<String>) -> CsvScan {
        let guesses = vec![Guess::default(); names.len()];
        CsvScan {
            settings,
            names,
            guesses,
            columns: None,
            has_begun: false,
            left_out: 0,
            buffer: Vec::new(),
            spans: Vec::new(),
            others: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if memchr::memchr(b'\n', bytes).is_some() || self.buffer.len() > RECORD_LIMIT_BYTES {
            self.run();
        }
    }

    /// The file has ended.
    pub(super) fn end_file(&mut self) {
        self.buffer.push(b'\n');
        self.run();
        self.buffer.clear();
        (self.columns, self.has_begun, self.left_out) = (None, false, 0);
    }

    /// The columns, and the names of those that only later files have.
    pub(super) fn schema(&self) -> (SchemaRef, &[String]) {
        let fields = self.names.iter().zip(&self.guesses);
        let fields = fields.map(|(name, guess)| Field::new(name, guess.data_type(), true));
        (Arc::new(Schema::new(fields.collect::<Vec<_>>())), &self.others)
    }

    fn run(&mut self) {
        let (buffer, mut spans) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.spans));
        let mut at = if !self.has_begun && buffer.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let (delimiter, quote) = (self.settings.delimiter.unwrap_or(b','), self.settings.quote);
        while at < buffer.len() {
            spans.clear();
            let step = next_record(&buffer, at, delimiter, quote, |_, span| spans.push(span));
            at = match step {
                Step::Record { next, .. } => {
                    if !self.is_before_table(&buffer[at..next], spans.len()) {
                        self.record(&buffer, &spans);
                    }
                    next
                }
                Step::Empty { next } => {
                    self.is_before_table(b"", 0);
                    next
                }
                Step::Incomplete if buffer.len() - at <= RECORD_LIMIT_BYTES => break,
                // The decoder continues with the next line, too.
                Step::Incomplete | Step::Bad(_) => {
                    memchr::memchr(b'\n', &buffer[at..]).map_or(buffer.len(), |newline| at + newline + 1)
                }
            };
        }
        (self.buffer, self.spans) = (buffer, spans);
        self.buffer.drain(..at);
    }

    /// Whether a record belongs to what comes before the header.
    fn is_before_table(&mut self, record: &[u8], fields: usize) -> bool {
        if self.columns.is_some() {
            return false;
        }
        if !std::mem::replace(&mut self.has_begun, true) && named_delimiter(record).is_some() {
            return true;
        }
        let is_title = match self.settings.table_fields {
            None => self.left_out < self.settings.skip,
            Some(table) => {
                let is_comment = self.settings.header == Some(true) && is_comment(record);
                !record.is_empty() && (table != fields || is_comment) && self.left_out < self.settings.skip
            }
        };
        self.left_out += u64::from(is_title);
        is_title
    }

    fn record(&mut self, buffer: &[u8], spans: &[Span]) {
        let Some(columns) = &self.columns else { return self.first_record(buffer, spans) };
        if columns.len() != spans.len() {
            return;
        }
        for (span, column) in spans.iter().zip(columns) {
            let Some(guess) = column.map(|column| &mut self.guesses[column]) else { continue };
            let field = &buffer[span.range()];
            let Ok(text) = std::str::from_utf8(field) else { continue };
            if span.is_quoted() && memchr::memchr(self.settings.quote, field).is_some() {
                guess.update(&field_text(buffer, *span, self.settings.quote));
            } else if span.is_quoted() || text != self.settings.null {
                guess.update(text);
            }
        }
    }

    fn first_record(&mut self, buffer: &[u8], spans: &[Span]) {
        if self.settings.header != Some(true) {
            self.columns = Some((0..self.names.len()).map(Some).collect());
            return self.record(buffer, spans);
        }
        let texts: Vec<String> =
            spans.iter().map(|span| field_text(buffer, *span, self.settings.quote)).collect();
        let names = different_names(texts.iter().map(String::as_str));
        let place = |name: &String| {
            let is_same = |other: &String| other.to_lowercase() == name.to_lowercase();
            self.names.iter().position(|other| other == name).or_else(|| self.names.iter().position(is_same))
        };
        let columns: Vec<Option<usize>> = names.iter().map(place).collect();
        for (name, _) in names.iter().zip(&columns).filter(|(_, column)| column.is_none()) {
            if !self.others.contains(name) {
                self.others.push(name.clone());
            }
        }
        self.columns = Some(columns);
    }
}
