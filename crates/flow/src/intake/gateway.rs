//! Gateways, where events enter, receive their positions, and wait for a cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::{DataType, SchemaRef};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use parking_lot::Mutex;
use thiserror::Error;
use tidemill_core::Batch;
use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_plan::SourcePlan;

use super::held_back::HeldBack;
use super::pool_entry::PoolEntry;
use crate::error::Failure;
use crate::run_state::RunState;

/// Consecutive events of a gateway.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// For each stream of the source, its rows; positions count the chunk's events from 0.
    pub streams: Vec<Option<Batch>>,
    /// The number of events, including those that belong to no stream.
    pub events: u32,
    /// The event time up to which the gateway is complete after this chunk.
    pub watermark: i64,
    /// When the events arrived, on the engine's clock; `None`: now.
    pub arrived_ns: Option<u64>,
    /// Whether the gateway counts as idle after this chunk: until its next chunk it does not hold back the watermark.
    pub idle: bool,
}

impl Chunk {
    /// The first `events` events, and the remaining ones; `None` if there are none. The watermark of a chunk holds only
    /// at its end, so the first part does not advance it.
    ///
    /// ```
    /// # use tidemill_flow::Chunk;
    /// let chunk = Chunk { streams: vec![None], events: 10, watermark: 7, arrived_ns: None, idle: false };
    /// let (first, rest) = chunk.split_at(4);
    /// assert_eq!((first.unwrap().watermark, rest.unwrap().events), (i64::MIN, 6));
    /// ```
    pub fn split_at(self, events: u32) -> (Option<Chunk>, Option<Chunk>) {
        if self.events <= events {
            return (Some(self), None);
        }
        if events == 0 {
            return (None, Some(self));
        }
        let mut first = Chunk { streams: Vec::new(), events, watermark: i64::MIN, idle: false, ..self };
        let mut rest = Chunk {
            streams: Vec::new(),
            events: self.events - events,
            watermark: self.watermark,
            arrived_ns: self.arrived_ns,
            idle: self.idle,
        };
        for batch in self.streams {
            let (before, after) = match batch {
                None => (None, None),
                Some(batch) => {
                    let at = batch.positions.partition_point(|position| *position < events);
                    let mut after = batch.slice(at, batch.len());
                    after.positions = after.positions.iter().map(|position| position - events).collect();
                    (Some(batch.slice(0, at)), Some(after))
                }
            };
            first.streams.push(before);
            rest.streams.push(after);
        }
        (Some(first), Some(rest))
    }
}

/// The query has stopped and accepts no more events; [`Running::join`](crate::Running::join) says why.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the query has stopped and accepts no more events")]
pub struct Stopped;

/// Where a source's events enter. Dropping it ends the source normally.
pub struct Gateway {
    source: SourcePlan,
    sender: Option<Sender<Chunk>>,
    left: Arc<AtomicBool>,
    run_state: Arc<RunState>,
    /// Disconnected by the [`Interrupt`].
    interrupted: Receiver<()>,
    interrupt: Interrupt,
    held_back: HeldBack,
}

/// Makes a push that waits for room return, from another thread: [`Gateway::interrupt`].
#[derive(Clone)]
pub struct Interrupt(Arc<Mutex<Option<Sender<()>>>>);

impl Interrupt {
    /// From now on, a push into the gateway that finds no room returns [`Stopped`], and its chunk is not taken in.
    pub fn raise(&self) {
        self.0.lock().take();
    }
}

/// The engine's end of a gateway.
pub(crate) struct GatewayQueue {
    pub receiver: Receiver<Chunk>,
    /// Whether the source ends without completing its event time.
    pub left: Arc<AtomicBool>,
}

pub(crate) fn gateway(
    source: &SourcePlan,
    run_state: &Arc<RunState>,
    batches_max: usize,
) -> (Gateway, GatewayQueue) {
    // The same number again is with the cutter, which takes over all that wait at once.
    let (sender, receiver) = bounded(batches_max.div_ceil(2));
    let left = Arc::new(AtomicBool::new(false));
    let queue = GatewayQueue { receiver, left: Arc::clone(&left) };
    let (source, run_state) = (source.clone(), Arc::clone(run_state));
    let (raise, interrupted) = bounded(0);
    let interrupt = Interrupt(Arc::new(Mutex::new(Some(raise))));
    let (sender, held_back) = (Some(sender), HeldBack::default());
    (Gateway { source, sender, left, run_state, interrupted, interrupt, held_back }, queue)
}

impl Gateway {
    /// For the threads that read the source, and the one that will push: with the query's priority they are not kept from running by the query's own workers.
    pub fn pool_entry(&self) -> PoolEntry {
        PoolEntry::new(Arc::clone(&self.run_state))
    }

