//! A record of the log: what an event of the program said, within limits and without passwords.

use std::fmt::{self, Debug, Write};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tidemill_sql::masked;
use tracing::field::{Field, Visit};
use tracing::span::Attributes;
use tracing::{Event, Level};

/// The longest text that is kept of a message or of a field.
const TEXT_BYTES_MAX: usize = 2_000;
/// The longest text in which passwords are looked for. What is kept is a part of it.
const WRITTEN_BYTES_MAX: usize = 16 * 1024;
/// What a record takes besides its texts, about.
const RECORD_BYTES: usize = 200;

/// Which record of which process. Written as `1763994000123-17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogId {
    /// When the log of the process began, in milliseconds since 1970.
    pub began_ms: u64,
    /// The number of the record, from 1 on.
    pub number: u64,
}

impl fmt::Display for LogId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.began_ms, self.number)
    }
}

impl FromStr for LogId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<LogId, Self::Err> {
        let (began_ms, number) = text.split_once('-').unwrap_or((text, ""));
        Ok(LogId { began_ms: began_ms.parse()?, number: number.parse()? })
    }
}

/// A record of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub number: u64,
    pub time_ms: u64,
    pub level: Level,
    target: &'static str,
    message: String,
    fields: Map<String, Value>,
    bytes: usize,
}

impl LogRecord {
    /// What an event says. It has no number yet.
    pub fn of(event: &Event<'_>) -> LogRecord {
        let mut said = Said::default();
        event.record(&mut said);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        LogRecord {
            number: 0,
            time_ms: time.as_millis() as u64,
            level: *event.metadata().level(),
            target: event.metadata().target(),
            bytes: RECORD_BYTES + said.bytes,
            message: said.message,
            fields: said.fields,
        }
    }

    /// Adds what is said of all events of a span, such as the query that runs. What the event says itself comes first.
    pub fn add(&mut self, span: &SpanFields) {
        self.bytes += span.0.bytes;
        for (name, value) in &span.0.fields {
            self.fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn json(&self, began_ms: u64) -> Value {
        json!({
            "id": LogId { began_ms, number: self.number }.to_string(),
            "time_ms": self.time_ms,
            "level": self.level.as_str(),
            "target": self.target,
            "message": self.message,
            "fields": self.fields,
        })
    }
}

/// The fields of a span.
pub(crate) struct SpanFields(Said);

impl SpanFields {
    /// What a new span says.
    pub fn of(attributes: &Attributes<'_>) -> SpanFields {
        let mut said = Said::default();
        attributes.record(&mut said);
        SpanFields(said)
    }
}

/// Collects the message and the fields of an event.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
    bytes: usize,
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        self.bytes += field.name().len() + size_of::<Value>();
        self.fields.insert(field.name().to_owned(), value);
    }

    fn put_text(&mut self, field: &Field, write: impl FnOnce(&mut Bounded) -> fmt::Result) {
        let mut written = Bounded(String::new());
        // It stops where there is no more room.
        let _ = write(&mut written);
        let text = kept(&written.0);
        self.bytes += text.len();
        match field.name() {
            "message" => self.message = text,
            _ => self.put(field, text.into()),
        }
    }
}

impl Visit for Said {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, |text| text.write_str(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_text(field, |text| write!(text, "{value:?}"));
    }
}

/// A text that ends where it would become too long.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = WRITTEN_BYTES_MAX - self.0.len();
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

/// What is kept of a text: without passwords, and only its beginning if it is long.
fn kept(text: &str) -> String {
    // Before it is cut: what is left of a password might not be recognised.
    let shown = masked(text);
    if shown.len() <= TEXT_BYTES_MAX {
        shown.into_owned()
    } else {
        format!("{}…", &shown[..shown.floor_char_boundary(TEXT_BYTES_MAX)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = LogId { began_ms: 1_763_994_000_123, number: 17 };
        assert_eq!(id.to_string(), "1763994000123-17");
        assert_eq!("1763994000123-17".parse(), Ok(id));
        for wrong in ["", "-", "1", "1-", "-1", "1-2-3", "x-1", "1--1", "99999999999999999999-1"] {
            assert!(wrong.parse::<LogId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_texts_are_cut_and_passwords_are_hidden_before() {
        // The password begins within what is kept, and ends behind it.
        let text = format!("{}postgres://me:{}@db", "é".repeat(985), "geheim".repeat(20));
        let short = kept(&text);
        assert!(short.len() <= TEXT_BYTES_MAX + 3 && short.contains("//me:****") && short.ends_with('…'));
        assert!(!short.contains("gehe"), "{short}");
        let mut bounded = Bounded(String::new());
        assert!(write!(bounded, "{}", "ä".repeat(WRITTEN_BYTES_MAX)).is_err());
        assert_eq!(bounded.0.len(), WRITTEN_BYTES_MAX);
        assert!(bounded.write_str("x").is_err() && bounded.0.len() == WRITTEN_BYTES_MAX);
    }
}
