//! Who may ask: programs of this machine, and pages that this server has given.
//!
//! A server on the loopback address also receives requests of web pages, through the browser. A page whose host name
//! resolves to 127.0.0.1 (DNS rebinding) is recognised by its `Host` header, and a page of another origin by the
//! headers that browsers add.

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{Method, Request, StatusCode};

use super::answer::Refusal;
use crate::report::{INVALID_AUTHORIZATION, PROTOCOL_VIOLATION};

/// Refuses what a page of another site may have sent.
///
/// Where other machines ask, the server has many names. There the password protects it: a browser does not send it for a
/// page of another name.
pub(super) fn check(request: &Request<Incoming>, is_local: bool) -> Result<(), Refusal> {
    let host = host(request)?;
    if is_local && !is_of_this_machine(host) {
        let message = format!("'{host}' is not a name of this server");
        return Err(forbidden(StatusCode::MISDIRECTED_REQUEST, message)
            .with_hint("use 127.0.0.1, [::1] or localhost, with the port"));
    }
    // What others may fetch without a look at it is harmless, and browsers do not show it to them.
    let is_harmless =
        matches!(*request.method(), Method::GET | Method::HEAD) && !starts_work(request.uri().path());
    if is_harmless || is_own(request.headers(), host) {
        Ok(())
    } else {
        Err(forbidden(
            StatusCode::FORBIDDEN,
            "a web page of another origin may not send this request".to_owned(),
        )
        .with_hint("send it from a program, or from this server's console"))
    }
}

fn starts_work(path: &str) -> bool {
    matches!(path, "/query" | "/subscribe" | "/api/logs")
}

fn forbidden(status: StatusCode, message: String) -> Refusal {
    Refusal::new(status, INVALID_AUTHORIZATION, message)
}

/// The host that is asked, with its port.
fn host(request: &Request<Incoming>) -> Result<&str, Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    let Some(named) = named else {
        let message = "the request must have one header Host";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, PROTOCOL_VIOLATION, message));
    };
    // A request to a proxy names the host in its first line, which counts.
    Ok(request.uri().authority().map_or(named, |authority| authority.as_str()))
}

fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a program has sent it, or a page of this server.
fn is_own(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let origin = headers.get(ORIGIN).map(|origin| origin.as_bytes());
    let is_own_origin = origin.is_none_or(|origin| {
        let rest = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_bytes()))
    });
    is_own_origin && matches!(site, None | Some(b"same-origin" | b"none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known_with_and_without_port() {
        for own in [
            "localhost",
            "LOCALHOST:8087",
            "127.0.0.1",
            "127.0.0.1:8087",
            "127.8.9.10:1",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(is_of_this_machine(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:8087",
            "10.0.0.1",
            "127.0.0.1.evil",
            "::1",
            "[fe80::1]",
        ] {
            assert!(!is_of_this_machine(other), "{other}");
        }
    }

    #[test]
    fn a_page_is_known_by_its_origin_and_by_what_browsers_say() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect::<HeaderMap>()
        };
        let host = "localhost:8087";
        assert!(is_own(&headers(&[]), host));
        assert!(is_own(
            &headers(&[("origin", "http://localhost:8087"), ("sec-fetch-site", "same-origin")]),
            host
        ));
        assert!(!is_own(&headers(&[("origin", "http://localhost:3000")]), host));
        assert!(!is_own(&headers(&[("origin", "null")]), host));
        assert!(!is_own(&headers(&[("sec-fetch-site", "cross-site")]), host));
        assert!(!is_own(&headers(&[("sec-fetch-site", "same-site")]), host));
    }
}
