//! CSV: records of fields with a delimiter between them (RFC 4180), with or without a header.
//!
//! - With a header, columns are found by name in any case, and undeclared columns of the file are ignored. Without one
//!   they are found by position, and a record has as many fields as there are columns.
//! - An empty field is NULL; for a string only if it is not quoted: `""` is the empty string.
//! - A record may contain newlines in quotes. After a broken record, reading continues at the next line.
//! - Empty lines are skipped; but if records have a single field, an empty line is a record with NULL. Lines may end
//!   with CR LF. A byte order mark at the beginning is skipped.
//! - Faults are: a wrong number of fields, text after a closing quote, a value that does not have its column's type,
//!   NULL in a column that is NOT NULL, bytes that are not UTF-8, a NUL byte, more than [`RECORD_LIMIT_BYTES`]. Columns
//!   that nobody reads are checked, too.
//! - Left out before the header: a line `sep=;`, which names the delimiter, and as many lines as [`CsvSettings::skip`] says. If one
//!   of these begins with `#`, later lines that do and have another number of fields are comments, too.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::bad_rows::BadRows;
use super::csv_block::{Fields, Records, newlines};
use super::csv_header::{self, Layout, different_names};
use super::csv_preamble::{Beginning, Preamble};
use super::csv_records::{Step, next_record};
use super::values::{self, good_rows};
use super::{CsvSettings, DecoderSettings, RECORD_LIMIT_BYTES, RecordDecoder, Waiting, project, sql_type};

/// How many bytes are taken in at once.
const PIECE_BYTES: usize = 512 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decodes CSV.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use tidemill_connect::formats::csv::CsvDecoder;
/// use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("Price", DataType::Float64, true),
///     Field::new("day", DataType::Date32, true),
/// ]));
/// let mut decoder = CsvDecoder::new(DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 })?;
/// let mut batches = VecDeque::new();
/// decoder.begin("prices.csv");
/// decoder.decode(b"day,shop,price\r\n2026-01-31,\"Berlin, Mitte\",9.99\r\n", &mut batches)?;
/// decoder.decode(b"2026-02-30,Bonn,1\r\n", &mut batches)?;
/// assert_eq!(batches[0].num_rows(), 1);
/// assert_eq!(decoder.faults().samples, ["prices.csv, line 3: column 'day': '2026-02-30' is not a DATE"]);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct CsvDecoder {
    declared: SchemaRef,
    schema: SchemaRef,
    /// The declared columns whose fields are examined: those of the schema, in its order, then those that are only
    /// checked.
    looked_at: Vec<usize>,
    csv: CsvSettings,
    delimiter: u8,
    batch_rows: usize,
    place: String,
    /// Whether the inputs have headers, once that is known.
    has_header: Option<bool>,
    layout: Option<Layout>,
    preamble: Preamble,
    /// The layout before the input was emptied: it may continue without a header.
    former_layout: Option<Layout>,
    /// Bytes that were received but not yet decoded, starting at the beginning of a record.
    buffer: Vec<u8>,
    /// The number of the line with which the buffer begins.
    line: u64,
    at_start: bool,
    /// Within a record that is too long, which is discarded up to its next newline.
    discarding: bool,
    records: Records,
    faults: Faults,
}

impl CsvDecoder {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors [`Cause::user`] if a column has a type that no text can be, or delimiter or quote are no
    /// ASCII characters.
    pub fn new(settings: DecoderSettings) -> Result<CsvDecoder, Cause> {
        let DecoderSettings { schema, csv, batch_rows } = settings;
        let delimiter = csv.delimiter.unwrap_or(b',');
        check_characters(delimiter, csv.quote)?;
        check_types(&schema)?;
        Ok(CsvDecoder {
            declared: schema.clone(),
            looked_at: (0..schema.fields().len()).collect(),
            schema,
            has_header: csv.header,
            preamble: Preamble::new(&csv),
            former_layout: None,
            csv,
            delimiter,
            batch_rows: batch_rows.max(1),
            place: "input".to_owned(),
            layout: None,
            buffer: Vec::new(),
            line: 1,
            at_start: true,
            discarding: false,
            records: Records::default(),
            faults: Faults::default(),
        })
    }

    /// Decodes the complete records of the buffer.
    fn run(&mut self, at_end: bool, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let Some(mut start) = self.start(at_end) else { return Ok(()) };
        let mut complete = true;
        while complete {
            let end;
            (end, complete) = self.read_records(start, at_end)?;
            self.emit(start, end, batches)?;
            self.line += newlines(&self.buffer[start..end]);
            start = end;
        }
        self.buffer.drain(..start);
        Ok(())
    }

