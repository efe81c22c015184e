//! HTTP: agents and programs post rows while the query runs, as InfluxDB takes them.
//!
//! - `POST /api/v2/write` and `POST /write`: line protocol, in the [`Precision`] of the parameter `precision`.
//! - `POST /write` with `Content-Type: application/x-ndjson` (or `application/json`): one JSON object per line.
//! - `GET /health` and `GET /ping`, which need no token.
//!
//! Bodies may be compressed with gzip. They wait in one queue, limited in bytes, until the query takes them; while it
//! is full, requests are answered 503 with `Retry-After`. **The answer comes when the rows are safe**: with
//! [`HttpSettings::acknowledge`] when the query acknowledged them, without it when the query has taken them.
//!
//! A request with bad lines is written in part, as InfluxDB 3 does: the good lines count, and 400 says which were
//! left out. Such a request must not be sent again as it is.
//!
//! A client that sends `X-Tidemill-Client` and `X-Tidemill-Sequence` (ascending) can send a request again when it had no
//! answer: in a durable query its rows count once. The rows of such a request come in one batch of their own.
//!
//! hyper does the protocol, on a thread of its own with a single-threaded runtime: a slow client holds up nobody.

mod answer;
mod body;
mod server;
mod service;
mod source;
mod waiting;

use std::time::Duration;

use tidemill_core::error::Cause;

pub use source::HttpSource;

use crate::formats::line_protocol::LineProtocolSettings;
#[cfg(doc)]
use crate::formats::line_protocol::Precision;
use crate::formats::{DecoderSettings, Format};

/// Where to listen for requests, and how they are read.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_connect::formats::DecoderSettings;
/// use tidemill_connect::http::HttpSettings;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("usage", DataType::Float64, true)]));
/// let settings = HttpSettings::new("127.0.0.1:8086", DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 });
/// assert_eq!(settings.body_bytes_max, 16 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The address, such as `127.0.0.1:8086`; port 0 takes any free one.
    pub address: String,
    /// Whether addresses are accepted that other machines can reach.
    pub allow_remote: bool,
    /// What a client must say as `Authorization: Token ...` or `Bearer ...`; `None`: nothing.
    pub token: Option<String>,
    /// LineProtocol, Json, or both.
    pub formats: Vec<Format>,
    /// The columns.
    pub decoder: DecoderSettings,
    /// How line protocol is read; a request's precision goes before the one here.
    pub line_protocol: LineProtocolSettings,
    /// Whether requests are answered only when the query acknowledged their rows: for durable queries.
    pub acknowledge: bool,
    /// The most connections at a time; one more waits.
    pub connections_max: usize,
    /// The largest body in bytes, also when it is decompressed.
    pub body_bytes_max: usize,
    /// The most lines of a body.
    pub lines_max: usize,
    /// The most bytes of bodies that wait for the query.
    pub queue_bytes: usize,
    /// How long a request waits for room in the queue before it is answered 503.
    pub queue_wait: Duration,
    /// How long a connection may take for the head of its next request.
    pub head_timeout: Duration,
    /// How long a request may take for its body.
    pub body_timeout: Duration,
    /// How long rows may take to be taken or acknowledged before their request is answered 503.
    pub answer_timeout: Duration,
}

impl HttpSettings {
    /// Both formats, no token, answers when rows are taken; 1024 connections, bodies of 16 MiB and 100,000 lines, a
    /// queue of 64 MiB; 1 s for room, 30 s for a head, 30 s for a body, 60 s for an answer.
    pub fn new(address: &str, decoder: DecoderSettings) -> HttpSettings {
        HttpSettings {
            address: address.to_owned(),
            allow_remote: false,
            token: None,
            formats: vec![Format::LineProtocol, Format::Json],
            decoder,
            line_protocol: LineProtocolSettings::default(),
            acknowledge: false,
            connections_max: 1024,
            body_bytes_max: 16 << 20,
            lines_max: 100_000,
            queue_bytes: 64 << 20,
            queue_wait: Duration::from_secs(1),
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(60),
        }
    }

    fn check(&self) -> Result<(), Cause> {
        let refuse = |text: String| Err(Cause::User(format!("http {}: {text}", self.address)));
        if self.connections_max == 0 || self.lines_max == 0 || self.body_bytes_max == 0 {
            return refuse("connections_max, lines_max and body_bytes_max must be at least 1".to_owned());
        }
        if self.body_bytes_max > 256 << 20 || self.queue_bytes > 16 << 30 {
            return refuse("body_bytes_max may be 256 MiB at most, queue_bytes 16 GiB".to_owned());
        }
        if self.queue_bytes < self.body_bytes_max {
            return refuse(format!("queue_bytes must be body_bytes_max ({}) at least", self.body_bytes_max));
        }
        let others = |format: &&Format| !matches!(format, Format::LineProtocol | Format::Json);
        match self.formats.iter().find(others) {
            Some(other) => refuse(format!("{other:?} cannot be posted; take line_protocol or json")),
            None if self.formats.is_empty() => {
                refuse("there is no format; take line_protocol or json".to_owned())
            }
            None => Ok(()),
        }
    }
}
