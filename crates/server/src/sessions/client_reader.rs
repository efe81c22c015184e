//! One thread reads what all clients send (decision 0132).

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use parking_lot::{Mutex, MutexGuard};

use crate::sessions::client_stream::ClientStream;

/// How many clients are looked at before the system is asked again which have sent something.
const EVENTS_MAX: usize = 256;
/// How much of one client is read at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// Clients that send nothing are looked for at most this often.
const LOOK: Duration = Duration::from_millis(20);
/// How long the thread pauses if the system cannot tell which clients have sent something.
const PAUSE: Duration = Duration::from_secs(1);
/// Stands for the thread itself. Connections have numbers from 1.
const OWN: Token = Token(0);

/// What becomes of the bytes of a client. Nothing of it may wait: other clients do meanwhile.
pub(crate) trait ReadClient: Send + Sync {
    fn stream(&self) -> &ClientStream;

    /// Whether it is forgotten before it learns that something has come, or that nothing has. Something else may then be added in its place.
    fn is_awaited_once(&self) -> bool;

    /// The client has sent something, or the connection has ended.
    fn read(self: Arc<Self>, buffer: &mut [u8]) -> Reading;

    /// When it is `quiet` if nothing has come since then.
    fn quiet_at(&self, since: Instant) -> Instant;

    /// Nothing has come for some time.
    fn quiet(self: Arc<Self>);
}

/// When a client is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// At once: there may be more.
    AtOnce,
    /// When more arrives, or after `continue_with`.
    Later,
    /// Not any more.
    Never,
}

/// Reads what clients send, on a thread of its own.
#[derive(Clone)]
pub(crate) struct ClientReader(Arc<ReaderState>);

struct ReaderState {
    registry: Registry,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    clients: HashMap<Token, Entry>,
    /// What is read on although nothing has come.
    continuing: Vec<Token>,
    /// When it is looked for clients that send nothing.
    look_at: Option<Instant>,
}

struct Entry {
    client: Arc<dyn ReadClient>,
    /// When something came last.
    since: Instant,
    /// Whether it knows that nothing has come for some time.
    is_quiet: bool,
}

