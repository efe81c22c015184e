//! UDP: datagrams of whole records; the line end behind the last one is optional.
//!
//! A thread takes datagrams from the system as they come and passes them on in blocks. Datagrams are dropped if all
//! blocks are waiting for the query, or if the system has no room for them. Both are counted and reported as faults.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::SourceThreads;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled, Progress, Source};

use super::Decoding;
use super::client_token::{named, token_of};
use super::tcp::resolve;
use crate::formats::line_protocol::LineProtocolSettings;
use crate::formats::{DecoderSettings, Format, RecordDecoder};
use crate::listen_policy::ListenPolicy;
use crate::tokens::{TokenOwner, Tokens};

/// The largest datagram.
const DATAGRAM_BYTES: usize = 65_536;
/// A block is passed on when it has this many bytes, or nothing more came for [`GATHER_TIME`].
const BLOCK_BYTES: usize = 64 * 1024;
/// How long a datagram waits for others.
const GATHER_TIME: Duration = Duration::from_millis(1);
/// How often the thread checks whether it is still needed.
const TICK: Duration = Duration::from_millis(100);

/// How datagrams are read.
#[derive(Clone, Debug)]
pub struct UdpSettings {
    /// The format of the records, which must be a text format. A CSV has no header.
    pub format: Format,
    /// The columns, and how a CSV is written.
    pub decoder: DecoderSettings,
    /// How line protocol is read; other formats ignore it.
    pub line_protocol: LineProtocolSettings,
    /// The most blocks of at most 128 KiB that wait for the query.
    pub blocks_max: usize,
    /// The token that must be the first line of each datagram; `None`: none, or those of a file.
    pub token: Option<String>,
    /// A file with a name and a token on each line, in place of a single one. It is read again when it changes.
    pub token_file: Option<PathBuf>,
    /// The source's name, to which tokens of a file may be limited.
    pub source: String,
    /// Whether other machines are let in although they need neither a token nor a certificate.
    pub insecure: bool,
}

impl UdpSettings {
    /// With 64 blocks.
    pub fn new(format: Format, decoder: DecoderSettings) -> UdpSettings {
        UdpSettings {
            format,
            decoder,
            line_protocol: LineProtocolSettings::default(),
            blocks_max: 64,
            token: None,
            token_file: None,
            source: String::new(),
            insecure: false,
        }
    }
}

/// Rows of text in datagrams.
///
/// ```
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::formats::{DecoderSettings, Format};
/// use tidemill_connect::socket::{UdpLines, UdpSettings};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::{Polled, Source};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("usage", DataType::Float64, true)]));
/// let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut lines = UdpLines::listen("127.0.0.1:0", false, UdpSettings::new(Format::LineProtocol, decoder))?;
///
/// UdpSocket::bind("127.0.0.1:0")?.send_to(b"cpu usage=1\ncpu usage=2", lines.local_address())?;
/// let Polled::Rows(rows) = lines.poll(Duration::from_secs(10))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 2);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct UdpLines {
    place: String,
    address: SocketAddr,
    decoding: Decoding,
    schema: SchemaRef,
    /// Created with the first poll; until then, columns can be selected.
    decoder: Option<Box<dyn RecordDecoder>>,
    blocks: Receiver<Block>,
    ready: VecDeque<RecordBatch>,
    faults: Faults,
    rows: u64,
    shared: Arc<ReceiverState>,
    /// The number that the system had dropped when it was last asked.
    system_dropped: u64,
    threads: SourceThreads,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct ReceiverState {
    stop: AtomicBool,
    /// Datagrams that were dropped since this was last asked.
    dropped: AtomicU64,
    /// Datagrams without a known token since this was last asked.
    unknown: AtomicU64,
}

