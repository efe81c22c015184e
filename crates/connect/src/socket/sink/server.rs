//! A socket that sends rows to everyone who connects.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_core::{Cause, CycleOutput, Sink};
use tracing::Span;

use super::address::{Listener, SocketAddress, refuse_table};
use super::reader::{Pushed, SocketReader};
use crate::formats::encode::TextFormat;
use crate::pending::PendingText;
use crate::tls::{TlsServer, TlsServerSettings};

/// How a listening socket serves its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketServerSettings {
    /// CSV (each reader gets the header first) or NDJSON.
    pub format: TextFormat,
    /// Whether it may listen on addresses that other machines can reach.
    pub allow_remote: bool,
    /// The most readers at a time; further ones are disconnected at once.
    pub readers_max: usize,
    /// How many bytes may wait for a reader before it is disconnected as too slow.
    pub buffer_bytes: usize,
    /// How long the first commit with rows waits for a first reader before it continues without one.
    pub first_reader_wait: Duration,
    /// How long readers have at the end of the query to receive what waits for them.
    pub linger: Duration,
    /// TCP: the certificate that readers are shown, and whose certificates they must show; `None`: no TLS. A reader that
    /// does not speak it is cut off; the log says why.
    pub tls: Option<TlsServerSettings>,
}

impl SocketServerSettings {
    /// 64 readers on this machine, with 8 MiB and 5 s each.
    pub fn new(format: TextFormat) -> Self {
        SocketServerSettings {
            format,
            allow_remote: false,
            readers_max: 64,
            buffer_bytes: 8 << 20,
            first_reader_wait: Duration::ZERO,
            linger: Duration::from_secs(5),
            tls: None,
        }
    }
}

/// Sends rows as lines to all readers that are connected, over TCP or a Unix socket.
///
/// A reader receives whole commits, starting with the first one after it has connected. It misses earlier rows, and
/// rows that come while no one is connected go nowhere (they are counted). A reader that is too slow is disconnected
/// when its buffer is full, so a reader never holds up the query. It may have received part of a commit, which it can
/// detect because lines end with a line break. A commit returns when its text waits for each reader, not when they have
/// it: a reader that must not miss rows should read a file. Without TLS, data is not encrypted and anyone who can reach the
/// address can read, so addresses that other machines can reach are refused unless they are allowed.
///
/// ```
/// use std::io::Read;
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_connect::socket::{SocketAddress, SocketServerSettings, SocketServerSink};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::Sink;
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let settings = SocketServerSettings::new(TextFormat::csv());
/// let mut sink = SocketServerSink::listen(&SocketAddress::Tcp("127.0.0.1:0".into()), &schema, &settings)?;
/// let mut reader = std::net::TcpStream::connect(sink.address().to_string())?;
/// while sink.status().readers() == 0 { std::thread::yield_now() }
/// sink.finish()?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "vid\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SocketServerSink {
    address: SocketAddress,
    pending: PendingText,
    settings: SocketServerSettings,
    shared: Arc<ServerState>,
    acceptor: Option<thread::JoinHandle<()>>,
    has_waited: bool,
}

/// What has happened at a listening socket. Cloning is cheap, and any thread can ask.
#[derive(Clone)]
pub struct SocketServerStatus(Arc<ServerState>);

struct ServerState {
    readers: Mutex<Vec<SocketReader>>,
    connected: Condvar,
    is_closing: AtomicBool,
    accepted: AtomicU64,
    refused: AtomicU64,
    slow: AtomicU64,
    vanished: AtomicU64,
    rows_unread: AtomicU64,
}

impl SocketServerStatus {
    /// How many readers are connected. A reader that has gone counts until the next commit with rows.
    pub fn readers(&self) -> usize {
        self.0.lock().len()
    }

    /// How many readers have been connected so far.
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// How many were refused because there were `readers_max`, or because no thread could be started for them.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How many were disconnected because they were too slow.
    pub fn slow(&self) -> u64 {
        self.0.slow.load(Ordering::Relaxed)
    }

    /// How many had gone when there was something to send.
    pub fn vanished(&self) -> u64 {
        self.0.vanished.load(Ordering::Relaxed)
    }

    /// How many rows nobody received because nobody was connected.
    pub fn rows_unread(&self) -> u64 {
        self.0.rows_unread.load(Ordering::Relaxed)
    }
}

