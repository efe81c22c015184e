//! The log of this process for its owners: as lines of JSON, or as events while it is written.
//!
//! Texts of the log name users, addresses and definitions of everybody, so that only owners may read them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tidemill_service::{Role, Runtime};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;
use tracing::Level;

use super::answer::{Answer, Refusal, starting, whole};
use super::parameters::{bad, parameters};
use super::shared::HttpState;
use crate::log::{LogId, LogRecord, RecentLog};
use crate::report::{NOT_SUPPORTED, TOO_MANY_CONNECTIONS};
use crate::sessions::identity::Identity;

const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const EVENTS: &str = "text/event-stream";
/// What a browser sends when a stream of events broke: the id of the last one.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Records that are sent at once. A client that does not read holds this many; the rest stays in the log.
const RECORDS_AT_ONCE: usize = 200;
/// After this time without a record a line is sent, so that a connection that is gone is noticed.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// Answers with the records of the log.
pub(super) fn answer(request: &Request<Incoming>, shared: &HttpState, identity: &Identity) -> Answer {
    begin(request, shared, identity).unwrap_or_else(|refusal| refusal.answer())
}

fn begin(request: &Request<Incoming>, shared: &HttpState, identity: &Identity) -> Result<Answer, Refusal> {
    let runtime = shared.runtime.get().ok_or_else(starting)?;
    let forbidden = |report| Refusal { status: StatusCode::FORBIDDEN, report };
    let role = identity.role(runtime).map_err(forbidden)?;
    identity.check(role, Role::Owner).map_err(forbidden)?;
    let wanted = LogSelection::read(request)?;
    let log = shared.options.log.clone().ok_or_else(|| {
        let message = "the log of this process is not kept in memory";
        Refusal::new(StatusCode::NOT_FOUND, NOT_SUPPORTED, message)
            .with_hint("it is on its standard error, if TIDEMILL_LOG says so")
    })?;
    if !is_stream(request.headers()) {
        let records = log.after(wanted.after, wanted.level);
        let lines = records.iter().map(|record| format!("{}\n", record.json(log.began_ms())));
        return Ok(whole(StatusCode::OK, JSON_LINES, lines.collect::<String>()));
    }
    let Ok(permit) = Arc::clone(&shared.questions).try_acquire_owned() else {
        let message = format!("{} queries are already running over HTTP", shared.options.questions_max);
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, message)
            .with_hint("try again later, or close a subscription"));
    };
    Ok(follow(Follower { log, wanted, runtime: runtime.clone(), identity: identity.clone() }, permit))
}

/// Which records a client wants.
struct LogSelection {
    level: Level,
    after: Option<LogId>,
}

impl LogSelection {
    fn read(request: &Request<Incoming>) -> Result<LogSelection, Refusal> {
        let mut wanted = LogSelection { level: Level::INFO, after: None };
        let of_id = |id: &str| id.parse().map_err(|_| bad("after must be the id of a record"));
        for (name, value) in parameters(request.uri().query().unwrap_or_default())? {
            match name.as_str() {
                "level" => wanted.level = level(&value)?,
                "after" => wanted.after = Some(of_id(&value)?),
                _ => return Err(bad(format!("there is no parameter '{name}'; there are level, after"))),
            }
        }
        if let Some(id) = request.headers().get(LAST_EVENT_ID) {
            wanted.after = Some(of_id(id.to_str().unwrap_or_default())?);
        }
        Ok(wanted)
    }
}

fn level(name: &str) -> Result<Level, Refusal> {
    match name {
        "error" => Ok(Level::ERROR),
        "warn" => Ok(Level::WARN),
        "info" => Ok(Level::INFO),
        _ => Err(bad(format!("the level is '{name}'; it must be error, warn or info"))),
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|part| part.split(';').next().unwrap_or_default().trim() == EVENTS)
}

/// Who reads the log while it is written.
struct Follower {
    log: RecentLog,
    wanted: LogSelection,
    runtime: Runtime,
    identity: Identity,
}

impl Follower {
    /// Whether it is still an owner who reads: that may change meanwhile.
    fn may_read(&self) -> bool {
        self.identity.role(&self.runtime).is_ok_and(|role| role == Role::Owner)
    }

    /// The next records, some of them at a time.
    fn next(&mut self) -> String {
        let written = self.log.written();
        let mut records = self.log.after(self.wanted.after, self.wanted.level);
        let is_more = records.len() > RECORDS_AT_ONCE;
        records.truncate(RECORDS_AT_ONCE);
        let last = records.last().map_or(0, |record| record.number);
        // Those that are not severe enough need not be looked at again.
        let number = if is_more { last } else { last.max(written) };
        self.wanted.after = Some(LogId { began_ms: self.log.began_ms(), number });
        records.iter().map(|record| event(record, self.log.began_ms())).collect()
    }

    async fn send(mut self, pieces: Sender<Bytes>) {
        let mut changes = self.log.changes();
        loop {
            changes.mark_unchanged();
            if !self.may_read() {
                return;
            }
            let text = self.next();
            if !text.is_empty() {
                if pieces.send(text.into()).await.is_err() {
                    return;
                }
                continue;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = pieces.closed() => return,
                () = sleep(QUIET_MAX) => if pieces.send(Bytes::from_static(b":\n\n")).await.is_err() { return },
            }
        }
    }
}

/// An event. JSON has no line breaks of its own.
fn event(record: &LogRecord, began_ms: u64) -> String {
    let id = LogId { began_ms, number: record.number };
    format!("event: record\nid: {id}\ndata: {}\n\n", record.json(began_ms))
}

fn follow(follower: Follower, permit: OwnedSemaphorePermit) -> Answer {
    let (sender, pieces) = channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        follower.send(sender).await;
    });
    let mut answer = Response::new(Events(pieces).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The body of an answer that continues.
struct Events(Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
