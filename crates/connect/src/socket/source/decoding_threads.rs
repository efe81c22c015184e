//! The threads that make rows of what the connections of a source send: a few for all of them. A connection's bytes are
//! decoded by one thread, in the order in which they came.
//!
//! Each thread keeps memory of its own with the allocator, for rows more than for anything else. If every connection
//! decoded its own bytes, hundreds of senders would hold hundreds of times that, even when they are silent.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use tidemill_core::SourceThreads;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::Faults;

use super::Decoding;
use super::connection::{ConnectionMessage, ConnectionRows, NobodyListens, Socket};
use super::queue_room::{QueueRoom, RoomShare};
use super::read_permits::{ReadPermit, ReadPermits};
use super::row_size::bytes_per_byte;
use crate::formats::RecordDecoder;
use crate::tls::failure;

/// The most threads of a source.
const THREADS_MAX: usize = 8;
/// The most inputs that wait for a thread. They have their share of the room, and their connections read no further.
const INPUTS_WAITING: usize = 64;
/// The most buffers that are kept for the next reads.
const SPARE_BUFFERS: usize = 64;

/// What the thread of a connection passes on.
#[derive(Debug)]
pub(super) enum Input {
    /// A connection is open.
    Begin { connection: u64, name: String, handle: Arc<Socket>, permits: Arc<ReadPermits> },
    /// It sent these bytes.
    Bytes { connection: u64, bytes: Vec<u8>, permit: ReadPermit },
    /// It sends no more.
    End { connection: u64, end: InputEnd },
    /// The thread with this number reads no connection any more.
    Done(u64),
    /// Something could not be used.
    Fault(String),
    /// The source cannot continue.
    Failed(Cause),
}

/// Why a connection sends no more.
#[derive(Debug)]
pub(super) enum InputEnd {
    Closed,
    Idle,
    Broken(io::Error),
}

/// Buffers that were used and can be used again.
type SpareBuffers = Mutex<Vec<Vec<u8>>>;

/// The way of a connection's bytes to the thread that decodes them.
#[derive(Clone, Debug)]
pub(super) struct ToDecoder {
    inputs: SyncSender<Input>,
    room: Arc<QueueRoom>,
    spare: Arc<SpareBuffers>,
    bytes_per_byte: usize,
}

impl ToDecoder {
    /// Waits while the thread is behind.
    pub(super) fn send(&self, input: Input) -> Result<(), NobodyListens> {
        self.inputs.send(input).map_err(|_| NobodyListens)
    }

    /// Waits for room for the rows that this many bytes can become.
    pub(super) fn take_room(&self, bytes: usize, is_over: impl Fn() -> bool) -> Option<RoomShare> {
        self.room.take(bytes * self.bytes_per_byte, is_over)
    }

    /// The most bytes of text whose rows have room.
    pub(super) fn text_bytes_max(&self) -> usize {
        self.room.bytes_max() / self.bytes_per_byte
    }

    /// A copy in a buffer that was used before, if there is one.
    pub(super) fn copy(&self, bytes: &[u8]) -> Vec<u8> {
        let spare = self.spare.lock().pop();
        let mut copy = spare.unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        copy
    }
}

/// The threads of a source. They end when nobody passes anything on to them any more.
#[derive(Debug)]
pub(super) struct DecodingThreads {
    room: Arc<QueueRoom>,
    spare: Arc<SpareBuffers>,
    /// All threads of the source.
    of_source: SourceThreads,
    threads: Vec<DecodingThread>,
}

#[derive(Debug)]
struct DecodingThread {
    inputs: SyncSender<Input>,
    thread: JoinHandle<()>,
    connections: usize,
}

impl DecodingThreads {
    /// No threads yet. They will be among those of the source.
    pub(super) fn new(room: Arc<QueueRoom>, of_source: SourceThreads) -> DecodingThreads {
        DecodingThreads { room, spare: Arc::default(), of_source, threads: Vec::new() }
    }

