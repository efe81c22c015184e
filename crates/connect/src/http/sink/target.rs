//! Where requests go: what a URL says.

use std::net::ToSocketAddrs;

use hyper::Uri;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING};
use tidemill_core::Cause;

use super::settings::HttpSinkSettings;
use crate::http_client::{Endpoint, unusable, user_headers};

/// The header that tells a request that is sent again from a new one.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What the sink says itself.
const OWN_HEADERS: [HeaderName; 5] = [CONTENT_LENGTH, CONNECTION, HOST, TRANSFER_ENCODING, IDEMPOTENCY_KEY];

/// A receiver of requests.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub endpoint: Endpoint,
    pub headers: HeaderMap,
    /// `https://host:port`, for messages.
    pub place: String,
}

impl Target {
    pub fn new(settings: &HttpSinkSettings) -> Result<Target, Cause> {
        // The error does not show the URL: it may hold a secret.
        let uri: Uri = settings.url.parse().map_err(|_| unusable("it is not a URL"))?;
        let endpoint = Endpoint::of(&uri)?;
        let Endpoint { is_https, host, port, .. } = &endpoint;
        let target = Target {
            place: format!("{}://{host}:{port}", if *is_https { "https" } else { "http" }),
            headers: user_headers(&settings.headers, &OWN_HEADERS, "sink")?,
            endpoint,
        };
        if target.endpoint.is_https || settings.allow_remote || !target.is_remote() {
            Ok(target)
        } else {
            Err(Cause::user(format!(
                "'{}' is on another machine, and http:// is not encrypted; use https://, or set allow_remote = true",
                target.place
            )))
        }
    }

    /// Whether a name leads to another machine. One that leads nowhere yet may.
    fn is_remote(&self) -> bool {
        let leads_to = (self.endpoint.bare_host(), self.endpoint.port).to_socket_addrs();
        let Ok(mut found) = leads_to else { return true };
        found.any(|address| !address.ip().is_loopback())
    }
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
        assert_eq!(slack.endpoint.path.to_string(), "/services/T0/B0/secret?x=1");
        assert_eq!(slack.endpoint.authority, "hooks.example.org");
        let here = target("http://[::1]:8080").unwrap().endpoint;
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
        settings.headers =
            vec![("Content-Type".into(), "text/a".into()), ("content-type".into(), "text/b".into())];
        assert!(Target::new(&settings).unwrap_err().to_string().contains("it is given twice"));
        settings.headers = vec![("X".into(), "geh\u{0}eim".into())];
        assert!(Target::new(&settings).unwrap_err().to_string().contains("its value has characters"));
        assert!(!format!("{settings:?}").contains("eim"));
    }
}
