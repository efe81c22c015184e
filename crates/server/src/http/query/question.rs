//! What a client asks, within limits.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Method, Request, StatusCode};
use tidemill_engine::chain;
use tokio::time::timeout;

use super::encoding::Encoding;
use crate::http::answer::Refusal;
use crate::http::handshake;
use crate::http::options::HttpOptions;
use crate::http::parameters::{bad, parameters};
use crate::report::{INVALID_PARAMETER_VALUE, PROGRAM_LIMIT, PROTOCOL_VIOLATION};

/// What a client asks.
pub(super) struct Question {
    pub text: String,
    pub encoding: Encoding,
    /// The most rows; `None`: as many as come.
    pub rows_max: Option<u64>,
    /// The most bytes of a value in documents and events.
    pub value_bytes_max: usize,
    /// The longest time; `None`: until the client goes.
    pub time_max: Option<Duration>,
}

impl Question {
    pub async fn read(request: Request<Incoming>, options: &HttpOptions) -> Result<Question, Refusal> {
        let is_subscription = request.uri().path() == "/subscribe";
        let (head, body) = request.into_parts();
        let parameters = parameters(head.uri.query().unwrap_or_default())?;
        let number = |name: &str, default: u64, most: u64| {
            let given = parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            match given.map_or(Some(default), |value| value.parse().ok()) {
                Some(number) if (1..=most).contains(&number) => Ok(number),
                _ => Err(bad(format!("{name} must be a whole number from 1 to {most}"))),
            }
        };
        let rows_max = number("rows_max", options.rows_max, 100_000_000)?;
        let seconds_max = number("seconds_max", options.time_max.as_secs().max(1), 86_400)?;
        let value_bytes_max = number("value_bytes_max", u64::from(u32::MAX), u64::from(u32::MAX))?;
        let value_bytes_max = usize::try_from(value_bytes_max).unwrap_or(usize::MAX);
        let known = ["query", "rows_max", "seconds_max", "value_bytes_max"];
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            return Err(bad(format!("there is no parameter '{name}'; there are {}", known.join(", "))));
        }
        let encoding = if !is_subscription {
            accepted(&head.headers)?
        } else if handshake::is_wanted(&head.headers) {
            Encoding::Messages
        } else {
            Encoding::Events
        };
        let text = match parameters.into_iter().find(|(name, _)| name == "query") {
            Some((_, text)) if head.method == Method::GET => text,
            Some(_) => return Err(bad("send the statement as the body of the request")),
            None => statement(body, options).await?,
        };
        let (rows_max, time_max) = if is_subscription {
            (None, None)
        } else {
            (Some(rows_max), Some(Duration::from_secs(seconds_max)))
        };
        Ok(Question { text, encoding, rows_max, value_bytes_max, time_max })
    }
}

/// The body of the request, which is the statement.
async fn statement(body: Incoming, options: &HttpOptions) -> Result<String, Refusal> {
    let bytes_max = options.statement_bytes_max;
    let too_long = || {
        let message = format!("the statement has more than {bytes_max} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, PROGRAM_LIMIT, message)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long());
    }
    let read = match timeout(options.head_timeout, Limited::new(body, bytes_max).collect()).await {
        Ok(read) => read,
        Err(_) => {
            let message = "the statement took too long to arrive";
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, PROTOCOL_VIOLATION, message));
        }
    };
    let bytes = read.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            too_long()
        } else {
            bad(format!("the statement cannot be read: {}", chain(&*error).join(": ")))
        }
    })?;
    String::from_utf8(bytes.to_bytes().into()).map_err(|_| bad("the statement is not UTF-8 text"))
}

/// The first format that the client accepts and we have.
fn accepted(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let mut is_asked = false;
    for line in headers.get_all(ACCEPT) {
        for part in line.to_str().unwrap_or_default().split(',') {
            is_asked = true;
            let name = part.split(';').next().unwrap_or_default().trim();
            if let Some(encoding) = Encoding::named(name) {
                return Ok(encoding);
            }
        }
    }
    if is_asked {
        let message = "this path offers none of the formats that the request accepts";
        let names: Vec<&str> = Encoding::NAMES.iter().map(|(name, _)| *name).collect();
        let refusal = Refusal::new(StatusCode::NOT_ACCEPTABLE, INVALID_PARAMETER_VALUE, message);
        Err(refusal.with_hint(&format!("Accept: {}", names.join(", "))))
    } else {
        Ok(Encoding::JsonLines)
    }
}
