//! Formats of rows, from bytes to Arrow batches, one format per file.
//!
//! Text formats come in pieces of any size (from a file, a socket, a pipe) and are read by a [`RecordDecoder`]. Parquet
//! and Arrow IPC files know their own columns and are read as files.

pub mod arrow_ipc;
mod bad_rows;
pub mod csv;
mod csv_block;
mod csv_header;
mod csv_preamble;
mod csv_records;
mod decimal_text;
pub mod encode;
mod epoch;
mod fit;
pub mod infer;
mod interval_text;
mod json;
mod json_value;
mod line_cutter;
pub mod line_protocol;
pub mod ndjson;
mod ndjson_other_keys;
mod nested_texts;
mod own;
pub mod parquet;
mod parsed_lines;
mod sql_type;
mod text_form;
pub mod text_lines;
mod text_shape;
mod text_values;
mod time_text;
mod times;
pub mod value_text;
mod values;

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

pub use bad_rows::not_of_type;
pub(crate) use csv_header::{different_names, is_name, text as field_text};
pub(crate) use csv_preamble::{is_comment, named_delimiter};
pub(crate) use csv_records::{Span, Step, next_record};
pub use decimal_text::decimal_in_digits;
pub use epoch::with_epoch_unit;
pub(crate) use fit::{BatchReader, Fit};
pub use interval_text::interval_in_units;
pub use json_value::edited::JsonPlace;
pub use json_value::tree::{Json, write_json_text};
pub use own::{DecoderFactory, OwnDecoding};
pub use parsed_lines::{LineParser, ParsedLines, ParsedRow};
pub use sql_type::sql_type;
pub use text_form::{
    TextForm, as_json_field, is_json_field, kept_texts, uuid_text, with_characters_max, with_text_form,
};
pub(crate) use text_shape::{LineStream, SHAPE_BYTES, TextShape, ToLines};
pub use text_values::{TextValues, text_values};
pub use times::timestamp_ns;
pub(crate) use times::{is_date, is_timestamp};

/// The longest record of a text format, in bytes; a longer one is a fault.
pub const RECORD_LIMIT_BYTES: usize = 1024 * 1024;

/// The usual number of rows of a batch.
pub const BATCH_ROWS: usize = 8192;

/// A format of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values ([`csv`]), or with another delimiter.
    Csv,
    /// One JSON object per line ([`ndjson`]).
    Json,
    /// Unchanged lines ([`text_lines`]).
    Lines,
    /// InfluxDB line protocol ([`line_protocol`]).
    LineProtocol,
    /// Apache Parquet ([`parquet`](mod@parquet)).
    Parquet,
    /// Arrow IPC: a file ("Feather version 2") or a stream ([`arrow_ipc`]).
    ArrowIpc,
    /// Text in a format of the program's own.
    Own(OwnDecoding),
}

impl Format {
    /// The format of that name, in any case: csv, tsv, json, ndjson, jsonl, lines, log, txt, line_protocol, influx,
    /// parquet, arrow, ipc, feather.
    ///
    /// ```
    /// use tidemill_connect::formats::Format;
    /// assert_eq!(Format::named("NDJSON"), Some(Format::Json));
    /// assert_eq!(Format::of_path("clicks/2026.csv.zst"), Some(Format::Csv));
    /// ```
    pub fn named(name: &str) -> Option<Format> {
        match name.to_ascii_lowercase().as_str() {
            "csv" | "tsv" => Some(Format::Csv),
            "json" | "ndjson" | "jsonl" => Some(Format::Json),
            "lines" | "log" | "txt" => Some(Format::Lines),
            "line_protocol" | "influx" => Some(Format::LineProtocol),
            "parquet" => Some(Format::Parquet),
            "arrow" | "ipc" | "feather" | "arrows" => Some(Format::ArrowIpc),
            _ => None,
        }
    }

    /// The format named by a path's ending; a final `.zst` or `.gz` is ignored.
    pub fn of_path(path: &str) -> Option<Format> {
        Format::named(ending(path)?)
    }

    /// Whether it is text, which a [`RecordDecoder`] reads.
    pub fn is_text(&self) -> bool {
        match self {
            Format::Csv | Format::Json | Format::Lines | Format::LineProtocol | Format::Own(_) => true,
            Format::Parquet | Format::ArrowIpc => false,
        }
    }
}

/// The ending of a path that names a format: what follows its last dot, without `.zst` or `.gz`.
///
/// ```
/// assert_eq!(tidemill_connect::formats::ending("logs/app.logfmt.gz"), Some("logfmt"));
/// assert_eq!(tidemill_connect::formats::ending("logs/today"), None);
/// ```
pub fn ending(path: &str) -> Option<&str> {
    let name = without_compression(path).rsplit('/').next()?;
    Some(name.rsplit_once('.')?.1)
}

/// A path without the ending of a compression.
pub(crate) fn without_compression(path: &str) -> &str {
    path.strip_suffix(".zst").or_else(|| path.strip_suffix(".gz")).unwrap_or(path)
}

