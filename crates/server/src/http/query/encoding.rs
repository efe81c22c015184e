//! The formats of answers.

use arrow_ipc::writer::StreamWriter;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use tidemill_connect::formats::encode::{TextEncoder, TextFormat};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::LeftOut;

use crate::http::answer::error;
use crate::postgres::values::{Column, columns, write_value};
use crate::report::Report;

/// A format of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// An object for each row, on a line of its own.
    JsonLines,
    Csv,
    /// One document: the columns, and the rows as PostgreSQL would write their values, so that no number loses digits.
    Document,
    /// The stream format of Arrow IPC.
    Arrow,
    /// Server-sent events, in JSON as the document has it.
    Events,
    /// The same events, each as a message of a WebSocket.
    Messages,
}

impl Encoding {
    /// Whether it tells changes, and each event by itself.
    pub fn is_of_events(self) -> bool {
        matches!(self, Encoding::Events | Encoding::Messages)
    }

    /// What clients call them; the first one of a format is its own name.
    pub const NAMES: [(&'static str, Encoding); 9] = [
        ("application/x-ndjson", Encoding::JsonLines),
        ("text/csv", Encoding::Csv),
        ("application/json", Encoding::Document),
        ("application/vnd.apache.arrow.stream", Encoding::Arrow),
        ("text/event-stream", Encoding::Events),
        ("application/ndjson", Encoding::JsonLines),
        ("application/jsonl", Encoding::JsonLines),
        ("application/*", Encoding::JsonLines),
        ("*/*", Encoding::JsonLines),
    ];

    /// The format that a client calls so. Events are for subscriptions, which have nothing else.
    pub fn named(name: &str) -> Option<Encoding> {
        let found = Encoding::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, encoding)| *encoding).filter(|encoding| *encoding != Encoding::Events)
    }

    pub fn content_type(self) -> HeaderValue {
        let name =
            Encoding::NAMES.iter().find(|(_, encoding)| *encoding == self).map_or("", |(name, _)| *name);
        HeaderValue::from_static(match self {
            Encoding::Csv => "text/csv; charset=utf-8",
            _ => name,
        })
    }
}

/// Turns rows into pieces of an answer.
pub(super) struct Encoder {
    form: Form,
    /// What the client is to know besides the rows.
    notices: Vec<String>,
}

enum Form {
    Lines(Box<dyn TextEncoder>),
    Csv(Box<dyn TextEncoder>),
    Document { columns: Vec<Column>, rows: u64, value_bytes_max: usize },
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Events { framing: Framing, columns: Vec<Column>, key: Option<Vec<String>>, value_bytes_max: usize },
}

impl Encoder {
    /// Of longer values, documents and events have the beginning only.
    pub fn new(
        (encoding, notices): (Encoding, Vec<String>),
        schema: &SchemaRef,
        key: Option<Vec<String>>,
        value_bytes_max: usize,
    ) -> Result<Encoder, Cause> {
        let form = match encoding {
            Encoding::JsonLines => Form::Lines(TextFormat::Ndjson.encoder(schema)?),
            Encoding::Csv => Form::Csv(TextFormat::csv().encoder(schema)?),
            Encoding::Document => Form::Document { columns: columns(schema, &[]), rows: 0, value_bytes_max },
            Encoding::Arrow => {
                Form::Arrow(Box::new(StreamWriter::try_new(Vec::new(), schema).map_err(wrong)?))
            }
            Encoding::Events | Encoding::Messages => {
                let framing =
                    if encoding == Encoding::Events { Framing::ServerSent } else { Framing::Message };
                Form::Events { framing, columns: columns(schema, &[]), key, value_bytes_max }
            }
        };
        Ok(Encoder { form, notices })
    }

    /// What comes before the rows.
    pub fn head(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &mut self.form {
            Form::Lines(encoder) | Form::Csv(encoder) => encoder.header(&mut bytes),
            Form::Document { columns, .. } => {
                bytes = format!("{{\"columns\":{},\n\"rows\":[", described(columns)).into_bytes();
            }
            Form::Arrow(writer) => bytes = std::mem::take(writer.get_mut()),
            Form::Events { framing, columns, key, .. } => {
                bytes = framing.event("columns", &json!({ "columns": described(columns), "key": key }));
            }
        }
        bytes
    }

    pub fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, Cause> {
        let mut bytes = Vec::new();
        match &mut self.form {
            Form::Lines(encoder) | Form::Csv(encoder) => encoder.rows(batch, &mut bytes)?,
            Form::Document { columns, rows, value_bytes_max } => {
                for row in 0..batch.num_rows() {
                    bytes.extend_from_slice(if *rows == 0 { b"\n" } else { b",\n" });
                    *rows += 1;
                    write_row(columns, batch, row, *value_bytes_max, &mut bytes);
                }
            }
            Form::Arrow(writer) => {
                writer.write(batch).map_err(wrong)?;
                bytes = std::mem::take(writer.get_mut());
            }
            Form::Events { framing, columns, value_bytes_max, .. } => {
                let (before, after) = framing.around("rows");
                bytes.extend_from_slice(before.as_bytes());
                bytes.push(b'[');
                for row in 0..batch.num_rows() {
                    if row > 0 {
                        bytes.push(b',');
                    }
                    write_row(columns, batch, row, *value_bytes_max, &mut bytes);
                }
                bytes.push(b']');
                bytes.extend_from_slice(after.as_bytes());
            }
        }
        Ok(bytes)
    }

