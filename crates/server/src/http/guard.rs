//! Who may ask: programs of this machine, and pages that this server has given.

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::{Method, Request, StatusCode};
use tidemill_connect::web_pages::{is_of_this_machine, is_own};

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
