//! What all connections of a server share, and its limits.

use std::sync::Arc;
use std::time::Duration;

use tidemill_connect::tls::TlsServer;
use tidemill_service::Runtime;

use crate::authentication::LoginAttempts;
use crate::sessions::client_reader::ClientReader;
use crate::sessions::connections::Connections;
use crate::sessions::deadlines::Deadlines;
use crate::sessions::workers::Workers;

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The most sessions at a time.
    pub connections_max: usize,
    /// The longest message that is read.
    pub message_bytes_max: usize,
    /// How long a client may take until its session begins.
    pub startup_timeout: Duration,
    /// How long a client may read nothing of what it is sent. Its statement is then broken off.
    pub unread_max: Duration,
    /// How long the connection then stays, for a client that reads on and learns why.
    pub farewell_max: Duration,
    /// Whether other machines may be served without passwords and encryption.
    pub is_insecure: bool,
    /// How clients are served that want encryption; `None`: it is declined. Other machines are then served with it only, and
    /// so is everybody if clients must show certificates.
    pub tls: Option<Arc<TlsServer>>,
    /// Lets other threads use what is free in the memory of the calling thread, if the program's allocator does not do so by itself.
    /// Threads call it after answers while many threads answer, and when they have nothing to do for a while.
    pub release_memory: Option<fn()>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            connections_max: 100,
            message_bytes_max: 16 * 1024 * 1024,
            startup_timeout: Duration::from_secs(10),
            unread_max: Duration::from_secs(15),
            farewell_max: Duration::from_secs(15),
            is_insecure: false,
            tls: None,
            release_memory: None,
        }
    }
}

/// What all connections share.
pub(crate) struct ServerState {
    pub runtime: Runtime,
    pub options: ServerOptions,
    pub connections: Arc<Connections>,
    pub attempts: LoginAttempts,
    /// Of the statements that may take a limited time.
    pub deadlines: Arc<Deadlines>,
    /// It reads what the clients send.
    pub reader: ClientReader,
    /// They answer what the sessions ask.
    pub workers: Workers,
    /// Whether nobody is asked for a password as long as there are no users.
    pub asks_nobody: bool,
}

impl ServerState {
    /// What strangers do not know, and what stays the same as long as the users do.
    pub fn secret(&self) -> Vec<u8> {
        self.runtime.users().into_iter().next().map(|user| user.verifier.into_bytes()).unwrap_or_default()
    }
}
