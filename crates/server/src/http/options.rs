//! The limits of the HTTP side.

use std::sync::Arc;
use std::time::Duration;

use tidemill_connect::tls::TlsServer;

use crate::log::RecentLog;

/// The limits of the HTTP side of a server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The most connections at a time. A further one takes the place of the one that has kept the server waiting for the
    /// longest; if the server waits for none, it is told so, and closed.
    pub connections_max: usize,
    /// How long a client may take to send the header of a request, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// The largest header of a request.
    pub head_bytes_max: usize,
    /// How long a client may read nothing of an answer.
    pub write_timeout: Duration,
    /// How long rows of an answer may wait for their client. Less than `write_timeout`, so that who reads on learns why
    /// nothing more comes.
    pub unread_max: Duration,
    /// The most questions (`/query`, `/subscribe`) that are answered at a time.
    pub questions_max: usize,
    /// The longest statement.
    pub statement_bytes_max: usize,
    /// The most rows of an answer, unless a request asks for more.
    pub rows_max: u64,
    /// The longest time for an answer, unless a request asks for more.
    pub time_max: Duration,
    /// Whether other machines may be served without passwords and encryption.
    pub is_insecure: bool,
    /// With which certificate HTTPS is spoken; `None`: HTTP, without encryption.
    pub tls: Option<Arc<TlsServer>>,
    /// The log that owners can read; `None`: it is not kept.
    pub log: Option<RecentLog>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            connections_max: 256,
            head_timeout: Duration::from_secs(10),
            head_bytes_max: 16 * 1024,
            write_timeout: Duration::from_secs(30),
            unread_max: Duration::from_secs(15),
            questions_max: 16,
            statement_bytes_max: 1024 * 1024,
            rows_max: 100_000,
            time_max: Duration::from_secs(60),
            is_insecure: false,
            tls: None,
            log: None,
        }
    }
}