impl ClientReader {
    /// Starts the thread. `begin` is what it does first.
    ///
    /// # Errors
    /// If the thread cannot be started, or the system cannot wait for many clients.
    pub fn start(begin: impl FnOnce() + Send + 'static) -> io::Result<ClientReader> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, OWN)?;
        let shared = Arc::new(ReaderState { registry, waker, state: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("read clients".into()).spawn(move || {
            begin();
            of_thread.run(poll);
        })?;
        Ok(ClientReader(shared))
    }

    /// Reads what a client sends from now on. `process`: the number of its connection.
    ///
    /// # Errors
    /// If the system cannot wait for one more.
    pub fn add(&self, process: i32, client: Arc<dyn ReadClient>) -> io::Result<()> {
        let (token, socket) = (token(process), client.stream().socket().as_raw_fd());
        let since = Instant::now();
        let quiet_at = client.quiet_at(since);
        // Locked until it is there: it may be read at once.
        let mut state = self.0.lock();
        self.0.registry.register(&mut SourceFd(&socket), token, Interest::READABLE)?;
        state.clients.insert(token, Entry { client, since, is_quiet: false });
        if state.look_at.is_none_or(|at| quiet_at < at) {
            state.look_at = Some(quiet_at);
            drop(state);
            self.0.wake();
        }
        Ok(())
    }

    /// Reads on although nothing has come: there is room again.
    pub fn continue_with(&self, process: i32) {
        let mut state = self.0.lock();
        state.continuing.push(token(process));
        if state.continuing.len() == 1 {
            drop(state);
            self.0.wake();
        }
    }

    /// Reads nothing more of a client. Its connection is still open.
    pub fn forget(&self, process: i32) {
        self.0.forget(token(process));
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.0.lock().is_over = true;
        self.0.wake();
    }
}

fn token(process: i32) -> Token {
    Token(usize::try_from(process).unwrap_or_default())
}

impl ReaderState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "the thread that reads what clients send cannot be woken");
        }
    }

    fn forget(&self, token: Token) {
        let mut state = self.lock();
        if let Some(Entry { client, .. }) = state.clients.remove(&token) {
            self.deregister(&*client);
        }
    }

    fn deregister(&self, client: &dyn ReadClient) {
        let socket = client.stream().socket().as_raw_fd();
        // It is open as long as the stream is there.
        let _ = self.registry.deregister(&mut SourceFd(&socket));
    }

    /// What the thread does.
    fn run(&self, mut poll: Poll) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut ready = Vec::new();
        while let Some(wait) = self.wait(&mut ready) {
            let wait = if ready.is_empty() { wait } else { Some(Duration::ZERO) };
            match poll.poll(&mut events, wait) {
                Ok(()) => ready.extend(events.iter().map(|event| event.token())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "the system does not say which clients have sent something");
                    thread::sleep(PAUSE);
                }
            }
            ready.retain(|token| *token != OWN && self.read(*token, &mut buffer));
            self.look();
        }
    }

    /// How long it may be waited for clients; `None`: the thread ends. Adds what is `ready` without them.
    fn wait(&self, ready: &mut Vec<Token>) -> Option<Option<Duration>> {
        let mut state = self.lock();
        ready.append(&mut state.continuing);
        let left = state.look_at.map(|at| at.saturating_duration_since(Instant::now()));
        (!state.is_over).then_some(left)
    }

    /// Reads what a client has sent; whether there may be more.
    fn read(&self, token: Token, buffer: &mut [u8]) -> bool {
        let Some(client) = self.client(token) else { return false };
        let reading = client.read(buffer);
        if reading == Reading::Never {
            self.forget(token);
        }
        reading == Reading::AtOnce
    }

    /// A client that has sent something.
    fn client(&self, token: Token) -> Option<Arc<dyn ReadClient>> {
        let mut state = self.lock();
        let entry = state.clients.get_mut(&token)?;
        entry.since = Instant::now();
        let was_quiet = std::mem::take(&mut entry.is_quiet);
        let (client, quiet_at) = (Arc::clone(&entry.client), entry.client.quiet_at(entry.since));
        if client.is_awaited_once() {
            state.clients.remove(&token);
            self.deregister(&*client);
        } else if was_quiet {
            state.look_at = Some(state.look_at.map_or(quiet_at, |at| at.min(quiet_at)));
        }
        Some(client)
    }

    /// Looks which clients have sent nothing for some time, if it is time for that.
    fn look(&self) {
        self.quiet_clients(Instant::now()).into_iter().for_each(ReadClient::quiet);
    }

    /// Those that have become quiet since it was looked last.
    fn quiet_clients(&self, now: Instant) -> Vec<Arc<dyn ReadClient>> {
        let mut state = self.lock();
        let mut quiet = Vec::new();
        if state.look_at.is_none_or(|at| at > now) {
            return quiet;
        }
        let mut next: Option<Instant> = None;
        state.clients.retain(|_, Entry { client, since, is_quiet }| {
            let quiet_at = client.quiet_at(*since);
            if *is_quiet || quiet_at > now {
                let at = (!*is_quiet).then_some(quiet_at);
                next = [next, at].into_iter().flatten().min();
                return true;
            }
            *is_quiet = true;
            quiet.push(Arc::clone(client));
            if client.is_awaited_once() {
                self.deregister(&**client);
            }
            !client.is_awaited_once()
        });
        state.look_at = next.map(|next| next.max(now + LOOK));
        quiet
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// What a client has sent, or that it sends nothing.
    #[derive(Debug, PartialEq, Eq)]
    enum Seen {
        Bytes(Vec<u8>),
        Quiet,
        End,
    }

    struct Watched {
        stream: ClientStream,
        quiet_after: Duration,
        seen: Mutex<Sender<Seen>>,
    }

    impl Watched {
        fn see(&self, seen: Seen) {
            self.seen.lock().send(seen).unwrap();
        }
    }

    impl ReadClient for Watched {
        fn stream(&self) -> &ClientStream {
            &self.stream
        }

        fn is_awaited_once(&self) -> bool {
            false
        }

        fn read(self: Arc<Self>, buffer: &mut [u8]) -> Reading {
            // Less than there is, so that it is read on.
            match self.stream.read_ready(&mut buffer[..3]) {
                Ok(0) => {
                    self.see(Seen::End);
                    Reading::Never
                }
                Ok(count) => {
                    self.see(Seen::Bytes(buffer[..count].to_vec()));
                    Reading::AtOnce
                }
                Err(_) => Reading::Later,
            }
        }

        fn quiet_at(&self, since: Instant) -> Instant {
            since + self.quiet_after
        }

        fn quiet(self: Arc<Self>) {
            self.see(Seen::Quiet);
        }
    }

    /// A client, and what is seen of it.
    fn client(reader: &ClientReader, process: i32, quiet_after: Duration) -> (TcpStream, Receiver<Seen>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (seen, sees) = channel();
        let stream = ClientStream::new(listener.accept().unwrap().0);
        reader.add(process, Arc::new(Watched { stream, quiet_after, seen: Mutex::new(seen) })).unwrap();
        (client, sees)
    }

    fn bytes(sees: &Receiver<Seen>, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            match sees.recv_timeout(PATIENCE).unwrap() {
                Seen::Bytes(bytes) => all.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    #[test]
    fn all_that_clients_send_is_read_to_the_end() {
        let reader = ClientReader::start(|| {}).unwrap();
        let mut clients: Vec<_> = (1..40).map(|process| client(&reader, process, PATIENCE)).collect();
        for round in 0..3 {
            for (number, (stream, _)) in clients.iter_mut().enumerate() {
                stream.write_all(format!("{round} of client {number:02}").as_bytes()).unwrap();
            }
            for (number, (_, sees)) in clients.iter().enumerate() {
                assert_eq!(bytes(sees, 14), format!("{round} of client {number:02}").into_bytes());
            }
        }
        for (stream, sees) in clients {
            drop(stream);
            assert_eq!(sees.recv_timeout(PATIENCE).unwrap(), Seen::End);
            assert!(sees.recv_timeout(PATIENCE).is_err(), "it is forgotten");
        }
        reader.end();
    }

    #[test]
    fn who_sends_nothing_is_noticed_once_until_something_comes() {
        let reader = ClientReader::start(|| {}).unwrap();
        let (_patient, nothing) = client(&reader, 1, PATIENCE * 10);
        let (mut stream, sees) = client(&reader, 2, Duration::from_millis(30));
        for _ in 0..3 {
            assert_eq!(sees.recv_timeout(PATIENCE).unwrap(), Seen::Quiet);
            assert!(sees.recv_timeout(Duration::from_millis(100)).is_err(), "once");
            stream.write_all(b"abc").unwrap();
            assert_eq!(bytes(&sees, 3), b"abc");
        }
        assert!(nothing.try_recv().is_err());
        reader.end();
    }

    #[test]
    fn a_client_that_is_forgotten_is_not_read() {
        let reader = ClientReader::start(|| {}).unwrap();
        let (mut stream, sees) = client(&reader, 1, PATIENCE);
        stream.write_all(b"abc").unwrap();
        assert_eq!(bytes(&sees, 3), b"abc");
        reader.forget(1);
        // Its stream is gone with it, perhaps.
        let _ = stream.write_all(b"def");
        reader.continue_with(1);
        assert!(sees.recv_timeout(PATIENCE).is_err());
        reader.end();
    }
}
