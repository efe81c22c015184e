//! What a session of a server is doing, and how others end it.

use std::net::SocketAddr;
use std::time::SystemTime;

/// Of a longer statement, the beginning is shown.
const STATEMENT_CHARACTERS_MAX: usize = 1024;

/// What a session is doing.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// Its number, by which it is ended.
    pub process: i32,
    pub user: String,
    pub application: String,
    pub client_address: SocketAddr,
    /// The address at which it has reached this server.
    pub server_address: SocketAddr,
    /// Whether its connection is encrypted.
    pub is_encrypted: bool,
    pub began: SystemTime,
    /// What it executes, or has executed last.
    pub statement: String,
    /// Since when it executes it, or has nothing to do.
    pub since: SystemTime,
    pub is_active: bool,
}

impl Activity {
    /// The address of its client, without the port.
    pub fn client(&self) -> String {
        self.client_address.ip().to_canonical().to_string()
    }

    /// It executes a statement from now on.
    pub fn execute(&mut self, statement: &str) {
        self.statement = statement.chars().take(STATEMENT_CHARACTERS_MAX).collect();
        (self.since, self.is_active) = (SystemTime::now(), true);
    }

    /// It waits for its client from now on.
    pub fn rest(&mut self) {
        (self.since, self.is_active) = (SystemTime::now(), false);
    }

    /// How its state is called in PostgreSQL.
    pub fn state(&self) -> &'static str {
        if self.is_active { "active" } else { "idle" }
    }
}

/// How a session is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What it waits for is cancelled; the session continues.
    Statement,
    /// It is told, and closed.
    Session,
}