    /// What comes after the last row, with what is missing from the rows, where the format has a place for it.
    pub fn end(&mut self, left_out: Option<&LeftOut>) -> Result<Vec<u8>, Cause> {
        let missing = left_out.map(|LeftOut { rows, null_results, samples }| {
            json!({ "rows": rows, "null_results": null_results, "samples": samples })
        });
        let notices = std::mem::take(&mut self.notices);
        Ok(match &mut self.form {
            Form::Lines(_) | Form::Csv(_) => Vec::new(),
            Form::Document { .. } => {
                let missing = missing.map(|missing| format!(",\n\"left_out\":{missing}")).unwrap_or_default();
                let notices = if notices.is_empty() {
                    String::new()
                } else {
                    format!(",\n\"notices\":{}", json!(notices))
                };
                format!("],\n\"complete\":true{missing}{notices}}}\n").into_bytes()
            }
            Form::Arrow(writer) => {
                writer.finish().map_err(wrong)?;
                std::mem::take(writer.get_mut())
            }
            Form::Events { framing, .. } => {
                let mut data = serde_json::Map::new();
                data.extend(missing.map(|missing| ("left_out".to_owned(), missing)));
                if !notices.is_empty() {
                    data.insert("notices".to_owned(), json!(notices));
                }
                framing.event("end", &Value::Object(data))
            }
        })
    }

    /// What comes after the last row if the query has failed. Formats that cannot say it break off.
    pub fn failure(&self, report: &Report) -> Failure {
        let error = error(report);
        match &self.form {
            Form::Lines(_) => Failure::BreakOff(format!("{}\n", json!({ "error": error })).into_bytes()),
            Form::Csv(_) | Form::Arrow(_) => Failure::BreakOff(Vec::new()),
            Form::Document { .. } => {
                Failure::Reported(format!("],\n\"complete\":false,\n\"error\":{error}}}\n").into_bytes())
            }
            Form::Events { framing, .. } => Failure::Reported(framing.event("error", &error)),
        }
    }
}

/// How an answer reports a failure.
pub(super) enum Failure {
    /// The answer is complete and contains the report.
    Reported(Vec<u8>),
    /// The answer breaks off after this, so that nobody takes it for a whole one.
    BreakOff(Vec<u8>),
}

fn wrong(error: tidemill_engine::arrow::schema::ArrowError) -> Cause {
    Cause::user(format!("the rows cannot be written as Arrow IPC: {error}")).with_source(error)
}

fn described(columns: &[Column]) -> Value {
    columns.iter().map(|column| json!({ "name": column.name, "type": column.kind.full_name() })).collect()
}

/// What separates an event from the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Framing {
    /// Two lines. JSON has no line breaks of its own.
    ServerSent,
    /// An object.
    Message,
}

impl Framing {
    /// What comes before the data of an event, and after it.
    fn around(self, name: &str) -> (String, &'static str) {
        match self {
            Framing::ServerSent => (format!("event: {name}\ndata: "), "\n\n"),
            Framing::Message => (format!("{{\"event\":\"{name}\",\"data\":"), "}"),
        }
    }

    /// An event with its data.
    pub fn event(self, name: &str, data: &Value) -> Vec<u8> {
        let (before, after) = self.around(name);
        format!("{before}{data}{after}").into_bytes()
    }
}

fn write_row(
    columns: &[Column],
    batch: &RecordBatch,
    row: usize,
    value_bytes_max: usize,
    bytes: &mut Vec<u8>,
) {
    let mut text = Vec::new();
    for (index, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
        bytes.push(if index == 0 { b'[' } else { b',' });
        text.clear();
        if write_value(column, array, row, &mut text) {
            let value = Value::String(beginning(&text, value_bytes_max));
            bytes.extend_from_slice(value.to_string().as_bytes());
        } else {
            bytes.extend_from_slice(b"null")
        }
    }
    bytes.extend_from_slice(if columns.is_empty() { b"[]" } else { b"]" });
}

/// A value; of a longer one its beginning, and how long it is.
fn beginning(text: &[u8], bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return String::from_utf8_lossy(text).into_owned();
    }
    // Not within a character.
    let is_start = |end: &usize| text[*end] & 0xC0 != 0x80;
    let end = (0..=bytes_max).rev().find(is_start).unwrap_or(0);
    format!("{}… ({} bytes)", String::from_utf8_lossy(&text[..end]), text.len())
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn a_long_value_ends_between_two_characters() {
        let cut = |text: &str, bytes_max| beginning(text.as_bytes(), bytes_max);
        assert_eq!(cut("tide", 4), "tide");
        assert_eq!(cut("tides", 4), "tide… (5 bytes)");
        assert_eq!(cut("aäb", 2), "a… (4 bytes)");
        assert_eq!(cut("😀😀", 4), "😀… (8 bytes)");
        assert_eq!(cut("😀", 1), "… (4 bytes)");
    }
}
