//! Gateways: where events enter, get their positions, and wait for a cut.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use thiserror::Error;
use tidemill_core::Batch;
use tidemill_core::counters::Counter;

use crate::shared::Shared;

/// Some consecutive events of a gateway.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// For each stream of the source, its rows; positions count the chunk's events from 0.
    pub streams: Vec<Option<Batch>>,
    /// The number of events, those that belong to no stream included.
    pub events: u32,
    /// The event time up to which the gateway is complete after this chunk.
    pub watermark: i64,
    /// When the events arrived, on the engine's clock; `None`: now.
    pub arrived_ns: Option<u64>,
}

/// The query has stopped and takes no more events; [`Running::join`](crate::Running::join) says why.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the query has stopped and takes no more events")]
pub struct Stopped;

/// Where a source's events enter. Dropping it ends the source in order.
pub struct Gateway {
    sender: Option<Sender<Chunk>>,
    shared: Arc<Shared>,
}

/// The engine's end of a gateway.
pub(crate) struct GatewayQueue {
    pub receiver: Receiver<Chunk>,
}

pub(crate) fn gateway(shared: &Arc<Shared>, batches_max: usize) -> (Gateway, GatewayQueue) {
    let (sender, receiver) = bounded(batches_max.max(1));
    (Gateway { sender: Some(sender), shared: Arc::clone(shared) }, GatewayQueue { receiver })
}

impl Gateway {
    /// Takes in some events; waits while the gateway's queue is full.
    ///
    /// # Errors
    /// If the query has stopped.
    pub fn push(&self, mut chunk: Chunk) -> Result<(), Stopped> {
        chunk.arrived_ns.get_or_insert_with(|| self.shared.clock.now_ns());
        let events = u64::from(chunk.events);
        self.sender.as_ref().ok_or(Stopped)?.send(chunk).map_err(|_| Stopped)?;
        self.shared.counters.add(Counter::EventsIn, events);
        self.shared.wake_worker(0);
        Ok(())
    }

    /// The engine's clock, on which arrivals are stamped.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.sender = None;
        self.shared.wake_worker(0);
    }
}
