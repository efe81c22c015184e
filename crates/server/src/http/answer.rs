//! Answers, and errors in the form of PostgreSQL's.

use std::io;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::report::{INTERNAL_ERROR, OBJECT_NOT_READY, PROTOCOL_VIOLATION, Report};

/// What is sent back.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A whole answer, which is different the next time.
pub(super) fn whole(status: StatusCode, content: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

pub(super) fn json(status: StatusCode, value: &Value) -> Answer {
    whole(status, JSON, format!("{value}\n"))
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub report: Report,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, report: Report::error(code, message) }
    }

    pub fn with_hint(self, hint: &str) -> Refusal {
        Refusal { report: self.report.with_hint(hint), ..self }
    }

    pub fn answer(&self) -> Answer {
        json(self.status, &json!({ "error": error(&self.report) }))
    }
}

/// An error with what is known about it.
pub(super) fn error(report: &Report) -> Value {
    let mut error = json!({ "code": report.code, "message": report.message });
    if let Some(hint) = &report.hint {
        error["hint"] = json!(hint);
    }
    if let Some(position) = report.position {
        error["position"] = json!(position);
    }
    error
}

/// Computes something on another thread: it may read from the disk or wait, and the thread that speaks HTTP waits for
/// nothing. `failed` says what could not be done if it panics.
pub(super) async fn computed<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
    failed: &'static str,
) -> Result<T, Refusal> {
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, failed))
}

/// The method is not one that this path accepts.
pub(super) fn not_allowed(allowed: &'static str) -> Answer {
    let message = format!("this path accepts {allowed}");
    let mut answer = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, PROTOCOL_VIOLATION, message).answer();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// There is nothing to tell yet.
pub(super) fn starting() -> Refusal {
    let message = "queries are being started; try again later";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OBJECT_NOT_READY, message)
}
