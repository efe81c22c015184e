//! Who is connected, and who goes when there is no room for another: whoever keeps the server waiting.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The most connections at a time that are only told that their client has too many.
const REFUSED_MAX: usize = 64;

/// The open connections of a server.
///
/// ```
/// use std::net::IpAddr;
/// use tidemill_connect::http::Connections;
/// let connections = Connections::new(1, usize::MAX);
/// let client = IpAddr::from([127, 0, 0, 1]);
/// let silent = connections.slot_now(client).unwrap();
/// // Another connection takes the slot of one that has sent nothing.
/// let other = connections.slot_now(client).unwrap();
/// other.passed_on();
/// assert!(connections.slot_now(client).is_none());
/// # drop(silent);
/// ```
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_of_client: usize,
    open: Mutex<Open>,
    /// Told whenever a slot may have become free.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    /// Connections of each client; those that are about to be closed do not count.
    of_client: HashMap<IpAddr, usize>,
    refused: usize,
}

#[derive(Debug)]
struct Connection {
    client: IpAddr,
    turn: Turn,
    close: Arc<Notify>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The client's, since then: a request, or its body, has not come.
    Client(Instant),
    /// The query's: it has a request.
    Query,
    /// The system's: an answer has not left yet.
    Answer,
}

impl Turn {
    fn waiting_since(self) -> Option<Instant> {
        match self {
            Turn::Client(since) => Some(since),
            Turn::Query | Turn::Answer => None,
        }
    }
}

/// The slot of a connection. It is free again when this is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    /// The address of the client.
    pub client: IpAddr,
    /// The client has too many connections: requests are answered with that.
    pub(super) is_refused: bool,
    close: Arc<Notify>,
}

impl Connections {
    /// So many connections at a time, and so many of each client.
    pub fn new(most: usize, most_of_client: usize) -> Arc<Connections> {
        Arc::new(Connections { most, most_of_client, open: Mutex::default(), changed: Notify::new() })
    }

    /// A slot for a new connection, as soon as there is one. `None` if it is to be closed at once.
    pub(super) async fn slot(self: &Arc<Connections>, client: IpAddr) -> Option<ConnectionSlot> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers before it looks, so that no change is missed.
            changed.as_mut().enable();
            match self.lock().admit(client, self.most, self.most_of_client) {
                Admitted::Slot(number, close) => {
                    return Some(ConnectionSlot {
                        connections: Arc::clone(self),
                        number,
                        client,
                        is_refused: false,
                        close,
                    });
                }
                Admitted::Refused(number, close) => {
                    return Some(ConnectionSlot {
                        connections: Arc::clone(self),
                        number,
                        client,
                        is_refused: true,
                        close,
                    });
                }
                Admitted::Nowhere => return None,
                Admitted::Later => {}
            }
            changed.await;
        }
    }

    /// A slot for a new connection; `None` if there is none now.
    pub fn slot_now(self: &Arc<Connections>, client: IpAddr) -> Option<ConnectionSlot> {
        let Admitted::Slot(number, close) = self.lock().admit(client, self.most, self.most_of_client) else {
            return None;
        };
        Some(ConnectionSlot { connections: Arc::clone(self), number, client, is_refused: false, close })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

enum Admitted {
    Slot(u64, Arc<Notify>),
    Refused(u64, Arc<Notify>),
    Nowhere,
    Later,
}

impl Open {
    fn admit(&mut self, client: IpAddr, most: usize, most_of_client: usize) -> Admitted {
        let close = Arc::new(Notify::new());
        self.next += 1;
        let number = self.next;
        if self.of_client.get(&client).is_some_and(|count| *count >= most_of_client)
            && !self.close_longest_waiting(Some(client))
        {
            if self.refused >= REFUSED_MAX {
                return Admitted::Nowhere;
            }
            self.refused += 1;
            return Admitted::Refused(number, close);
        }
        if self.connections.len() >= most && !self.close_longest_waiting(None) {
            return Admitted::Later;
        }
        let connection = Connection { client, turn: Turn::Client(Instant::now()), close: Arc::clone(&close) };
        self.connections.insert(number, connection);
        *self.of_client.entry(client).or_default() += 1;
        Admitted::Slot(number, close)
    }

    /// Closes the connection that has kept the server waiting for the longest, of the client that has the most.
    fn close_longest_waiting(&mut self, client: Option<IpAddr>) -> bool {
        let waiting = self.connections.iter().filter_map(|(number, connection)| {
            let since = connection
                .turn
                .waiting_since()
                .filter(|_| client.is_none_or(|own| own == connection.client))?;
            let of_client = self.of_client.get(&connection.client).copied().unwrap_or_default();
            Some(((of_client, std::cmp::Reverse(since)), *number))
        });
        let Some((_, number)) = waiting.max() else { return false };
        if let Some(connection) = self.remove(number) {
            connection.close.notify_one();
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        if let Some(count) = self.of_client.get_mut(&connection.client) {
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&connection.client);
            }
        }
        Some(connection)
    }
}

impl ConnectionSlot {
    /// A request has begun; its body may still have to come.
    pub fn requested(&self) {
        self.pass_to(Turn::Client(Instant::now()));
    }

    /// The query has the request.
    pub fn passed_on(&self) {
        self.pass_to(Turn::Query);
    }

    /// There is an answer.
    pub fn answered(&self) {
        self.pass_to(Turn::Answer);
    }

    /// Everything that was to be written has left. If that was an answer, the server waits for the next request.
    pub fn flushed(&self) {
        if self.connections.lock().connections.get(&self.number).is_some_and(|own| own.turn == Turn::Answer) {
            self.pass_to(Turn::Client(Instant::now()));
            // Another one may take its slot now.
            self.connections.changed.notify_one();
        }
    }

    fn pass_to(&self, turn: Turn) {
        if let Some(connection) = self.connections.lock().connections.get_mut(&self.number) {
            connection.turn = turn;
        }
    }

    /// Waits until the connection is to be closed in favour of another.
    pub async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        if self.is_refused {
            open.refused -= 1
        } else {
            drop(open.remove(self.number))
        }
        drop(open);
        self.connections.changed.notify_one();
    }
}
