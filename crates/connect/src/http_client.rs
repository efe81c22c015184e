//! What all requests to web servers need: where a URL leads, the headers that a user adds, and what an answer or a failure says.

use std::time::Duration;

use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Response, Uri};
use tidemill_core::Cause;

use crate::tls::failure;

/// Where a URL leads.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub is_https: bool,
    pub host: String,
    pub port: u16,
    /// The value of the header `Host`.
    pub authority: HeaderValue,
    /// Path and query.
    pub path: Uri,
}

impl Endpoint {
    /// Reads a URL. The error does not show it: it may hold a secret.
    pub fn of(uri: &Uri) -> Result<Endpoint, Cause> {
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(unusable("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().ok_or_else(|| unusable("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(Cause::user(
                "the URL cannot be used: it has a user or password; give them in headers = 'Authorization: ...'",
            ));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Endpoint {
            is_https,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| unusable("its host is invalid"))?,
            path: path.parse().map_err(|_| unusable("its path is invalid"))?,
        })
    }

    /// The host without the brackets of an address.
    pub fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// The refusal of a URL, without the URL.
pub(crate) fn unusable(why: &str) -> Cause {
    Cause::user(format!("the URL cannot be used: {why}; write http://host:port/path or https://host/path"))
}

/// Headers that have one value. Servers take the first, the last or none of several.
const SINGLE: [HeaderName; 4] = [ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT];

/// A user's headers. `own` are those that the connector sets itself, as a source or a sink. Errors show names, never values.
pub(crate) fn user_headers(
    given: &[(String, String)],
    own: &[HeaderName],
    connector: &str,
) -> Result<HeaderMap, Cause> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = |why: &str| Cause::user(format!("the header '{name}' cannot be used: {why}"));
        let header: HeaderName = name.parse().map_err(|_| wrong("it is not the name of a header"))?;
        if own.contains(&header) {
            return Err(wrong(&format!("it is set by the {connector}; remove it")));
        }
        if SINGLE.contains(&header) && headers.contains_key(&header) {
            return Err(wrong("it is given twice, but has one value; remove one of them"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| wrong("its value has characters that no header can have; write ASCII"))?;
        value.set_sensitive(true);
        headers.append(header, value);
    }
    Ok(headers)
}

/// Adds a user's headers, all values of each, in place of the connector's.
pub(crate) fn add_user_headers(headers: &mut HeaderMap, given: &HeaderMap) {
    for name in given.keys() {
        headers.remove(name);
    }
    for (name, value) in given {
        headers.append(name, value.clone());
    }
}

/// A header's value, if it is a text.
pub(crate) fn header_text<B>(response: &Response<B>, name: &HeaderName) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.trim().to_owned())
}

/// The pause that the server asks for, in seconds; dates are not understood.
pub(crate) fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    Some(Duration::from_secs(header_text(response, &RETRY_AFTER)?.parse().ok()?))
}

/// Why a connection or an answer broke off.
pub(crate) fn reason_of(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error);
    let of_tls = source.and_then(|source| source.downcast_ref()).and_then(failure);
    match (of_tls, source) {
        (Some(reason), _) => reason,
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
