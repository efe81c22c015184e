//! A server: clients of PostgreSQL over a catalogue and its running queries.
//!
//! A [`Server`] listens on an address of this machine and speaks the protocol of PostgreSQL, version 3. Each connection
//! is a [`Session`](tidemill_service::Session) of a [`Runtime`](tidemill_service::Runtime). One thread reads what all clients send, so it is
//! noticed at once when one disconnects. What is asked is executed and answered by a few threads for all sessions; what waits, as within a
//! transaction, keeps its thread, and another one takes over. A client that does not read its rows holds back its own query, and nobody
//! else's.
//!
//! ```
//! use std::net::SocketAddr;
//! use tidemill_server::{Server, ServerOptions};
//! use tidemill_service::Runtime;
//! use tidemill_sql::Planner;
//!
//! let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
//! let server = Server::start(&Runtime::new(Planner::new()), any_port, ServerOptions::default()).unwrap();
//! assert!(server.address().port() > 0);
//! server.stop();
//! ```

mod authentication;
mod exposure;
mod http;
mod log;
mod measured_plan;
mod postgres;
mod report;
mod running;
mod server;
mod sessions;
mod text_rows;

pub use self::http::{HttpOptions, HttpServer, OtlpExporter};
pub use self::log::{RecentLog, RecentLogLayer};
pub use self::server::Server;
pub use self::sessions::server_state::ServerOptions;