    /// Gives a connection to the thread that has the fewest; returns its index, too.
    pub(super) fn assign(
        &mut self,
        decoding: &Decoding,
        deliveries: &SyncSender<ConnectionMessage>,
    ) -> Result<(usize, ToDecoder), Cause> {
        let most = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let idlest = |threads: &[DecodingThread]| (0..threads.len()).min_by_key(|i| threads[*i].connections);
        let index = match idlest(&self.threads) {
            Some(index) if self.threads[index].connections == 0 || self.threads.len() == most => index,
            _ => {
                let thread = self.start(decoding, deliveries)?;
                self.threads.push(thread);
                self.threads.len() - 1
            }
        };
        let thread = &mut self.threads[index];
        thread.connections += 1;
        let to_decoder = ToDecoder {
            inputs: thread.inputs.clone(),
            room: Arc::clone(&self.room),
            spare: Arc::clone(&self.spare),
            bytes_per_byte: bytes_per_byte(&decoding.settings.schema),
        };
        Ok((index, to_decoder))
    }

    /// A connection of this thread has ended.
    pub(super) fn release(&mut self, index: usize) {
        self.threads[index].connections -= 1;
    }

    /// Waits for the threads. Nobody may pass anything on any more, and the queue must be shut.
    pub(super) fn join(&mut self) {
        for DecodingThread { inputs, thread, .. } in self.threads.drain(..) {
            drop(inputs);
            let _ = thread.join();
        }
    }

    fn start(
        &self,
        decoding: &Decoding,
        deliveries: &SyncSender<ConnectionMessage>,
    ) -> Result<DecodingThread, Cause> {
        let (sender, inputs) = sync_channel(INPUTS_WAITING);
        let (decoding, deliveries) = (decoding.clone(), deliveries.clone());
        let (room, spare) = (Arc::clone(&self.room), Arc::clone(&self.spare));
        let name = format!("socket decoder {}", self.threads.len());
        let thread = self.of_source.spawn(name, move || {
            let deliveries = Deliveries(deliveries);
            let _ = Decoders { decoding, room, spare, deliveries, open: HashMap::new() }.run(&inputs);
        })?;
        Ok(DecodingThread { inputs: sender, thread, connections: 0 })
    }
}

/// Where the rows go. Reports a panic of its thread.
struct Deliveries(SyncSender<ConnectionMessage>);

impl Deliveries {
    /// Waits while the queue is full, which holds back the senders.
    fn send(&self, message: ConnectionMessage) -> Result<(), NobodyListens> {
        self.0.send(message).map_err(|_| NobodyListens)
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.send(ConnectionMessage::Failed(Cause::bug("the decoder of a connection panicked")));
        }
    }
}

/// A connection whose bytes are decoded.
struct OpenConnection {
    name: String,
    handle: Arc<Socket>,
    permits: Arc<ReadPermits>,
    decoder: Box<dyn RecordDecoder>,
    /// Of the last byte: whether the last line is complete.
    in_line: bool,
    /// The room of the record whose end has not come.
    incomplete: RoomShare,
}

/// The decoders of a thread.
struct Decoders {
    decoding: Decoding,
    room: Arc<QueueRoom>,
    spare: Arc<SpareBuffers>,
    deliveries: Deliveries,
    open: HashMap<u64, OpenConnection>,
}

