//! Answers, with errors in InfluxDB's form.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::json;
use tidemill_core::source::Faults;

use crate::formats::encode::ascii;

/// A whole answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// How long a client should wait, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// No body.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

/// A JSON object.
pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Full::from(value.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    answer
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), retry_after: None }
    }

    /// The client may send again after this time.
    pub(super) fn too_many(wait: Duration, message: impl Into<String>) -> Refusal {
        Refusal { retry_after: Some(wait), ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub(super) fn answer(self) -> Answer {
        let mut answer = error(self.status, &self.message);
        if let Some(wait) = self.retry_after {
            // Whole seconds, and none too few.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

/// The method is not the one that this path accepts.
pub(super) fn not_allowed(allowed: &'static str, message: &str) -> Answer {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, message);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// An error; details beside its text depend on the status.
pub(super) fn error(status: StatusCode, message: &str) -> Answer {
    let code = match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not found",
        StatusCode::METHOD_NOT_ALLOWED => "method not allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported media type",
        StatusCode::REQUEST_TIMEOUT => "request timeout",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INTERNAL_SERVER_ERROR => "internal error",
        _ => "invalid",
    };
    let mut answer = json(status, &json!({ "code": code, "message": message }));
    let headers = answer.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Token"))),
        StatusCode::SERVICE_UNAVAILABLE => drop(headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS)),
        _ => {}
    }
    answer
}

/// The answer about a request's rows: 204, or 400 if lines were left out. The faults begin with `line 7: `. A header has
/// what is noteworthy about rows that were written.
pub(super) fn written(rows: usize, faults: &Faults) -> Answer {
    if faults.count == 0 {
        let mut answer = empty(StatusCode::NO_CONTENT);
        let notices = ascii(&faults.notices.newest().join("; "));
        if let (false, Ok(notices)) = (notices.is_empty(), HeaderValue::from_str(&notices)) {
            answer.headers_mut().insert("x-tidemill-notice", notices);
        }
        return answer;
    }
    let line = faults.samples.first().and_then(|sample| line_of(sample));
    let more = if faults.count > faults.samples.len() as u64 { "; ..." } else { "" };
    let what = if rows == 0 { "nothing was written" } else { "partial write" };
    let message = format!(
        "{what}: {rows} row{} written, {} line{} skipped: {}{more}",
        if rows == 1 { "" } else { "s" },
        faults.count,
        if faults.count == 1 { "" } else { "s" },
        faults.samples.join("; ")
    );
    json(StatusCode::BAD_REQUEST, &json!({ "code": "invalid", "message": message, "line": line }))
}

/// A numbered request behind one that was accepted before: its client may have restarted its counter.
pub(super) fn behind(last: u64) -> Answer {
    let message = format!(
        "nothing was written: the number is less than {last}, the last one accepted from this client. Continue \
         after it; if the counter has started over, use another X-Tidemill-Client"
    );
    json(StatusCode::CONFLICT, &json!({ "code": "conflict", "message": message, "last": last }))
}

/// The number of the line that a fault begins with: `line 7: `.
pub(super) fn line_of(fault: &str) -> Option<u64> {
    fault.strip_prefix("line ")?.split(':').next()?.parse().ok()
}
