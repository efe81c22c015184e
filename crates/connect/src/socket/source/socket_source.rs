//! Shared by all sources with sockets, whatever the kind of socket.

use std::time::Duration;

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled, Progress, Source};
use tidemill_core::{Heard, SourceThreads};

use super::client::Client;
use super::listening::{Listener, Listening};
use super::{Decoding, SocketSettings};
use crate::formats::project;

/// The peers of a source.
#[derive(Debug)]
pub(super) enum Peers {
    /// Everyone who connects.
    Listening(Box<Listening>),
    /// A single server.
    Server(Box<Client>),
}

/// A source with sockets.
#[derive(Debug)]
pub(super) struct SocketSource {
    decoding: Decoding,
    schema: SchemaRef,
    peers: Peers,
    is_finite: bool,
}

impl SocketSource {
    /// Checks the settings before it opens the socket.
    pub(super) fn start(
        settings: SocketSettings,
        open: impl FnOnce(SocketSettings) -> Result<Peers, Cause>,
    ) -> Result<SocketSource, Cause> {
        settings.check()?;
        let decoding = Decoding {
            format: settings.format.clone(),
            settings: settings.decoder.clone(),
            line_protocol: settings.line_protocol.clone(),
            leaves_times_open: true,
            projection: None,
            keeps_bad_records: false,
        };
        // Checks that there is such a decoder.
        decoding.decoder()?;
        let schema = SchemaRef::clone(&decoding.settings.schema);
        let is_finite = settings.end_with_last_connection;
        Ok(SocketSource { decoding, schema, peers: open(settings)?, is_finite })
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.decoding.settings.schema, columns)?;
        self.decoding.projection = Some(columns.to_vec());
        Ok(())
    }

    /// The bytes that the connections hold for the query.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.peers {
            Peers::Listening(listening) => listening.held_bytes(),
            Peers::Server(client) => client.held_bytes(),
        }
    }

    pub(super) fn listener(&self) -> Option<&Listener> {
        match &self.peers {
            Peers::Listening(listening) => Some(listening.listener()),
            Peers::Server(_) => None,
        }
    }
}

impl Source for SocketSource {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        match &mut self.peers {
            Peers::Listening(listening) => listening.poll(&self.decoding, &self.schema, wait),
            Peers::Server(client) => client.poll(&self.decoding, &self.schema, wait),
        }
    }

    /// One server sends over one connection at a time, so there is nothing to report about it.
    fn watch_connections(&mut self, silent_after: Option<Duration>) {
        if let Peers::Listening(listening) = &mut self.peers {
            listening.watch_connections(silent_after);
        }
    }

    fn connections(&mut self) -> Vec<Heard> {
        match &mut self.peers {
            Peers::Listening(listening) => listening.connections(),
            Peers::Server(_) => Vec::new(),
        }
    }

    fn threads(&self) -> Option<SourceThreads> {
        Some(match &self.peers {
            Peers::Listening(listening) => listening.threads(),
            Peers::Server(client) => client.threads(),
        })
    }

    fn keep_bad_records(&mut self) {
        self.decoding.keeps_bad_records = true;
    }

    fn faults(&mut self) -> Faults {
        match &mut self.peers {
            Peers::Listening(listening) => listening.faults(),
            Peers::Server(client) => client.faults(),
        }
    }

    /// The rows so far.
    fn progress(&self) -> Progress {
        let done = match &self.peers {
            Peers::Listening(listening) => listening.rows(),
            Peers::Server(client) => client.rows(),
        };
        Progress { done, total: None }
    }

    fn is_finite(&self) -> bool {
        self.is_finite
    }
}