impl UdpLines {
    /// Listens at an address such as `127.0.0.1:8089`; port 0 takes any free one. Unless `allow_remote` is set, only
    /// addresses that other machines cannot reach are accepted. With it, a token must be demanded, unless the settings are
    /// [`insecure`](UdpSettings::insecure).
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid or not allowed, or a setting is not supported; [`Cause::operation`] if
    /// it is in use.
    pub fn listen(address: &str, allow_remote: bool, mut settings: UdpSettings) -> Result<UdpLines, Cause> {
        if settings.blocks_max == 0 {
            return Err(Cause::user("blocks_max = 0: choose at least 1"));
        }
        settings.decoder.csv.header = Some(false);
        let decoding = Decoding {
            format: settings.format,
            settings: settings.decoder,
            line_protocol: settings.line_protocol,
            leaves_times_open: false,
            projection: None,
            keeps_bad_records: false,
        };
        let tokens = Tokens::open(settings.token, settings.token_file, &settings.source)?;
        let schema = decoding.decoder()?.schema();
        let is_guarded = !matches!(tokens, Tokens::NotNeeded);
        let socket = bind(address, ListenPolicy { allow_remote, is_guarded, insecure: settings.insecure })?;
        let bound = socket.local_addr()?;
        let (sender, blocks) = sync_channel(settings.blocks_max);
        let shared = Arc::new(ReceiverState::default());
        let of_thread = Arc::clone(&shared);
        let threads = SourceThreads::default();
        let receiver = DatagramReceiver { socket, sender, tokens, shared: of_thread };
        let thread = threads.spawn("udp", move || receiver.run())?;
        Ok(UdpLines {
            place: format!("udp {bound}"),
            address: bound,
            decoding,
            schema,
            decoder: None,
            blocks,
            ready: VecDeque::new(),
            faults: Faults::default(),
            rows: 0,
            shared,
            system_dropped: 0,
            threads,
            thread: Some(thread),
        })
    }

    /// The address it listens at.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Makes only these of the declared columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.decoding.projection = Some(columns.to_vec());
        self.schema = self.decoding.decoder()?.schema();
        Ok(())
    }

    fn decode(&mut self, block: &Block) -> Result<(), Cause> {
        let mut begin = 0;
        for (name, end) in &block.senders {
            self.decode_of(name, &block.bytes[begin..*end])?;
            begin = *end;
        }
        Ok(())
    }

    /// Decodes what the owner of a token has sent.
    fn decode_of(&mut self, name: &str, records: &[u8]) -> Result<(), Cause> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let mut decoder = self.decoding.decoder()?;
                decoder.begin(&self.place);
                self.decoder.insert(decoder)
            }
        };
        decoder.decode(records, &mut self.ready)?;
        let mut faults = decoder.faults();
        if !name.is_empty() {
            let named = named(&self.place, name);
            faults.change_places(|text| *text = text.replacen(&self.place, &named, 1));
        }
        self.faults.merge(faults);
        Ok(())
    }

    /// Counts what was dropped.
    fn add_dropped(&mut self) {
        let unknown = self.shared.unknown.swap(0, Ordering::Relaxed);
        if unknown > 0 {
            let text = format!(
                "{}: {unknown} datagrams were refused: their first line is not a token that is known here and for \
                 this source; send one as the first line of each",
                self.place
            );
            self.faults.merge(Faults { count: unknown, samples: vec![text], ..Faults::default() });
        }
        let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
        self.tell_dropped(dropped, "the query is behind");
        if let Some(all) = dropped_by_system(self.address) {
            self.tell_dropped(all.saturating_sub(self.system_dropped), "the system's buffer was full");
            self.system_dropped = all;
        }
    }

    fn tell_dropped(&mut self, count: u64, reason: &str) {
        if count > 0 {
            let text = format!(
                "{}: {count} datagrams were dropped because {reason}; send less, or use TCP",
                self.place
            );
            self.faults.merge(Faults { count, samples: vec![text], ..Faults::default() });
        }
    }
}

