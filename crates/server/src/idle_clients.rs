//! One thread waits for all clients that send nothing. A session without a request needs none of its own (decision 0116).

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

use crate::client_stream::ClientStream;

/// How many clients are woken at once.
const EVENTS_MAX: usize = 256;
/// That there is no server any more is noticed at most this late.
const LOOK: Duration = Duration::from_secs(1);

/// The clients that send nothing, each of which is here once at most.
#[derive(Default)]
pub(crate) struct IdleClients(OnceLock<Arc<Waiting>>);

struct Waiting {
    registry: Registry,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    last: usize,
    waiting: HashMap<Token, IdleClient>,
}

struct IdleClient {
    stream: Arc<ClientStream>,
    /// What is done when it sends something.
    then: Box<dyn FnOnce(Arc<ClientStream>) + Send>,
}

impl IdleClients {
    /// Waits until a client sends something, or its connection ends; then does something on the thread that waits. It must not
    /// take long.
    ///
    /// # Errors
    /// If the thread cannot be started, or the system cannot wait for one more.
    pub fn wait(
        &self,
        stream: Arc<ClientStream>,
        then: impl FnOnce(Arc<ClientStream>) + Send + 'static,
    ) -> io::Result<()> {
        self.waiting()?.add(IdleClient { stream, then: Box::new(then) })
    }

    fn waiting(&self) -> io::Result<&Waiting> {
        if self.0.get().is_none() {
            let poll = Poll::new()?;
            let waiting =
                Arc::new(Waiting { registry: poll.registry().try_clone()?, clients: Mutex::default() });
            let watched = Arc::downgrade(&waiting);
            // Of two that begin at the same time, the second one's thread ends at once.
            if self.0.set(waiting).is_ok() {
                thread::Builder::new().name("idle clients".into()).spawn(move || watch(poll, &watched))?;
            }
        }
        self.0.get().map(Arc::as_ref).ok_or_else(|| io::Error::other("nobody waits for clients"))
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, client: IdleClient) -> io::Result<()> {
        // Locked until it is there: it may be woken at once.
        let mut clients = self.lock();
        clients.last += 1;
        let token = Token(clients.last);
        let socket = client.stream.socket().as_raw_fd();
        self.registry.register(&mut SourceFd(&socket), token, Interest::READABLE)?;
        clients.waiting.insert(token, client);
        Ok(())
    }

    fn wake(&self, token: Token) {
        let Some(client) = self.lock().waiting.remove(&token) else { return };
        let socket = client.stream.socket().as_raw_fd();
        // It is open as long as the stream is there.
        let _ = self.registry.deregister(&mut SourceFd(&socket));
        (client.then)(client.stream);
    }
}

/// Waits as long as there is a server.
fn watch(mut poll: Poll, waiting: &Weak<Waiting>) {
    let mut events = Events::with_capacity(EVENTS_MAX);
    loop {
        let polled = poll.poll(&mut events, Some(LOOK));
        let Some(waiting) = waiting.upgrade() else { return };
        match polled {
            Ok(()) => events.iter().for_each(|event| waiting.wake(event.token())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "clients that send nothing cannot be waited for");
                thread::sleep(LOOK);
            }
        }
    }
}
