//! A block of CSV records, on the way from bytes to columns.

use super::RECORD_LIMIT_BYTES;
use super::bad_rows::{BadRows, Texts};
use super::csv_header::Layout;
use super::csv_records::{Span, Step, next_record};

/// The records of a block: for each the selected fields, in the order of the columns.
#[derive(Default)]
pub(super) struct Records {
    pub(super) spans: Vec<Span>,
    /// Where each field begins and ends in the buffer.
    pub(super) ranges: Vec<(u32, u32)>,
}

impl Records {
    /// Reads the record at `at`. Only a record with the right number of fields is kept.
    #[inline]
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        at: usize,
        delimiter: u8,
        quote: u8,
        layout: &Layout,
    ) -> Step {
        let first = self.spans.len();
        self.spans.resize(first + layout.slots, Span::default());
        let spans = &mut self.spans[first..];
        let step = next_record(buffer, at, delimiter, quote, |column, span| {
            if let Some(&Some(slot)) = layout.slot_of.get(column) {
                spans[slot as usize] = span;
            }
        });
        match step {
            Step::Record { next, fields, escaped }
                if fields == layout.fields && next - at <= RECORD_LIMIT_BYTES =>
            {
                if escaped {
                    for span in spans.iter_mut().filter(|span| span.is_quoted()) {
                        *span = span.unescape(buffer, quote);
                    }
                }
                self.ranges.push((at as u32, next as u32));
                step
            }
            // The only field is NULL.
            Step::Empty { next } if layout.fields == 1 => {
                self.spans[first..].fill(Span::empty(at));
                self.ranges.push((at as u32, next as u32));
                Step::Record { next, fields: 1, escaped: false }
            }
            _ => {
                self.spans.truncate(first);
                step
            }
        }
    }

    /// Marks records with bytes that are invalid in text, and overwrites what is not UTF-8.
    pub(super) fn check_bytes(&self, buffer: &mut [u8], start: usize, end: usize, bad: &mut BadRows) {
        let rows = self.ranges.len();
        let block = &mut buffer[start..end];
        let has_nul = memchr::memchr(0, block).is_some();
        let is_utf8 = std::str::from_utf8(block).is_ok();
        if is_utf8 && !has_nul {
            return;
        }
        for (row, &(begin, end)) in self.ranges.iter().enumerate() {
            let record = &block[begin as usize - start..end as usize - start];
            if !is_utf8 && std::str::from_utf8(record).is_err() {
                bad.mark(row, rows, || "bytes that are not UTF-8".to_owned());
            } else if has_nul && memchr::memchr(0, record).is_some() {
                bad.mark(row, rows, || "a NUL byte".to_owned());
            }
        }
        if !is_utf8 {
            overwrite_invalid(block);
        }
    }
}

/// The fields of one column.
pub(super) struct Fields<'a> {
    pub(super) text: &'a str,
    /// Where the text begins in the buffer.
    pub(super) start: usize,
    pub(super) spans: &'a [Span],
    pub(super) rows: usize,
    pub(super) slot: usize,
    pub(super) slots: usize,
    pub(super) null: &'a str,
}

impl Texts for Fields<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&str> {
        let span = self.spans[row * self.slots + self.slot];
        let range = span.range();
        let text = &self.text[range.start - self.start..range.end - self.start];
        (span.is_quoted() || text != self.null).then_some(text)
    }
}

/// Replaces bytes that are not UTF-8, so that the rest can be read as text.
fn overwrite_invalid(mut bytes: &mut [u8]) {
    while let Err(error) = std::str::from_utf8(bytes) {
        let (begin, length) = (error.valid_up_to(), error.error_len());
        let end = length.map_or(bytes.len(), |length| begin + length);
        bytes[begin..end].fill(b'?');
        bytes = &mut bytes[end..];
    }
}

/// The number of newlines in these bytes.
pub(super) fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
