//! HTTP: what runs, for Prometheus, for programs and for people.
//!
//! One thread speaks HTTP with all clients ([`listener`]). It waits for nothing: what takes time runs on threads of its
//! own. Each request passes the [`guard`] before anything else looks at it.

mod answer;
mod authenticate;
mod catalog;
mod console;
mod gateways;
mod guard;
mod handshake;
mod http_server;
mod journal;
mod listener;
mod logs;
mod metrics;
mod options;
mod parameters;
mod plan;
mod query;
mod routes;
mod shared;
mod status;
mod stores;
mod websocket;

pub use self::http_server::HttpServer;
pub use self::metrics::otlp_exporter::OtlpExporter;
pub use self::options::HttpOptions;
