//! Answers requests.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use tidemill_core::source::Request as Numbered;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::HttpSettings;
use super::answer::{Answer, Refusal, behind, empty, error, json, not_allowed, written};
use super::body::read;
use super::waiting::{Kind, Outcome, Posted};
use crate::formats::Format;
use crate::formats::line_protocol::Precision;

/// The longest name of a client in bytes.
const CLIENT_BYTES_MAX: usize = 256;

/// What all connections share.
pub(super) struct Service {
    pub(super) settings: HttpSettings,
    pub(super) room: Arc<Semaphore>,
    pub(super) queue: Sender<Posted>,
}

impl Service {
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: String) -> Answer {
        match (request.uri().path(), request.method()) {
            ("/api/v2/write" | "/write", &Method::POST) => {
                self.write(request, peer).await.unwrap_or_else(Refusal::answer)
            }
            ("/api/v2/write" | "/write", _) => not_allowed("POST", "rows are sent with POST"),
            ("/health", &Method::GET | &Method::HEAD) => {
                let health = json!({ "name": "tidemill", "message": "ready for writes", "status": "pass" });
                json(StatusCode::OK, &health)
            }
            ("/ping", &Method::GET | &Method::HEAD) => empty(StatusCode::NO_CONTENT),
            ("/health" | "/ping", _) => not_allowed("GET, HEAD", "ask with GET"),
            _ => error(StatusCode::NOT_FOUND, "there are /api/v2/write, /write, /health and /ping"),
        }
    }

    async fn write(&self, request: Request<Incoming>, peer: String) -> Result<Answer, Refusal> {
        let (head, incoming) = request.into_parts();
        self.authorize(&head.headers)?;
        let kind = self.kind(head.uri.path(), head.uri.query().unwrap_or_default(), &head.headers)?;
        let request = numbered(&head.headers)?;
        let is_gzip = is_gzip(&head.headers)?;
        let arrival = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let arrival_ns = i64::try_from(arrival.as_nanos()).unwrap_or(i64::MAX);
        let body = read(incoming, is_gzip, &self.settings, &self.room).await?;
        if memchr::memchr_iter(b'\n', &body.bytes).count() > self.settings.lines_max {
            let text = format!("the body has more than {} lines; send fewer", self.settings.lines_max);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let (outcome, answered) = oneshot::channel();
        let posted = Posted { body, kind, request, arrival_ns, peer, outcome };
        let gone = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the query has ended");
        self.queue.send(posted).map_err(|_| gone())?;
        match timeout(self.settings.answer_timeout, answered).await {
            Ok(Ok(Outcome { refused_for: Some(last), .. })) => Ok(behind(last)),
            Ok(Ok(outcome)) => Ok(written(outcome.rows, &outcome.faults)),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the rows were taken, but are not yet safe; sent again without a number they may count twice",
            )),
        }
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.settings.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let given = given.strip_prefix(b"Token ").or_else(|| given.strip_prefix(b"Bearer "));
        match given.is_some_and(|given| is_same(given, token.as_bytes())) {
            true => Ok(()),
            false => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: Authorization: Token ...",
            )),
        }
    }

    fn kind(&self, path: &str, query: &str, headers: &HeaderMap) -> Result<Kind, Refusal> {
        if let [Format::Own(_)] = self.settings.formats.as_slice() {
            return Ok(Kind::Records);
        }
        let content = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content = content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let (kind, format) = match content.as_str() {
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json"
                if path == "/write" =>
            {
                (Kind::Records, Format::Json)
            }
            // The content type that curl sends by default is accepted too.
            "" | "text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded" => {
                (Kind::LineProtocol(precision(query)?), Format::LineProtocol)
            }
            _ => return Err(self.unsupported(&content)),
        };
        match self.settings.formats.contains(&format) {
            true => Ok(kind),
            false => Err(self.unsupported(&content)),
        }
    }

    fn unsupported(&self, content: &str) -> Refusal {
        let names = self.settings.formats.iter().map(|format| match format {
            Format::Json => "JSON lines (application/x-ndjson, sent to /write)",
            _ => "line protocol (text/plain)",
        });
        let names = names.collect::<Vec<_>>().join(" and ");
        let text = format!("'{content}' is not taken here; this source takes {names}");
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }
}

fn precision(query: &str) -> Result<Option<Precision>, Refusal> {
    let Some(name) = query.split('&').find_map(|pair| pair.strip_prefix("precision=")) else {
        return Ok(None);
    };
    match Precision::named(name) {
        Some(precision) => Ok(Some(precision)),
        None => Err(Refusal::new(StatusCode::BAD_REQUEST, "the precision is none of ns, us, ms and s")),
    }
}

fn numbered(headers: &HeaderMap) -> Result<Option<Numbered>, Refusal> {
    let bad = |text| Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    let (client, sequence) = (headers.get("x-tidemill-client"), headers.get("x-tidemill-sequence"));
    let (client, sequence) = match (client, sequence) {
        (None, None) => return Ok(None),
        (Some(client), Some(sequence)) => (client.to_str().ok(), sequence.to_str().ok()),
        _ => return bad("X-Tidemill-Client and X-Tidemill-Sequence come together"),
    };
    let client = client.filter(|client| !client.is_empty() && client.len() <= CLIENT_BYTES_MAX);
    match (client, sequence.and_then(|sequence| sequence.parse().ok())) {
        (Some(client), Some(sequence)) => Ok(Some(Numbered { client: client.to_owned(), sequence })),
        _ => bad("X-Tidemill-Client is 1 to 256 ASCII characters, X-Tidemill-Sequence a whole number"),
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bodies are plain or gzip")),
    }
}

/// Takes equally long for any wrong token of the right length.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    left.len() == right.len() && differences == 0
}