impl Source for UdpLines {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        while self.ready.is_empty() {
            match self.blocks.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(block) => self.decode(&block)?,
                Err(RecvTimeoutError::Timeout) => return Ok(Polled::Nothing),
                Err(RecvTimeoutError::Disconnected) => {
                    let text = format!("{}: receiving failed; start the query again", self.place);
                    return Err(Cause::operation(text));
                }
            }
        }
        let Some(rows) = self.ready.pop_front() else { return Ok(Polled::Nothing) };
        self.rows += rows.num_rows() as u64;
        Ok(Polled::Rows(rows))
    }

    fn threads(&self) -> Option<SourceThreads> {
        Some(self.threads.clone())
    }

    fn keep_bad_records(&mut self) {
        self.decoding.keeps_bad_records = true;
    }

    fn faults(&mut self) -> Faults {
        self.add_dropped();
        std::mem::take(&mut self.faults)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.rows, total: None }
    }

    fn is_finite(&self) -> bool {
        false
    }
}

impl Drop for UdpLines {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It checks every TICK.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for UdpLines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UdpLines").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Records of several datagrams.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// Who has sent them, and up to where; names that follow each other differ.
    senders: Vec<(String, usize)>,
}

impl Block {
    fn add(&mut self, name: String, records: &[u8]) {
        self.bytes.extend_from_slice(records);
        if self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        let end = self.bytes.len();
        match self.senders.last_mut() {
            Some((last, before)) if *last == name => *before = end,
            _ => self.senders.push((name, end)),
        }
    }
}

/// The thread that empties the system's buffer.
struct DatagramReceiver {
    socket: UdpSocket,
    sender: SyncSender<Block>,
    tokens: Tokens,
    shared: Arc<ReceiverState>,
}

impl DatagramReceiver {
    fn run(self) {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let (mut block, mut datagrams) = (Block::default(), 0);
        while !self.shared.stop.load(Ordering::Relaxed) {
            let wait = if block.bytes.is_empty() { TICK } else { GATHER_TIME };
            let received =
                self.socket.set_read_timeout(Some(wait)).and_then(|()| self.socket.recv(&mut datagram));
            let is_quiet = match received {
                Ok(count) => {
                    let Some((name, records)) = self.records(&datagram[..count]) else {
                        self.shared.unknown.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    datagrams += 1;
                    block.add(name, records);
                    false
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    true
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if block.bytes.len() >= BLOCK_BYTES || is_quiet && !block.bytes.is_empty() {
                match self.sender.try_send(std::mem::take(&mut block)) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => {
                        self.shared.dropped.fetch_add(datagrams, Ordering::Relaxed);
                    }
                    Err(TrySendError::Disconnected(_)) => return,
                }
                datagrams = 0;
            }
        }
    }
}

impl DatagramReceiver {
    /// The name that belongs to the token of a datagram, and what stands behind it; `None`: it has none that is known and
    /// for this source.
    fn records<'a>(&self, datagram: &'a [u8]) -> Option<(String, &'a [u8])> {
        if matches!(self.tokens, Tokens::NotNeeded) {
            return Some((String::new(), datagram));
        }
        let end = memchr::memchr(b'\n', datagram).unwrap_or(datagram.len());
        let (line, records) = datagram.split_at(end);
        match self.tokens.owner_of(Some(token_of(line))) {
            TokenOwner::Somebody(name) => Some((name, records.get(1..).unwrap_or_default())),
            TokenOwner::NotHere(_) | TokenOwner::Nobody => None,
        }
    }
}

fn bind(address: &str, policy: ListenPolicy) -> Result<UdpSocket, Cause> {
    let found = resolve(address).map_err(|error| {
        Cause::user(format!("udp '{address}': not a valid address: {error}; write host:port"))
            .with_source(error)
    })?;
    policy.check(&format!("udp {address}"), &found)?;
    UdpSocket::bind(found.as_slice()).map_err(|error| {
        Cause::operation(format!("udp {address}: cannot listen: {error}; choose another port"))
            .with_source(error)
    })
}

/// How many datagrams for this address Linux had no room for so far; `None` if this is unknown.
fn dropped_by_system(address: SocketAddr) -> Option<u64> {
    let table = if address.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    let ending = format!(":{:04X}", address.port());
    let text = std::fs::read_to_string(table).ok()?;
    let of_port = text.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.nth(1)?.ends_with(&ending).then(|| words.last()?.parse::<u64>().ok())?
    });
    Some(of_port.sum::<u64>())
}