    /// Takes in events; waits while the gateway's queue is full. A chunk that does not fit the source stops the query,
    /// because its rows would be lost or wrong later.
    ///
    /// # Errors
    /// If the query has stopped, or the wait was [interrupted](Gateway::interrupt).
    pub fn push(&self, mut chunk: Chunk) -> Result<(), Stopped> {
        if let Err(reason) = check(&chunk, &self.source.streams) {
            let part = format!("gateway '{}'", self.source.name);
            self.run_state.fail(Failure::Engine { part, cause: Cause::user(reason) });
        }
        if self.run_state.is_stopped() {
            return Err(Stopped);
        }
        chunk.arrived_ns.get_or_insert_with(|| self.run_state.clock.now_ns());
        let events = u64::from(chunk.events);
        self.send(chunk)?;
        self.run_state.counters.add(Counter::EventsIn, events);
        self.run_state.wake_ups.wake(0);
        Ok(())
    }

    fn send(&self, chunk: Chunk) -> Result<(), Stopped> {
        let sender = self.sender.as_ref().ok_or(Stopped)?;
        match sender.try_send(chunk) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(Stopped),
            Err(TrySendError::Full(chunk)) => self.held_back.while_waiting(|| {
                select! {
                    send(sender, chunk) -> sent => sent.map_err(|_| Stopped),
                    recv(self.interrupted) -> _ => Err(Stopped),
                }
            }),
        }
    }

    /// Lets another thread interrupt a push that waits for room.
    ///
    /// ```
    /// # use tidemill_flow::Gateway;
    /// fn hurry(gateway: &Gateway) -> impl FnOnce() + Send + 'static {
    ///     let interrupt = gateway.interrupt();
    ///     move || interrupt.raise()
    /// }
    /// ```
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Ends the source although more could come: what was pushed is processed, but the watermark does not go to the end
    /// of time, so open windows give no results.
    pub fn leave(self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Stops the query: the source cannot continue.
    pub fn fail(&self, cause: Cause) {
        self.run_state.fail(Failure::Engine { part: format!("source '{}'", self.source.name), cause });
    }

    /// How long pushes have waited for room.
    pub fn held_back(&self) -> HeldBack {
        self.held_back.clone()
    }

    /// The name of its source.
    pub fn source(&self) -> &str {
        &self.source.name
    }

    /// The schemas of the source's streams.
    pub fn streams(&self) -> &[SchemaRef] {
        &self.source.streams
    }

    /// The engine's clock, with which arrivals are stamped.
    pub fn now_ns(&self) -> u64 {
        self.run_state.clock.now_ns()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.sender = None;
        self.run_state.wake_ups.wake(0);
    }
}

/// Whether a chunk matches its source's plan; if not, why.
fn check(chunk: &Chunk, planned: &[SchemaRef]) -> Result<(), String> {
    if chunk.streams.len() != planned.len() {
        let (given, planned) = (chunk.streams.len(), planned.len());
        return Err(format!("a chunk has {given} streams, but the source has {planned}"));
    }
    let batches = chunk.streams.iter().zip(planned).enumerate();
    for (stream, (batch, schema)) in
        batches.filter_map(|(i, (batch, schema))| Some((i, (batch.as_ref()?, schema))))
    {
        check_batch(batch, schema, chunk.events).map_err(|reason| format!("stream {stream}: {reason}"))?;
    }
    Ok(())
}

fn check_batch(batch: &Batch, planned: &SchemaRef, events: u32) -> Result<(), String> {
    let given = batch.rows.schema_ref();
    if !Arc::ptr_eq(given, planned) && !types_of(given).eq(types_of(planned)) {
        return Err(format!("its columns are {given}, but the plan says {planned}"));
    }
    if batch.positions.len() != batch.rows.num_rows() || !batch.origins.is_empty() {
        return Err("a batch of a source must have one position for each row, and no origins".into());
    }
    let (positions, after) = (&batch.positions[..], batch.positions.get(1..).unwrap_or_default());
    let ascending = positions.iter().zip(after).fold(true, |all, (position, next)| all & (position <= next));
    match batch.positions.last() {
        _ if !ascending => Err("its positions are not ascending".into()),
        Some(last) if *last >= events => {
            Err(format!("a row has position {last}, but the chunk has {events} events"))
        }
        _ => Ok(()),
    }
}

fn types_of(schema: &SchemaRef) -> impl Iterator<Item = (&DataType, bool)> {
    schema.fields().iter().map(|field| (field.data_type(), field.is_nullable()))
}
