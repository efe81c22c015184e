//! Answers requests.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Version};
use parking_lot::Mutex;
use serde_json::json;
use tidemill_core::source::{Faults, Request as Numbered};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::HttpSettings;
use super::answer::{Answer, Refusal, behind, empty, error, json, not_allowed, written};
use super::body::read;
use super::connections::ConnectionSlot;
use super::json_body::{NotJson, make_lines};
use super::waiting::{BodyFormat, Outcome, PendingRequest};
use crate::formats::Format;
use crate::formats::line_protocol::Precision;
use crate::quotas::{ClientQuotas, QuotaHolder};
use crate::tls::TlsServer;
use crate::tokens::{TokenOwner, Tokens};
use crate::web_pages::{is_of_this_machine, is_own};

/// The longest name of a client in bytes.
const CLIENT_BYTES_MAX: usize = 256;
/// The longest key of a request.
const KEY_BYTES_MAX: usize = 512;

/// What all connections share.
pub(super) struct Service {
    pub(super) settings: HttpSettings,
    pub(super) room: Arc<Semaphore>,
    pub(super) queue: Sender<PendingRequest>,
    pub(super) tokens: Tokens,
    /// Whether only this machine reaches the address.
    pub(super) is_local: bool,
    pub(super) tls: Option<TlsServer>,
    /// Connections that were cut off before there was a request to answer, and pauses in which none is accepted.
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) quotas: Option<ClientQuotas>,
}

/// Whose request it is.
#[derive(Clone)]
pub(super) struct Peer {
    /// The name of the client in messages.
    pub(super) name: String,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl Service {
    /// Reports a fault that no request is answered with.
    pub(super) fn add_fault(&self, fault: String) {
        self.faults.lock().add(fault);
    }

    /// Answers, and notes whose turn it is meanwhile.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        let slot = Arc::clone(&peer.slot);
        slot.requested();
        let answer =
            if slot.is_refused { self.too_many_connections() } else { self.answer_of(request, peer).await };
        slot.answered();
        answer
    }

    fn too_many_connections(&self) -> Answer {
        let most = self.settings.connections_per_client;
        let text = format!("this client has {most} connections already; close some, or reuse them");
        let mut answer = Refusal::too_many(Duration::from_secs(1), text).answer();
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    }

    async fn answer_of(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        if let Err(refusal) = check_host(&request) {
            return refusal.answer();
        }
        match (request.uri().path(), request.method()) {
            ("/api/v2/write" | "/write", &Method::POST) => {
                self.write(request, peer).await.unwrap_or_else(Refusal::answer)
            }
            ("/api/v2/write" | "/write", _) => not_allowed("POST", "send rows with POST"),
            ("/health", &Method::GET | &Method::HEAD) => {
                let health = json!({ "name": "tidemill", "message": "ready for writes", "status": "pass" });
                json(StatusCode::OK, &health)
            }
            ("/ping", &Method::GET | &Method::HEAD) => empty(StatusCode::NO_CONTENT),
            ("/health" | "/ping", _) => not_allowed("GET, HEAD", "use GET"),
            _ => error(StatusCode::NOT_FOUND, "the paths are /api/v2/write, /write, /health and /ping"),
        }
    }

