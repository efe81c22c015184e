//! Requests of web pages. A browser on this machine reaches servers at the loopback address for any page that it shows: a page
//! whose host name resolves to 127.0.0.1 (DNS rebinding) is recognised by its `Host` header, and a page of another
//! origin by the headers that browsers add.

use hyper::header::{HeaderMap, ORIGIN};

/// Returns whether a `Host` names this machine over its loopback interface, with or without a port.
pub fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns whether a program has sent a request, or a page of the server that it is sent to, rather than a page of another
/// origin. `host` is the server as the request names it.
pub fn is_own(headers: &HeaderMap, host: &str) -> bool {
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
