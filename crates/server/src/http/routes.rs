//! Which path gives what.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use tidemill_service::{QueryReport, QueryState};

use super::answer::{Answer, Refusal, json, not_allowed};
use super::shared::HttpState;
use super::{
    catalog, console, gateways, guard, handshake, journal, logs, metrics, plan, query, status, stores,
    websocket,
};
use crate::report::PROTOCOL_VIOLATION;

/// Answers a request.
pub(super) async fn answer(request: Request<Incoming>, address: IpAddr, shared: &HttpState) -> Answer {
    if let Err(refusal) = guard::check(&request, shared.is_local) {
        return refusal.answer();
    }
    // Whether the process answers is asked by those who have no password.
    if request.uri().path() == "/health" {
        return match *request.method() {
            Method::GET | Method::HEAD => json(StatusCode::OK, &json!({ "status": "ok" })),
            _ => not_allowed("GET, HEAD"),
        };
    }
    let identity = match shared.authentication.check(&request, shared.runtime.get(), address).await {
        Ok(identity) => identity,
        Err(answer) => return answer,
    };
    let path = request.uri().path();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (path, request.method()) {
        ("/subscribe", &Method::GET) if handshake::is_wanted(request.headers()) => {
            return websocket::answer(request, shared, &identity).await;
        }
        ("/query", &Method::POST) | ("/subscribe", &Method::POST | &Method::GET) => {
            return query::answer(request, shared, &identity).await;
        }
        ("/api/logs", &Method::GET | &Method::HEAD) => return logs::answer(&request, shared, &identity),
        ("/api/plan", &Method::GET | &Method::HEAD) => return plan::answer(request.uri().query(), shared),
        ("/api/journal", &Method::GET | &Method::HEAD) => return journal::answer(shared).await,
        ("/api/gateways", &Method::GET | &Method::HEAD) => return gateways::answer(shared).await,
        ("/metrics", &Method::GET | &Method::HEAD) => return metrics::answer(shared).await,
        ("/api/logs" | "/api/plan" | "/api/journal" | "/api/gateways" | "/metrics", _) => {
            return not_allowed("GET, HEAD");
        }
        ("/query", _) => return not_allowed("POST"),
        ("/subscribe", _) => return not_allowed("GET, POST"),
        _ => {}
    }
    let answer: fn(&HttpState) -> Answer = match path {
        "/ready" => ready,
        "/api/status" => |shared| json(StatusCode::OK, &status::json(shared)),
        "/api/catalog" => catalog::answer,
        "/api/stores" => stores::answer,
        _ => return console::file(path).filter(|_| is_read).unwrap_or_else(|| unknown(path)),
    };
    if is_read { answer(shared) } else { not_allowed("GET, HEAD") }
}

fn unknown(path: &str) -> Answer {
    let message = format!("there is nothing at {path}");
    Refusal::new(StatusCode::NOT_FOUND, PROTOCOL_VIOLATION, message)
        .with_hint(
            "the paths are / (the console), /metrics, /health, /ready, /api/status, /api/catalog, /api/stores, \
             /api/plan, /api/journal, /api/gateways, /api/logs, /query, /subscribe",
        )
        .answer()
}

/// Whether all queries of the catalogue have been started and none has failed.
fn ready(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get() else {
        return json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "ready": false, "reason": "queries are being started" }),
        );
    };
    let reports = runtime.reports();
    let names = |state: Option<QueryState>| -> Vec<&str> {
        let some = reports.iter().filter(|report| report.state == state);
        some.map(|report: &QueryReport| report.name.as_str()).collect()
    };
    let (starting, failed) = (names(None), names(Some(QueryState::Failed)));
    let is_ready = starting.is_empty() && failed.is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &json!({ "ready": is_ready, "starting": starting, "failed": failed }))
}