impl Decoders {
    fn run(&mut self, inputs: &Receiver<Input>) -> Result<(), NobodyListens> {
        while let Ok(input) = inputs.recv() {
            match input {
                Input::Begin { connection, name, handle, permits } => {
                    self.begin(connection, name, handle, permits)?;
                }
                Input::Bytes { connection, bytes, permit } => self.decode(connection, bytes, permit)?,
                Input::End { connection, end } => self.end(connection, &end)?,
                Input::Done(thread) => self.deliveries.send(ConnectionMessage::Done(thread))?,
                Input::Fault(text) => self.fault(text)?,
                Input::Failed(cause) => self.deliveries.send(ConnectionMessage::Failed(cause))?,
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        connection: u64,
        name: String,
        handle: Arc<Socket>,
        permits: Arc<ReadPermits>,
    ) -> Result<(), NobodyListens> {
        let mut decoder = match self.decoding.decoder() {
            Ok(decoder) => decoder,
            Err(cause) => return self.deliveries.send(ConnectionMessage::Failed(cause)),
        };
        decoder.begin(&name);
        let incomplete = self.room.empty_share();
        let opened = OpenConnection { name, handle, permits, decoder, in_line: false, incomplete };
        self.open.insert(connection, opened);
        Ok(())
    }

    fn decode(
        &mut self,
        connection: u64,
        bytes: Vec<u8>,
        mut permit: ReadPermit,
    ) -> Result<(), NobodyListens> {
        // What comes after a failure is of no use.
        let Some(open) = self.open.get_mut(&connection) else { return Ok(()) };
        open.in_line = bytes.last() != Some(&b'\n');
        let mut batches = VecDeque::new();
        let decoded = open.decoder.decode(&bytes, &mut batches);
        let incomplete = open.decoder.waiting().map_or(0, |waiting| waiting.bytes as usize);
        open.incomplete.resize(incomplete);
        open.permits.set_incomplete_bytes(incomplete);
        permit.resize(batches.iter().map(RecordBatch::get_array_memory_size).sum());
        self.keep(bytes);
        self.deliver(connection, batches, Some(permit))?;
        self.check(connection, decoded)
    }

    /// The connection has ended: what it sent last counts if it is complete.
    fn end(&mut self, connection: u64, end: &InputEnd) -> Result<(), NobodyListens> {
        let Some(open) = self.open.get_mut(&connection) else { return Ok(()) };
        if open.permits.is_closed() {
            // Whoever closed it has said why.
            self.open.remove(&connection);
            return Ok(());
        }
        let how = match end {
            InputEnd::Closed => "was closed",
            InputEnd::Idle => "was idle for too long",
            InputEnd::Broken(error) => {
                let reason = failure(error).unwrap_or_else(|| error.to_string());
                let fault = format!("{}: reading failed, and what it sent last is lost: {reason}", open.name);
                self.open.remove(&connection);
                return self.fault(fault);
            }
        };
        if open.in_line {
            let fault = format!(
                "{}: the connection {how} in the middle of a line, which was skipped; end every line with a \
                 newline",
                open.name
            );
            self.open.remove(&connection);
            return self.fault(fault);
        }
        let mut batches = VecDeque::new();
        let decoded = open.decoder.finish(&mut batches);
        self.deliver(connection, batches, None)?;
        self.check(connection, decoded)?;
        self.open.remove(&connection);
        Ok(())
    }

    /// Gives up the connection if it cannot be decoded any further.
    fn check(&mut self, connection: u64, decoded: Result<(), Cause>) -> Result<(), NobodyListens> {
        let Err(cause) = decoded else { return Ok(()) };
        let Some(open) = self.open.remove(&connection) else { return Ok(()) };
        open.permits.close();
        open.handle.close();
        match cause.fault {
            // The sender's fault, and others may do better: the query continues without this one.
            Fault::User => self.fault(format!("{}: closed: {}", open.name, cause.message)),
            _ => self.deliveries.send(ConnectionMessage::Failed(cause)),
        }
    }

    fn deliver(
        &mut self,
        connection: u64,
        batches: VecDeque<RecordBatch>,
        permit: Option<ReadPermit>,
    ) -> Result<(), NobodyListens> {
        let permit = permit.map(Arc::new);
        for rows in batches {
            let _permit = permit.clone();
            self.deliveries.send(ConnectionMessage::Rows(ConnectionRows { connection, rows, _permit }))?;
        }
        let faults = self.open.get_mut(&connection).map(|open| open.decoder.faults()).unwrap_or_default();
        if faults.is_empty() { Ok(()) } else { self.deliveries.send(ConnectionMessage::Faults(faults)) }
    }

    fn fault(&self, text: String) -> Result<(), NobodyListens> {
        let mut faults = Faults::default();
        faults.add(text);
        self.deliveries.send(ConnectionMessage::Faults(faults))
    }

    fn keep(&self, bytes: Vec<u8>) {
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_BUFFERS {
            spare.push(bytes);
        }
    }
}