    async fn write(&self, request: Request<Incoming>, peer: Peer) -> Result<Answer, Refusal> {
        let (head, incoming) = request.into_parts();
        self.check_page(&head)?;
        let client = self.authorize(&head.headers)?;
        let holder = QuotaHolder::of(&client, peer.slot.client);
        self.check_quota(&holder)?;
        let kind = self.kind(head.uri.path(), head.uri.query().unwrap_or_default(), &head.headers)?;
        let request = numbered(&head.headers)?;
        let is_gzip = is_gzip(&head.headers)?;
        let arrival = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let arrival_ns = i64::try_from(arrival.as_nanos()).unwrap_or(i64::MAX);
        let mut body = read(incoming, is_gzip, &self.settings, &self.room).await?;
        let is_json = self.settings.formats.contains(&Format::Json)
            && kind == BodyFormat::Records
            && content_type(&head.headers) == "application/json";
        let kind = if is_json && divided(&mut body.bytes)? { BodyFormat::Objects } else { kind };
        let lines = memchr::memchr_iter(b'\n', &body.bytes).count();
        if let Some(quotas) = &self.quotas {
            quotas.spend(&holder, lines.max(1) as u64, body.bytes.len() as u64, Instant::now());
        }
        if lines > self.settings.lines_max {
            let text = format!("the body has more than {} lines; send fewer", self.settings.lines_max);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let (outcome, answered) = oneshot::channel();
        let name = if client.is_empty() { peer.name } else { format!("{} ({client})", peer.name) };
        let posted = PendingRequest { body, kind, request, arrival_ns, peer: name, outcome };
        peer.slot.passed_on();
        let gone = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the query has ended");
        self.queue.send(posted).map_err(|_| gone())?;
        match timeout(self.settings.answer_timeout, answered).await {
            Ok(Ok(Outcome { refused_for: Some(last), .. })) => Ok(behind(last)),
            Ok(Ok(outcome)) => Ok(written(outcome.rows, &outcome.faults)),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the rows were accepted, but are not safe yet; if they are sent again without a number or key, they \
                 may count twice",
            )),
        }
    }

    /// Refuses what a page of another site may have sent through a browser of this machine.
    ///
    /// A page does not know the token. Where there is one, the name by which the server is asked may be that of a proxy.
    fn check_page(&self, head: &Parts) -> Result<(), Refusal> {
        let named = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        // A request to a proxy names the host in its first line, which counts.
        let host = head.uri.authority().map_or(named, |authority| authority.as_str());
        let is_asked_by_name = self.is_local && matches!(self.tokens, Tokens::NotNeeded);
        if is_asked_by_name && !host.is_empty() && !is_of_this_machine(host) {
            let text = format!(
                "'{host}' is not a name of this source; use 127.0.0.1, [::1] or localhost, or set a token"
            );
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text));
        }
        if is_own(&head.headers, host) {
            Ok(())
        } else {
            let text = "a web page of another origin may not send rows; send them from a program";
            Err(Refusal::new(StatusCode::FORBIDDEN, text))
        }
    }

    /// A client that has used up its quota is sent away before its body is read.
    fn check_quota(&self, holder: &QuotaHolder) -> Result<(), Refusal> {
        let Some(quotas) = &self.quotas else { return Ok(()) };
        match quotas.wait(holder, Instant::now()) {
            Duration::ZERO => Ok(()),
            wait => Err(Refusal::too_many(
                wait,
                "this client has used up its quota (rows_per_second, bytes_per_second); send again after Retry-After",
            )),
        }
    }

    /// The name of whoever sends this token.
    fn authorize(&self, headers: &HeaderMap) -> Result<String, Refusal> {
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let given = given.strip_prefix(b"Token ").or_else(|| given.strip_prefix(b"Bearer "));
        match self.tokens.owner_of(given) {
            TokenOwner::Somebody(name) => Ok(name),
            TokenOwner::NotHere(name) => {
                let text = format!("the token of '{name}' is not for this source");
                Err(Refusal::new(StatusCode::FORBIDDEN, text))
            }
            TokenOwner::Nobody => {
                let text = "the token is missing or wrong; send Authorization: Token ...";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, text))
            }
        }
    }

    fn kind(&self, path: &str, query: &str, headers: &HeaderMap) -> Result<BodyFormat, Refusal> {
        if let [Format::Own(_)] = self.settings.formats.as_slice() {
            return Ok(BodyFormat::Records);
        }
        let content = content_type(headers);
        let (kind, format) = match content.as_str() {
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json"
                if path == "/write" =>
            {
                (BodyFormat::Records, Format::Json)
            }
            // The content type that curl sends by default is accepted too.
            "" | "text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded" => {
                (BodyFormat::LineProtocol(precision(query)?), Format::LineProtocol)
            }
            _ => return Err(self.unsupported(&content)),
        };
        if self.settings.formats.contains(&format) { Ok(kind) } else { Err(self.unsupported(&content)) }
    }

    fn unsupported(&self, content: &str) -> Refusal {
        let names = self.settings.formats.iter().map(|format| match format {
            Format::Json => "JSON (application/x-ndjson or application/json, sent to /write)",
            _ => "line protocol (text/plain)",
        });
        let names = names.collect::<Vec<_>>().join(" and ");
        let text = format!("'{content}' is not accepted; this source accepts {names}");
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }
}

/// The content type without its parameters.
fn content_type(headers: &HeaderMap) -> String {
    let content = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Divides JSON that is not written line by line; returns whether it is so.
fn divided(body: &mut [u8]) -> Result<bool, Refusal> {
    make_lines(body).map_err(|NotJson(why)| {
        let text = format!(
            "nothing was written: the body is not valid JSON: {why}; send an array, or one object per line"
        );
        Refusal::new(StatusCode::BAD_REQUEST, text)
    })
}

/// HTTP/1.1 demands one `Host`. A request without it, or with two, was not written by a client but by somebody who tries
/// what a proxy and we understand differently.
fn check_host(request: &Request<Incoming>) -> Result<(), Refusal> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11) {
        Ok(())
    } else {
        Err(Refusal::new(StatusCode::BAD_REQUEST, "a request must have one Host header"))
    }
}

fn precision(query: &str) -> Result<Option<Precision>, Refusal> {
    let Some(name) = query.split('&').find_map(|pair| pair.strip_prefix("precision=")) else {
        return Ok(None);
    };
    match Precision::named(name) {
        Some(precision) => Ok(Some(precision)),
        None => Err(Refusal::new(StatusCode::BAD_REQUEST, "the precision must be ns, us, ms or s")),
    }
}

fn numbered(headers: &HeaderMap) -> Result<Option<Numbered>, Refusal> {
    let bad = |text| Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    let is_twice = |name: &&str| headers.get_all(*name).iter().count() > 1;
    if ["x-tidemill-client", "x-tidemill-sequence", "idempotency-key"].iter().any(is_twice) {
        return bad("X-Tidemill-Client, X-Tidemill-Sequence and Idempotency-Key must be sent once each");
    }
    let (client, sequence) = (headers.get("x-tidemill-client"), headers.get("x-tidemill-sequence"));
    let (client, sequence) = match (client, sequence) {
        (None, None) => return of_key(headers),
        (Some(client), Some(sequence)) => (client.to_str().ok(), sequence.to_str().ok()),
        _ => return bad("X-Tidemill-Client and X-Tidemill-Sequence must be sent together"),
    };
    let client = client.filter(|client| !client.is_empty() && client.len() <= CLIENT_BYTES_MAX);
    match (client, sequence.and_then(|sequence| sequence.parse().ok())) {
        (Some(client), Some(sequence)) => Ok(Some(Numbered { client: client.to_owned(), sequence })),
        _ => {
            bad("X-Tidemill-Client must be 1 to 256 ASCII characters, and X-Tidemill-Sequence a whole number")
        }
    }
}

/// The request of a client that does not number them, if it has a key.
fn of_key(headers: &HeaderMap) -> Result<Option<Numbered>, Refusal> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    match key.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= KEY_BYTES_MAX => Ok(Some(Numbered::of_key(key))),
        _ => {
            let text = format!("Idempotency-Key must be 1 to {KEY_BYTES_MAX} ASCII characters");
            Err(Refusal::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bodies must be plain or gzip")),
    }
}
