//! How a connection becomes a WebSocket (RFC 6455, section 4.2).

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::{Request, StatusCode, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::answer::Refusal;
use crate::report::PROTOCOL_VIOLATION;

pub(super) const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
pub(super) const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
/// The only version that there is.
pub(super) const KNOWN_VERSION: HeaderValue = HeaderValue::from_static("13");
/// A key is 16 bytes in Base64.
const KEY_BYTES: usize = 24;

/// Whether a client wants a WebSocket.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    has_word(headers, &UPGRADE, "websocket")
}

/// What proves to the client that the server has understood it.
pub(super) fn accepted(request: &Request<Incoming>) -> Result<String, Refusal> {
    let headers = request.headers();
    let wrong = |message: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, PROTOCOL_VIOLATION, message));
    if request.version() != Version::HTTP_11 || !has_word(headers, &CONNECTION, "upgrade") {
        return wrong("a WebSocket begins with HTTP/1.1 and the header Connection: Upgrade");
    }
    if headers.get(&VERSION) != Some(&KNOWN_VERSION) {
        let message = "the server knows version 13 of WebSocket only";
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, PROTOCOL_VIOLATION, message));
    }
    match headers.get(&KEY) {
        Some(key) if key.len() == KEY_BYTES => Ok(derive_accept_key(key.as_bytes())),
        _ => wrong("the header Sec-WebSocket-Key must have 16 bytes in Base64"),
    }
}

/// Whether a word occurs in the list that a header has.
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_a_list_in_any_letters() {
        let headers = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static(value));
            headers
        };
        for wanted in ["websocket", "WebSocket", "h2c, websocket", " websocket ,x"] {
            assert!(is_wanted(&headers(wanted)), "{wanted}");
        }
        for other in ["", "h2c", "websocket2", "web socket"] {
            assert!(!is_wanted(&headers(other)), "{other}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
