//! HTTP: agents and programs post rows while the query runs, as they do to InfluxDB; and [`HttpSink`] posts rows, as to a
//! webhook. The source accepts:
//!
//! - `POST /api/v2/write` and `POST /write`: line protocol, in the [`Precision`] of the parameter `precision`.
//! - `POST /write` with `Content-Type: application/x-ndjson`: one JSON object per line. With `application/json`, also an
//!   array of objects, and objects over several lines.
//! - `GET /health` and `GET /ping`, which need no token.
//!
//! Bodies may be compressed with gzip. They wait in one queue, limited in bytes, until the query takes them. While it
//! is full, requests are answered 503 with `Retry-After`; a client that has used up its [`Quotas`] is answered 429.
//! **The answer comes when the rows are safe**: with
//! [`HttpSettings::acknowledge`] when the query has acknowledged them, otherwise when the query has taken them.
//!
//! A request with bad lines is written in part, as in InfluxDB 3: the good lines count, and 400 says which were left
//! out. Such a request must not be sent again unchanged.
//!
//! A client that sends `X-Tidemill-Client` and `X-Tidemill-Sequence` (ascending) can repeat a request if it got no
//! answer: in a durable query its rows count once. The rows of such a request come in one batch of their own.
//!
//! A web page of another origin, which a browser of this machine shows, sends nothing here: see
//! [`web_pages`](crate::web_pages).
//!
//! hyper implements the protocol, on its own thread with a single-threaded runtime: a slow client delays nobody
//! else.

mod answer;
mod answer_stream;
mod body;
mod connections;
mod json_body;
mod request_heads;
mod request_stream;
mod server;
mod service;
mod sink;
mod source;
mod waiting;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_core::error::Cause;

pub use answer_stream::AnswerStream;
pub use connections::{ConnectionSlot, Connections};
pub use request_stream::{RequestStream, RequestsEnd};
pub use sink::{HttpSink, HttpSinkSettings, PostBody, Poster};
pub use source::HttpSource;

use crate::formats::line_protocol::LineProtocolSettings;
#[cfg(doc)]
use crate::formats::line_protocol::Precision;
use crate::formats::{DecoderSettings, Format};
use crate::quotas::Quotas;
use crate::tls::TlsServerSettings;

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
    /// Whether addresses that other machines can reach are accepted.
    pub allow_remote: bool,
    /// Whether other machines are let in although they need neither a token nor a certificate.
    pub insecure: bool,
    /// The certificate that is shown to clients, and whose certificates they must show; `None`: no TLS. What does not
    /// speak it is cut off, and counted as a fault.
    pub tls: Option<TlsServerSettings>,
    /// The token that a client must send as `Authorization: Token ...` or `Bearer ...`; `None`: none needed.
    pub token: Option<String>,
    /// In place of `token`: a file with a name and a token on each line, and the sources to which its owner may
    /// write, which only its user may read. It is read again within a second after it has changed; the name appears
    /// in messages about the client's rows.
    pub token_file: Option<PathBuf>,
    /// The source's name, to which tokens of a file may be limited.
    pub source: String,
    /// LineProtocol, Json, or both; or a format of the program's own, in which every body then is.
    pub formats: Vec<Format>,
    /// The columns.
    pub decoder: DecoderSettings,
    /// How line protocol is read; the precision of a request takes precedence over the one here.
    pub line_protocol: LineProtocolSettings,
    /// Whether requests are answered only after the query has acknowledged their rows: for durable queries.
    pub acknowledge: bool,
    /// The most connections at a time. A further one takes the place of the one that has kept the server waiting for the
    /// longest, of the client that has the most; if the server waits for none, the further one waits.
    pub connections_max: usize,
    /// The most connections of one client, which is an address; requests over a further one are answered 429.
    pub connections_per_client: usize,
    /// What each client may send; requests beyond it are answered 429.
    pub quotas: Quotas,
    /// The largest body in bytes, even after decompression.
    pub body_bytes_max: usize,
    /// The most lines of a body.
    pub lines_max: usize,
    /// The most bytes of bodies that wait for the query.
    pub queue_bytes: usize,
    /// How long a request waits for room in the queue before it is answered 503.
    pub queue_wait: Duration,
    /// How long a connection may take to send the header of its next request.
    pub head_timeout: Duration,
    /// How long a request may take to send its body.
    pub body_timeout: Duration,
    /// How long to wait until rows are taken or acknowledged, before their request is answered 503.
    pub answer_timeout: Duration,
    /// How long a client may take nothing of an answer before its connection is closed.
    pub write_timeout: Duration,
}

impl HttpSettings {
    /// The defaults: both formats, no token, answers when rows are taken; 1024 connections, bodies of 16 MiB and
    /// 100,000 lines, a queue of 64 MiB; 1 s for room, 30 s for a header, 30 s for a body, 60 s until there is an answer, 30 s
    /// without reading any of it.
    pub fn new(address: &str, decoder: DecoderSettings) -> HttpSettings {
        HttpSettings {
            address: address.to_owned(),
            allow_remote: false,
            insecure: false,
            tls: None,
            token: None,
            token_file: None,
            source: String::new(),
            formats: vec![Format::LineProtocol, Format::Json],
            decoder,
            line_protocol: LineProtocolSettings::default(),
            acknowledge: false,
            connections_max: 1024,
            connections_per_client: usize::MAX,
            quotas: Quotas::default(),
            body_bytes_max: 16 << 20,
            lines_max: 100_000,
            queue_bytes: 64 << 20,
            queue_wait: Duration::from_secs(1),
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
        }
    }

    fn check(&self) -> Result<(), Cause> {
        let refuse = |text: String| Err(Cause::user(format!("http {}: {text}", self.address)));
        if self.connections_per_client == 0 {
            return refuse("connections_per_client must be at least 1".to_owned());
        }
        if self.connections_max == 0 || self.lines_max == 0 || self.body_bytes_max == 0 {
            return refuse("connections_max, lines_max and body_bytes_max must be at least 1".to_owned());
        }
        if self.body_bytes_max > 256 << 20 || self.queue_bytes > 16 << 30 {
            return refuse(
                "body_bytes_max may be at most 256 MiB, and queue_bytes at most 16 GiB".to_owned(),
            );
        }
        if self.queue_bytes < self.body_bytes_max {
            return refuse(format!("queue_bytes must be at least body_bytes_max ({})", self.body_bytes_max));
        }
        if let [Format::Own(_)] = self.formats.as_slice() {
            return Ok(());
        }
        let others = |format: &&Format| !matches!(format, Format::LineProtocol | Format::Json);
        match self.formats.iter().find(others) {
            Some(other) => refuse(format!("{other:?} cannot be posted; use line_protocol or json")),
            None if self.formats.is_empty() => {
                refuse("the format is missing; use line_protocol or json".to_owned())
            }
            None => Ok(()),
        }
    }
}