impl SocketServerSink {
    /// Listens on the address; TCP port 0 chooses a free port.
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid, is in use, or can be reached by other machines; [`Cause::operation`]
    /// if listening fails otherwise.
    pub fn listen(
        address: &SocketAddress,
        schema: &SchemaRef,
        settings: &SocketServerSettings,
    ) -> Result<SocketServerSink, Cause> {
        refuse_table(&settings.format)?;
        let pending = PendingText::new(schema, settings.format.encoder(schema)?);
        let tls = settings.tls.clone().map(TlsServer::open).transpose()?;
        let listener = address.listen(settings.allow_remote)?;
        let address = listener.address()?;
        let shared = Arc::new(ServerState {
            readers: Mutex::default(),
            connected: Condvar::new(),
            is_closing: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            slow: AtomicU64::new(0),
            vanished: AtomicU64::new(0),
            rows_unread: AtomicU64::new(0),
        });
        let (header, readers_max) = (Arc::<[u8]>::from(pending.header()), settings.readers_max);
        let (accepting, span) = (shared.clone(), Span::current());
        let accept =
            move || span.in_scope(|| accepting.accept_all(&listener, tls.as_ref(), &header, readers_max));
        let acceptor = thread::Builder::new().name("socket-acceptor".into()).spawn(accept)?;
        let (settings, acceptor) = (settings.clone(), Some(acceptor));
        Ok(SocketServerSink { address, pending, settings, shared, acceptor, has_waited: false })
    }

    /// Where it listens.
    pub fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// What has happened so far.
    pub fn status(&self) -> SocketServerStatus {
        SocketServerStatus(self.shared.clone())
    }

    fn close(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_closing.store(true, Ordering::Release);
        // Wakes the acceptor. If no one can connect any more, it may keep sleeping.
        if self.address.connect(true, Duration::from_secs(1)).is_ok() {
            let _ = acceptor.join();
        }
    }
}

impl Sink for SocketServerSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let (shared, settings, has_waited) = (&self.shared, &self.settings, &mut self.has_waited);
        self.pending.take(*cycles.end(), |text, rows| {
            if !text.is_empty() {
                let wait = if *has_waited { Duration::ZERO } else { settings.first_reader_wait };
                *has_waited = true;
                shared.send(text, rows, settings.buffer_bytes, wait);
            }
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.close();
        let readers = std::mem::take(&mut *self.shared.lock());
        let until = Instant::now() + self.settings.linger;
        readers.iter().for_each(SocketReader::end);
        let late = readers.iter().filter(|reader| !reader.wait(until)).count();
        self.shared.slow.fetch_add(late as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for SocketServerSink {
    fn drop(&mut self) {
        self.close();
        self.shared.lock().clear();
    }
}

impl ServerState {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketReader>> {
        self.readers.lock()
    }

    fn accept_all(
        &self,
        listener: &Listener,
        tls: Option<&TlsServer>,
        header: &Arc<[u8]>,
        readers_max: usize,
    ) {
        loop {
            let stream = listener.accept();
            if self.is_closing.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                // Too many open files, or a connection that was gone at once: others may still come.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let mut readers = self.lock();
            if readers.len() >= readers_max {
                // Counted before the connection is closed, so that whoever sees it closed also sees it counted.
                self.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Ok(reader) = SocketReader::start(stream, tls.map(TlsServer::config)) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if !header.is_empty() {
                reader.push(header.clone(), usize::MAX);
            }
            readers.push(reader);
            self.accepted.fetch_add(1, Ordering::Relaxed);
            self.connected.notify_all();
        }
    }

    /// Gives a text to all readers that are connected after `wait`, or as soon as there is one.
    fn send(&self, text: &[u8], rows: u64, buffer_bytes: usize, wait: Duration) {
        let text = Arc::<[u8]>::from(text);
        let mut readers = self.lock();
        self.connected.wait_while_for(&mut readers, |readers| readers.is_empty(), wait);
        readers.retain(|reader| match reader.push(text.clone(), buffer_bytes) {
            Pushed::Waiting => true,
            Pushed::Full => {
                self.slow.fetch_add(1, Ordering::Relaxed);
                false
            }
            Pushed::Gone => {
                self.vanished.fetch_add(1, Ordering::Relaxed);
                false
            }
        });
        if readers.is_empty() {
            self.rows_unread.fetch_add(rows, Ordering::Relaxed);
        }
    }
}
