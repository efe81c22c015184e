//! Listens, accepts connections, and reads each on its own thread.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use rustls::ServerConfig;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled};
use tidemill_core::{Heard, SourceThreads};
use tracing::debug;

use super::client_token::{KnownToken, check_token, named};
use super::connection::{Socket, spawn};
use super::connection_queue::ConnectionQueue;
use super::connection_reader::{Connection, EndNotifier};
use super::decoding_threads::DecodingThreads;
use super::queue_room::QueueRoom;
use super::read_permits::ReadPermits;
use super::{Decoding, SocketSettings};
use crate::descriptor_reserve::{self, RESERVE_PAUSE};
use crate::quotas::{ClientQuota, ClientQuotas, QuotaHolder};
use crate::tls::{TlsServer, failure};
use crate::tokens::{TokenOwner, Tokens};

/// How often it checks for new connections while no rows come.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(10);
/// The most connections that are accepted before checking for rows.
const ACCEPTED_AT_ONCE: usize = 256;
/// A connection over which nothing ever came may be closed in favour of another after this time.
const NEVER_SENT_FOR_ANOTHER: Duration = Duration::from_secs(1);
/// How often it checks for connections that have fallen silent.
const SILENCE_INTERVAL: Duration = Duration::from_millis(100);
/// How often it checks whether tokens have changed.
const TOKEN_INTERVAL: Duration = Duration::from_millis(500);
/// How long to pause after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A listening socket that does not block.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// A connection, and the address of the other side, if it has one.
    fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().map(|(stream, peer)| (Socket::Tcp(stream), Some(peer)))
            }
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| (Socket::Unix(stream), None)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// An accepted connection and the thread that reads it.
#[derive(Debug)]
struct Reader {
    /// To close the connection.
    handle: Arc<Socket>,
    thread: JoinHandle<()>,
    permits: Arc<ReadPermits>,
    /// The name of the connection in messages.
    name: String,
    /// The other side's address; `None` for a Unix socket.
    client: Option<IpAddr>,
    /// The thread that decodes what it reads.
    decoding_thread: usize,
    /// What it has shown, once it has.
    token: Arc<OnceLock<KnownToken>>,
    /// How often the tokens had changed when its own was looked at last.
    checked_at: Option<u64>,
    /// When it became known to be silent.
    silent_since: Option<Instant>,
    /// Whether it was closed in favour of another; its thread is about to end.
    is_closed: bool,
}

impl Reader {
    /// Nothing more is read, and nothing that has come is waited for. Whoever waits for room must be woken.
    fn close(&mut self) {
        self.is_closed = true;
        self.permits.close();
        self.handle.close();
    }
}

/// A listening socket and its connections.
#[derive(Debug)]
pub(super) struct Listening {
    listener: Listener,
    /// The address or path, for messages.
    place: String,
    settings: SocketSettings,
    tls: Option<TlsServer>,
    tokens: Arc<Tokens>,
    intake: ConnectionQueue,
    room: Arc<QueueRoom>,
    quotas: Option<Arc<ClientQuotas>>,
    threads: SourceThreads,
    decoding_threads: DecodingThreads,
    readers: BTreeMap<u64, Reader>,
    accepted: u64,
    accept_from: Instant,
    /// Whether the process had too few descriptors for another connection when that was checked last.
    is_short_of_descriptors: bool,
    /// A connection over which nothing has come for this long counts as silent.
    silent_after: Option<Duration>,
    silence_looked_for: Instant,
    tokens_looked_at: Instant,
}

impl Listening {
    pub(super) fn new(
        listener: Listener,
        place: String,
        settings: SocketSettings,
        tls: Option<TlsServer>,
        tokens: Tokens,
    ) -> Listening {
        let (room, threads) = (QueueRoom::new(settings.queue_bytes), SourceThreads::default());
        Listening {
            listener,
            tls,
            tokens: Arc::new(tokens),
            place,
            intake: ConnectionQueue::new(settings.stamping()),
            decoding_threads: DecodingThreads::new(Arc::clone(&room), threads.clone()),
            threads,
            room,
            quotas: ClientQuotas::new(settings.quotas).map(Arc::new),
            settings,
            readers: BTreeMap::new(),
            accepted: 0,
            accept_from: Instant::now(),
            is_short_of_descriptors: false,
            silent_after: None,
            silence_looked_for: Instant::now(),
            tokens_looked_at: Instant::now(),
        }
    }