    /// Where to begin in the buffer: after a byte order mark, and after what is discarded.
    fn start(&mut self, at_end: bool) -> Option<usize> {
        let mut start = 0;
        if self.at_start {
            if self.buffer.len() < BYTE_ORDER_MARK.len()
                && BYTE_ORDER_MARK.starts_with(&self.buffer)
                && !at_end
            {
                return None;
            }
            self.at_start = false;
            start = if self.buffer.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        }
        if self.discarding {
            let Some(newline) = memchr::memchr(b'\n', &self.buffer) else {
                self.buffer.clear();
                return None;
            };
            self.discarding = false;
            self.line += 1;
            start = newline + 1;
        }
        Some(start)
    }

    /// Finds up to `batch_rows` records from `start` on. Returns where they end, and whether there may be more.
    fn read_records(&mut self, start: usize, at_end: bool) -> Result<(usize, bool), Cause> {
        self.records.spans.clear();
        self.records.ranges.clear();
        let mut at = start;
        while self.records.ranges.len() < self.batch_rows {
            let Some(layout) = &self.layout else {
                match self.read_header(start, at, at_end)? {
                    Some(next) => at = next,
                    None => return Ok((at, false)),
                }
                continue;
            };
            let step = self.records.read(&mut self.buffer, at, self.delimiter, self.csv.quote, layout);
            let bad = match step {
                Step::Record { next, .. } | Step::Empty { next } if next - at > RECORD_LIMIT_BYTES => {
                    too_long()
                }
                Step::Record { fields, .. } if fields != layout.fields => {
                    format!("{fields} fields instead of {}", layout.fields)
                }
                Step::Record { next, .. } | Step::Empty { next } => {
                    at = next;
                    continue;
                }
                Step::Bad(reason) => reason.to_owned(),
                Step::Incomplete if at == self.buffer.len() => return Ok((at, false)),
                Step::Incomplete if at_end => "a quote is not closed".to_owned(),
                Step::Incomplete if self.buffer.len() - at <= RECORD_LIMIT_BYTES => return Ok((at, false)),
                Step::Incomplete => too_long(),
            };
            if !self.preamble.is_comment(&self.buffer[at..]) {
                self.fault(start, at, &bad);
            }
            match self.after_line(at) {
                Some(next) => at = next,
                None => return Ok((self.buffer.len(), false)),
            }
        }
        Ok((at, true))
    }

    /// Examines the first record: is it the header, and where are the columns? `None`: it is not complete.
    fn read_header(&mut self, start: usize, at: usize, at_end: bool) -> Result<Option<usize>, Cause> {
        match self.preamble.look(&self.buffer, at, self.delimiter, self.csv.quote) {
            Beginning::Table => {}
            Beginning::LeftOut { next } => return Ok(Some(next)),
            Beginning::Delimiter { next, delimiter } => {
                self.delimiter = self.csv.delimiter.unwrap_or(delimiter);
                return Ok(Some(next));
            }
            Beginning::Incomplete if self.buffer.len() - at <= RECORD_LIMIT_BYTES => return Ok(None),
            Beginning::Incomplete => self.preamble.end(),
        }
        let mut spans = Vec::new();
        let step = next_record(&self.buffer, at, self.delimiter, self.csv.quote, |_, span| spans.push(span));
        let next = match step {
            Step::Record { next, .. } if next - at <= RECORD_LIMIT_BYTES => next,
            // The first record of a file of one column may be NULL.
            Step::Empty { next } if self.has_header == Some(false) && self.declared.fields().len() == 1 => {
                next
            }
            Step::Empty { next } => return Ok(Some(next)),
            Step::Incomplete if !at_end && self.buffer.len() - at <= RECORD_LIMIT_BYTES => return Ok(None),
            Step::Incomplete if at == self.buffer.len() => return Ok(None),
            _ => {
                self.fault(start, at, "the first record cannot be read");
                return Ok(self.after_line(at));
            }
        };
        let first: Vec<String> =
            spans.into_iter().map(|span| csv_header::text(&self.buffer, span, self.csv.quote)).collect();
        let is_header =
            *self.has_header.get_or_insert_with(|| csv_header::is_header_of(&first, &self.declared));
        if let Some(former) = self.former_layout.take()
            && is_header
            && !csv_header::names_any(&first, &self.declared)
        {
            self.layout = Some(former);
            return Ok(Some(at));
        }
        let names = is_header.then(|| different_names(first.iter().map(String::as_str)));
        self.layout = Some(Layout::new(&self.place, &self.declared, &self.looked_at, names.as_deref())?);
        Ok(Some(if is_header { next } else { at }))
    }

    /// The beginning of the next line. If that is still to come, everything up to it is discarded.
    fn after_line(&mut self, at: usize) -> Option<usize> {
        let newline = memchr::memchr(b'\n', &self.buffer[at..]);
        self.discarding = newline.is_none();
        newline.map(|newline| at + newline + 1)
    }

    /// Counts a fault of the record at `at` in the block that begins at `start`.
    #[cold]
    fn fault(&mut self, start: usize, at: usize, reason: &str) {
        let CsvDecoder { faults, buffer, line, place, .. } = self;
        let place = || format!("{place}, line {}", *line + newlines(&buffer[start..at]));
        // Reading continues with the next line.
        let end = memchr::memchr(b'\n', &buffer[at..]).map_or(buffer.len(), |length| at + length);
        faults.add_record(place, || reason.to_owned(), without_carriage_return(&buffer[at..end]));
    }