/// How a CSV is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvSettings {
    /// Whether the first record names the columns; `None`: detect it.
    pub header: Option<bool>,
    /// The ASCII character between fields; `None`: a comma (a tab for `.tsv`) or, when columns are inferred, the one of
    /// `,` tab `;` `|` that divides the first records evenly.
    pub delimiter: Option<u8>,
    /// The ASCII character around fields; within one it is doubled.
    pub quote: u8,
    /// The unquoted text that means NULL. An empty field of a column that is not a string is always NULL.
    pub null: String,
    /// Whether the first line may name the delimiter, as Excel writes it (`sep=;`), and is then left out.
    pub names_delimiter: bool,
    /// How many lines before the header are left out, such as titles.
    pub skip: u64,
    /// If given, a line before the header is left out only if it does not have this number of fields. It is known when the
    /// columns are inferred; files of one folder may have titles or not.
    pub table_fields: Option<usize>,
}

impl Default for CsvSettings {
    fn default() -> Self {
        CsvSettings {
            header: None,
            delimiter: None,
            quote: b'"',
            null: String::new(),
            names_delimiter: true,
            skip: 0,
            table_fields: None,
        }
    }
}

/// The settings of a text decoder.
#[derive(Clone, Debug)]
pub struct DecoderSettings {
    /// The columns to make.
    pub schema: SchemaRef,
    /// How a CSV is written; other formats ignore it.
    pub csv: CsvSettings,
    /// The most rows of a batch; 0 counts as 1.
    pub batch_rows: usize,
}

/// What a decoder has received but not decoded, because its end has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many of the last bytes.
    pub bytes: u64,
    /// The number of the line with which they begin.
    pub line: u64,
}

/// Turns the bytes of records into batches. The bytes come in pieces that may end anywhere; an incomplete record waits
/// for the next piece. Bad records are left out and counted as faults; the records around them are kept. Memory is
/// bounded by the longest record plus a mebibyte.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use tidemill_connect::formats::{DecoderSettings, Format, text_decoder};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]));
/// let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut decoder = text_decoder(Format::Json, settings)?;
/// let mut batches = VecDeque::new();
/// decoder.begin("peer 10.0.0.7");
/// decoder.decode(b"{\"value\": 1}\n{\"val", &mut batches)?;
/// decoder.decode(b"ue\": 2}\nbroken\n", &mut batches)?;
/// decoder.finish(&mut batches)?;
/// assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
/// assert!(decoder.faults().samples[0].starts_with("peer 10.0.0.7, line 3: "));
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub trait RecordDecoder: Send {
    /// The columns of the batches: the declared ones, or those selected.
    fn schema(&self) -> SchemaRef;

    /// Makes only these of the declared columns, in this order. Values of other columns are still checked: which
    /// records are good does not depend on who reads them.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause>;

    /// Starts a new input (a file, a connection), whose name appears in messages. An incomplete record is dropped,
    /// lines are counted from 1, and a CSV has its header again.
    fn begin(&mut self, place: &str);

    /// The current input was emptied and is written again. It may begin with a header again or continue without one.
    fn begin_again(&mut self, place: &str) {
        self.begin(place);
    }

    /// From now on says once of each key of the input that it has no column, because the columns were inferred without it. A
    /// decoder whose input has no keys need not.
    fn report_other_keys(&mut self) {}

    /// Takes the next bytes, and appends one batch, or several if there are many, with the complete records.
    ///
    /// # Errors
    /// [`Cause::user`] if this input as a whole does not fit (a declared column is missing in a CSV's header).
    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause>;

    /// What waits for more bytes; everything before it was decoded. `None` within a record that is being discarded.
    fn waiting(&self) -> Option<Waiting>;

    /// Whether it already knows what it needs from the beginning of an input, such as a CSV's header.
    fn knows_beginning(&self) -> bool {
        true
    }

    /// Continues elsewhere in the current input, where a record begins whose line has this number. What waited is
    /// dropped.
    fn resume_at(&mut self, line: u64);

    /// The input has ended: takes a last record that has no line end.
    ///
    /// # Errors
    /// As [`decode`](RecordDecoder::decode).
    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause>;

    /// From now on records which line each row comes from, for [`take_row_lines`](RecordDecoder::take_row_lines). A
    /// decoder that does not know its lines need not.
    fn keep_row_lines(&mut self) {}

    /// The line of each row since this was last asked.
    fn take_row_lines(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// From now on its faults have the records that could not be read. A decoder that does not keep them need not.
    fn keep_bad_records(&mut self) {}

    /// Faults since this was last asked.
    fn faults(&mut self) -> Faults;
}

/// The decoder of a text format.
///
/// # Errors
/// [`Cause::user`] if the format is not text, or a column's type or a setting is not supported.
pub fn text_decoder(format: Format, settings: DecoderSettings) -> Result<Box<dyn RecordDecoder>, Cause> {
    match format {
        Format::Csv => Ok(Box::new(csv::CsvDecoder::new(settings)?)),
        Format::Json => Ok(Box::new(ndjson::NdjsonDecoder::new(settings)?)),
        Format::Lines => Ok(Box::new(text_lines::LinesDecoder::new(settings)?)),
        Format::LineProtocol => {
            Ok(Box::new(line_protocol::LineProtocolDecoder::new(settings, Default::default())?))
        }
        Format::Own(own) => own.decoder(settings),
        Format::Parquet | Format::ArrowIpc => Err(Cause::user(format!(
            "{format:?} cannot be read from a stream of bytes; use csv or json, or read it from a file"
        ))),
    }
}

/// The columns of `schema` with these indexes, in this order.
pub(crate) fn project(schema: &Schema, columns: &[usize]) -> Result<SchemaRef, Cause> {
    schema
        .project(columns)
        .map(Into::into)
        .map_err(|error| Cause::bug(format!("projection: {error}")).with_source(error))
}