    pub(super) fn poll(
        &mut self,
        decoding: &Decoding,
        schema: &SchemaRef,
        wait: Duration,
    ) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        loop {
            self.accept(decoding)?;
            let tick = until.min(Instant::now() + ACCEPT_INTERVAL);
            let rows = self.intake.take(schema, tick)?;
            self.join_done();
            self.look_for_silence();
            self.close_longest_records();
            self.close_unknown();
            if let Some(rows) = rows {
                return Ok(Polled::Rows(rows));
            }
            let may_end = self.settings.end_with_last_connection && !self.intake.holds_rows();
            if may_end && self.accepted > 0 && self.readers.is_empty() {
                // Someone may have connected meanwhile.
                self.accept(decoding)?;
                if self.readers.is_empty() {
                    return Ok(Polled::Ended);
                }
            }
            if Instant::now() >= until {
                return Ok(Polled::Nothing);
            }
        }
    }

    /// Accepts all waiting connections.
    fn accept(&mut self, decoding: &Decoding) -> Result<(), Cause> {
        for _ in 0..ACCEPTED_AT_ONCE {
            if Instant::now() < self.accept_from || self.is_short_of_descriptors && !self.has_descriptors() {
                break;
            }
            match self.listener.accept() {
                Ok((socket, peer)) => {
                    self.add(socket, peer, decoding)?;
                    self.has_descriptors();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    // Those who wait are accepted later.
                    self.accept_from = Instant::now() + ACCEPT_PAUSE;
                    self.intake.add_fault(format!(
                        "{}: no connections are accepted for one second: {error}; close connections, or raise \
                         the limit (ulimit -n)",
                        self.place
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether the process has descriptors for another connection. If not, those who wait are accepted later.
    fn has_descriptors(&mut self) -> bool {
        let is_short = !descriptor_reserve::is_left(&self.listener);
        if is_short {
            self.accept_from = Instant::now() + RESERVE_PAUSE;
            if !self.is_short_of_descriptors {
                self.intake.add_fault(descriptor_reserve::missing(&self.place));
            }
        }
        self.is_short_of_descriptors = is_short;
        !is_short
    }

    fn add(&mut self, socket: Socket, peer: Option<SocketAddr>, decoding: &Decoding) -> Result<(), Cause> {
        let number = self.accepted + 1;
        let name = match peer {
            Some(peer) => format!("tcp peer {peer}"),
            None => format!("{}, connection {number}", self.place),
        };
        let client = peer.map(|peer| peer.ip());
        let of_client = self.readers.values().filter(|reader| !reader.is_closed && reader.client == client);
        if client.is_some() && of_client.count() >= self.settings.connections_per_client {
            socket.close();
            self.intake.add_fault(format!(
                "{name}: refused because this client has {} connections (connections_per_client); close some",
                self.settings.connections_per_client
            ));
            return Ok(());
        }
        let open = self.readers.values().filter(|reader| !reader.is_closed).count();
        if open >= self.settings.connections_max && !self.close_idlest() {
            socket.close();
            self.intake.add_fault(format!(
                "{name}: refused because {} connections are open; close some",
                self.settings.connections_max
            ));
            return Ok(());
        }
        let (decoding_thread, decoder) = self.decoding_threads.assign(decoding, &self.intake.sender())?;
        let label = name.clone();
        let quotas = self.quotas.clone();
        let token = Arc::<OnceLock<KnownToken>>::default();
        let known = Arc::clone(&token);
        let (permits, tokens) = (ReadPermits::new(), Arc::clone(&self.tokens));
        let of_thread = Arc::clone(&permits);
        let (tls, idle_timeout) = (self.tls.as_ref().map(TlsServer::config), self.settings.idle_timeout);
        let started = socket.prepare(self.settings.idle_timeout).and_then(|()| {
            let handle = Arc::new(socket.try_clone()?);
            let of_reader = Arc::clone(&handle);
            let thread = spawn(&self.threads, number, move || {
                // Created here, on the new thread: the polling thread must not wait for itself.
                let done = EndNotifier { number, decoder };
                let socket = match tls {
                    None => socket,
                    // Not in the thread that accepts: a sender may take its time.
                    Some(config) => match encrypted(socket, config, idle_timeout) {
                        Ok(socket) => socket,
                        Err(reason) => return done.tell(format!("{label}: closed: {reason}")),
                    },
                };
                let (socket, token) = match check_token(socket, &tokens, idle_timeout) {
                    Ok(checked) => checked,
                    Err(reason) => {
                        of_reader.close();
                        return done.tell(format!("{label}: closed: {reason}"));
                    }
                };
                let holder = client.map(|client| QuotaHolder::of(&token.name, client));
                let quota = quotas.zip(holder).map(|(quotas, holder)| ClientQuota { quotas, holder });
                let (permits, label) = (of_thread, named(&label, &token.name));
                let _ = known.set(token);
                Connection { socket, handle: of_reader, name: &label, done: &done, permits, quota }
                    .read(|_| ());
            })?;
            let name = name.clone();
            Ok(Reader {
                handle,
                thread,
                permits,
                name,
                client,
                decoding_thread,
                token,
                checked_at: None,
                silent_since: None,
                is_closed: false,
            })
        });
        match started {
            Ok(reader) => {
                debug!(connection = number, name, "a connection is open");
                self.accepted = number;
                self.readers.insert(number, reader);
                self.intake.hear(Heard::Opened(number));
            }
            Err(error) => {
                self.decoding_threads.release(decoding_thread);
                self.intake.add_fault(format!("{name}: closed because it could not be read: {error}"));
            }
        }
        Ok(())
    }

    /// Closes the connection over which nothing has come for the longest, if that is long enough. One over which nothing
    /// ever came goes first, and sooner.
    fn close_idlest(&mut self) -> bool {
        let enough = self.settings.idle_for_another;
        let candidate = |(number, reader): (&u64, &Reader)| {
            let since = reader.permits.silent_since().filter(|_| !reader.is_closed)?;
            let has_sent = reader.permits.has_read();
            let enough = if has_sent { enough } else { enough.min(NEVER_SENT_FOR_ANOTHER) };
            (since.elapsed() >= enough).then_some((has_sent, since, *number))
        };
        let idlest = self.readers.iter().filter_map(candidate).min();
        let Some(reader) = idlest.and_then(|(.., number)| self.readers.get_mut(&number)) else {
            return false;
        };
        debug!(listener = self.place, "the idlest connection is closed, because another one came");
        reader.is_closed = true;
        reader.handle.close();
        true
    }

    /// Records whose end does not come hold room that no progress of the query frees. If they take too much of it, the
    /// longest ones make room.
    fn close_longest_records(&mut self) {
        let most = self.room.bytes_max() / 2;
        loop {
            let held = self.readers.values().filter(|reader| !reader.is_closed);
            let held: usize = held.map(|reader| reader.permits.incomplete_bytes()).sum();
            if held <= most {
                return;
            }
            let open = self.readers.values_mut().filter(|reader| !reader.is_closed);
            let Some(longest) = open.max_by_key(|reader| reader.permits.incomplete_bytes()) else { return };
            self.intake.add_fault(format!(
                "{}: closed in the middle of a record, of which {} bytes have come: the connections hold {held} bytes \
                 of incomplete records, and may hold {most} (half of queue); end every line with a newline",
                longest.name,
                longest.permits.incomplete_bytes()
            ));
            longest.close();
            self.room.wake_all();
        }
    }

    /// Closes connections whose token has gone from the file, or is not for this source any more.
    fn close_unknown(&mut self) {
        if self.tokens_looked_at.elapsed() < TOKEN_INTERVAL || matches!(*self.tokens, Tokens::NotNeeded) {
            return;
        }
        self.tokens_looked_at = Instant::now();
        let changes = self.tokens.changes();
        for reader in self.readers.values_mut().filter(|reader| !reader.is_closed) {
            let Some(KnownToken { token, name }) = reader.token.get() else { continue };
            if reader.checked_at.replace(changes) == Some(changes) {
                continue;
            }
            if !matches!(self.tokens.owner_of(Some(token)), TokenOwner::Somebody(_)) {
                let text = "closed, because its token is not known any more, or not for this source";
                self.intake.add_fault(format!("{}: {text}", named(&reader.name, name)));
                reader.close();
                self.room.wake_all();
            }
        }
    }

    fn join_done(&mut self) {
        for number in self.intake.take_done() {
            if let Some(reader) = self.readers.remove(&number) {
                // It has reported that it is done, so this does not wait.
                let _ = reader.thread.join();
                self.decoding_threads.release(reader.decoding_thread);
                debug!(connection = number, listener = self.place, "a connection has ended");
            }
        }
    }

    /// Reports connections over which nothing has come for long enough, once per silence.
    fn look_for_silence(&mut self) {
        let Some(silent_after) = self.silent_after else { return };
        if self.silence_looked_for.elapsed() < SILENCE_INTERVAL.min(silent_after) {
            return;
        }
        self.silence_looked_for = Instant::now();
        for (number, reader) in &mut self.readers {
            let since = reader.permits.silent_since().filter(|since| since.elapsed() >= silent_after);
            if since.is_some() && since != reader.silent_since {
                self.intake.hear(Heard::Silent(*number));
            }
            reader.silent_since = since;
        }
    }

    pub(super) fn watch_connections(&mut self, silent_after: Option<Duration>) {
        self.silent_after = silent_after;
        self.intake.listen();
    }

    pub(super) fn connections(&mut self) -> Vec<Heard> {
        self.intake.take_heard()
    }

    pub(super) fn threads(&self) -> SourceThreads {
        self.threads.clone()
    }

    pub(super) fn faults(&mut self) -> Faults {
        self.intake.take_faults()
    }

    pub(super) fn rows(&self) -> u64 {
        self.intake.rows()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.room.held_bytes()
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }
}

/// Shakes hands with a sender.
fn encrypted(
    socket: Socket,
    config: Arc<ServerConfig>,
    idle_timeout: Option<Duration>,
) -> Result<Socket, String> {
    let accepted = socket.accept_tls(config).and_then(|socket| socket.prepare(idle_timeout).map(|()| socket));
    accepted.map_err(|error| failure(&error).unwrap_or_else(|| format!("the TLS handshake failed: {error}")))
}

impl Drop for Listening {
    /// Closes all connections and waits for their threads.
    fn drop(&mut self) {
        self.intake.shut();
        self.readers.values_mut().for_each(Reader::close);
        self.room.wake_all();
        for (_, reader) in std::mem::take(&mut self.readers) {
            let _ = reader.thread.join();
        }
        self.decoding_threads.join();
    }
}