    /// Makes a batch of the records in `buffer[start..end]`.
    fn emit(&mut self, start: usize, end: usize, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let rows = self.records.ranges.len();
        if rows == 0 {
            return Ok(());
        }
        let mut bad = BadRows::of(&self.faults);
        // Bytes that are not UTF-8 are overwritten below.
        let as_sent = bad.keeps_all().then(|| self.buffer[start..end].to_vec());
        self.records.check_bytes(&mut self.buffer, start, end, &mut bad);
        let Ok(text) = std::str::from_utf8(&self.buffer[start..end]) else {
            return Err(Cause::bug(format!("{}: a block that is not UTF-8 was not detected", self.place)));
        };
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (slot, column) in self.looked_at.iter().enumerate() {
            let field = self.declared.field(*column);
            let (spans, slots, null) = (&self.records.spans, self.looked_at.len(), &self.csv.null);
            let texts = Fields { text, start, spans, rows, slot, slots, null };
            if slot < self.schema.fields().len() {
                columns.push(values::column(field, &texts, &mut bad)?)
            } else {
                values::check(field, &texts, &mut bad)?
            }
        }
        let batch = good_rows(self.schema.clone(), columns, rows, &bad)?;
        let (ranges, line, buffer, place) = (&self.records.ranges, self.line, &self.buffer, &self.place);
        let line = |row: usize| line + newlines(&buffer[start..ranges[row].0 as usize]);
        let text = |row: usize| {
            let (begin, end) = (ranges[row].0 as usize - start, ranges[row].1 as usize - start);
            let record = as_sent.as_ref().map_or(&[][..], |block| &block[begin..end]);
            without_carriage_return(record.strip_suffix(b"\n").unwrap_or(record))
        };
        bad.report(&mut self.faults, |row| format!("{place}, line {}", line(row)), text);
        batches.extend((batch.num_rows() > 0).then_some(batch));
        Ok(())
    }
}

impl RecordDecoder for CsvDecoder {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.declared, columns)?;
        let others = (0..self.declared.fields().len()).filter(|column| !columns.contains(column));
        let checked = others.filter(|column| values::can_mismatch(self.declared.field(*column)));
        self.looked_at = columns.iter().copied().chain(checked).collect();
        self.layout = None;
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.buffer.clear();
        self.line = 1;
        self.at_start = true;
        self.discarding = false;
        self.layout = None;
        self.former_layout = None;
        self.preamble = Preamble::new(&self.csv);
        self.delimiter = self.csv.delimiter.unwrap_or(b',');
    }

    fn begin_again(&mut self, place: &str) {
        let former = self.layout.take();
        self.begin(place);
        self.former_layout = former;
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.buffer.extend_from_slice(piece);
            // Without a newline no record ends here.
            if memchr::memchr(b'\n', piece).is_some() || self.buffer.len() > RECORD_LIMIT_BYTES {
                self.run(false, batches)?;
            }
        }
        Ok(())
    }

    fn waiting(&self) -> Option<Waiting> {
        (!self.discarding).then_some(Waiting { bytes: self.buffer.len() as u64, line: self.line })
    }

    fn knows_beginning(&self) -> bool {
        self.layout.is_some()
    }

    fn resume_at(&mut self, line: u64) {
        self.buffer.clear();
        self.line = line;
        self.at_start = false;
        self.discarding = false;
        self.preamble.end();
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        if !self.buffer.is_empty() && !self.buffer.ends_with(b"\n") {
            self.buffer.push(b'\n');
        }
        self.run(true, batches)
    }

    fn keep_bad_records(&mut self) {
        self.faults.keep_records();
    }

    fn faults(&mut self) -> Faults {
        self.faults.take()
    }
}

fn without_carriage_return(record: &[u8]) -> &[u8] {
    record.strip_suffix(b"\r").unwrap_or(record)
}

fn too_long() -> String {
    format!("longer than {RECORD_LIMIT_BYTES} bytes (is a quote not closed?)")
}

fn check_characters(delimiter: u8, quote: u8) -> Result<(), Cause> {
    let is_usable = |byte: u8| byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0);
    if is_usable(delimiter) && is_usable(quote) && delimiter != quote {
        Ok(())
    } else {
        Err(Cause::user(format!(
            "delimiter '{}' and quote '{}' of a CSV must be two different ASCII characters other than line \
             ends",
            delimiter.escape_ascii(),
            quote.escape_ascii()
        )))
    }
}

fn check_types(schema: &Arc<Schema>) -> Result<(), Cause> {
    match schema.fields().iter().find(|field| !values::is_supported(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Cause::user(format!(
            "column '{}': a CSV cannot contain values of type {}; declare it as VARCHAR, or use json",
            field.name(),
            sql_type(field.data_type())
        ))),
    }
}
