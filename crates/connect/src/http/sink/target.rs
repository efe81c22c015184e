//! Where requests go: what a URL says.

use std::net::ToSocketAddrs;

use hyper::Uri;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use tidemill_core::Cause;

use super::settings::HttpSinkSettings;

/// The header that tells a request that is sent again from a new one.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A receiver of requests.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub is_https: bool,
    pub host: String,
    pub port: u16,
    /// The value of the header `Host`.
    pub authority: HeaderValue,
    /// Path and query.
    pub path: Uri,
    pub headers: HeaderMap,
    /// `https://host:port`, for messages.
    pub place: String,
}

impl Target {
    pub fn new(settings: &HttpSinkSettings) -> Result<Target, Cause> {
        // The error does not show the URL: it may hold a secret.
        let wrong = |why: &str| {
            Cause::user(format!(
                "the URL cannot be used: {why}; write http://host:port/path or https://host/path"
            ))
        };
        let uri: Uri = settings.url.parse().map_err(|_| wrong("it is not a URL"))?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(Cause::user(
                "the URL cannot be used: it has a user or password; give them in headers = 'Authorization: ...'",
            ));
        }
        let host = authority.host().to_owned();
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let target = Target {
            is_https,
            place: format!("{}://{host}:{port}", if is_https { "https" } else { "http" }),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("its host is invalid"))?,
            path: path.parse().map_err(|_| wrong("its path is invalid"))?,
            headers: headers(&settings.headers)?,
            host,
            port,
        };
        match is_https || settings.allow_remote || !target.is_remote() {
            true => Ok(target),
            false => Err(Cause::user(format!(
                "'{}' is on another machine, and http:// is not encrypted; use https://, or set allow_remote = true",
                target.place
            ))),
        }
    }

    /// Whether a name leads to another machine. One that leads nowhere yet may.
    fn is_remote(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let Ok(mut found) = (bare, self.port).to_socket_addrs() else { return true };
        found.any(|address| !address.ip().is_loopback())
    }
}

/// The user's headers. Errors show names, never values.
fn headers(given: &[(String, String)]) -> Result<HeaderMap, Cause> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = |why: &str| Cause::user(format!("the header '{name}' cannot be used: {why}"));
        let header: HeaderName = name.parse().map_err(|_| wrong("it is not the name of a header"))?;
        if [CONTENT_LENGTH, CONNECTION, HOST, TRANSFER_ENCODING, IDEMPOTENCY_KEY].contains(&header) {
            return Err(wrong("it is set by the sink; remove it"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| wrong("its value has characters that no header can have; write ASCII"))?;
        value.set_sensitive(true);
        headers.append(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, String> {
        Target::new(&HttpSinkSettings::new(url, "s")).map_err(|cause| cause.message.to_string())
    }

    #[test]
    fn messages_know_the_host_and_not_the_path() {
        let slack = target("https://hooks.example.org/services/T0/B0/secret?x=1").unwrap();
        assert_eq!(slack.place, "https://hooks.example.org:443");
        assert_eq!(slack.path.to_string(), "/services/T0/B0/secret?x=1");
        assert_eq!(slack.authority, "hooks.example.org");
        let here = target("http://[::1]:8080").unwrap();
        assert_eq!((here.host.as_str(), here.port, here.path.to_string().as_str()), ("[::1]", 8080, "/"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_showing_it() {
        for (url, why) in [
            ("secret", "neither with http:// nor"),
            ("ftp://host/secret", "neither with http:// nor"),
            ("http://me:secret@127.0.0.1/", "it has a user or password"),
            ("http://192.0.2.1/secret", "'http://192.0.2.1:80' is on another machine"),
            ("http://127.0.0.1/sec ret", "it is not a URL"),
        ] {
            let error = target(url).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
        let mut settings = HttpSinkSettings::new("http://127.0.0.1/", "s");
        settings.headers = vec![("Idempotency-Key".into(), "secret".into())];
        let error = Target::new(&settings).unwrap_err().to_string();
        assert!(error.contains("set by the sink") && !error.contains("secret"), "{error}");
        settings.headers = vec![("X".into(), "geh\u{0}eim".into())];
        assert!(Target::new(&settings).unwrap_err().to_string().contains("its value has characters"));
        assert!(!format!("{settings:?}").contains("eim"));
    }
}
