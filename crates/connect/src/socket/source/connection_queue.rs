//! The queue between the threads of the connections and the query.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidemill_core::Heard;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::connection::{ConnectionMessage, ConnectionRows};
use super::stamping::Stamping;
use crate::formats::BATCH_ROWS;

/// The most waiting deliveries of all connections. Each is the result of one read, or a record of at most 1 MiB.
const QUEUE_DELIVERIES: usize = 64;

/// This many rows form their own batch; copying them together with others costs more than it saves.
const ROWS_ENOUGH: usize = 512;

/// Takes what connections deliver.
#[derive(Debug)]
pub(super) struct ConnectionQueue {
    sender: SyncSender<ConnectionMessage>,
    receiver: Receiver<ConnectionMessage>,
    /// Rows that did not fit into the last batch.
    held: Option<ConnectionRows>,
    faults: Faults,
    rows: u64,
    /// Adds times to points without one, if there can be such points.
    stamping: Option<Stamping>,
    /// The threads that reported to be done since this was last asked.
    done: Vec<u64>,
    /// Events of connections since the last call; `None` if nobody asks for them.
    heard: Option<Vec<Heard>>,
}

impl ConnectionQueue {
    pub(super) fn new(stamping: Option<Stamping>) -> ConnectionQueue {
        let (sender, receiver) = sync_channel(QUEUE_DELIVERIES);
        let faults = Faults::default();
        ConnectionQueue {
            sender,
            receiver,
            held: None,
            faults,
            rows: 0,
            stamping,
            done: Vec::new(),
            heard: None,
        }
    }

    /// Where a connection delivers to.
    pub(super) fn sender(&self) -> SyncSender<ConnectionMessage> {
        self.sender.clone()
    }

    /// The available rows as one batch; waits for the first of them, until the given time. `None` if there are none by
    /// then, or if a thread is done, which may matter to the caller.
    pub(super) fn take(&mut self, schema: &SchemaRef, until: Instant) -> Result<Option<RecordBatch>, Cause> {
        let mut batches = Vec::new();
        let mut rows = 0;
        if let Some(delivered) =
            self.held.take().map_or_else(|| self.wait(schema, until), |delivered| Ok(Some(delivered)))?
        {
            rows += delivered.rows.num_rows();
            batches.push(self.hear_rows(delivered));
        }
        for _ in 0..QUEUE_DELIVERIES {
            if rows == 0 || rows >= ROWS_ENOUGH {
                break;
            }
            let delivery = match self.receiver.try_recv() {
                Ok(delivery) => delivery,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            };
            let Some(delivered) = self.accept(delivery, schema)? else { continue };
            if rows + delivered.rows.num_rows() > BATCH_ROWS {
                self.held = Some(delivered);
                break;
            }
            rows += delivered.rows.num_rows();
            batches.push(self.hear_rows(delivered));
        }
        self.rows += rows as u64;
        match batches.len() {
            0 | 1 => Ok(batches.pop()),
            _ => concat_batches(schema, &batches)
                .map(Some)
                .map_err(|error| Cause::bug(error.to_string()).with_source(error)),
        }
    }

    /// The next rows; `None` if there are none until that time, or a thread is done.
    fn wait(&mut self, schema: &SchemaRef, until: Instant) -> Result<Option<ConnectionRows>, Cause> {
        while self.done.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let delivery = match self.receiver.recv_timeout(left) {
                Ok(delivery) => delivery,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            };
            let delivered = self.accept(delivery, schema)?;
            if delivered.is_some() || left == Duration::ZERO {
                return Ok(delivered);
            }
        }
        Ok(None)
    }

    fn accept(
        &mut self,
        delivery: ConnectionMessage,
        schema: &SchemaRef,
    ) -> Result<Option<ConnectionRows>, Cause> {
        match delivery {
            ConnectionMessage::Rows(mut delivered) => {
                if let Some(stamping) = &mut self.stamping {
                    delivered.rows = stamping.stamp(delivered.rows, schema)?;
                }
                return Ok(Some(delivered).filter(|delivered| delivered.rows.num_rows() > 0));
            }
            ConnectionMessage::Faults(faults) => self.faults.merge(faults),
            ConnectionMessage::Done(thread) => {
                self.done.push(thread);
                self.hear(Heard::Closed(thread));
            }
            ConnectionMessage::Failed(cause) => return Err(cause),
        }
        Ok(None)
    }

    /// Records events of connections from now on.
    pub(super) fn listen(&mut self) {
        self.heard.get_or_insert_default();
    }

    pub(super) fn hear(&mut self, heard: Heard) {
        if let Some(all) = &mut self.heard {
            all.push(heard);
        }
    }

    /// The events of connections since the last call.
    pub(super) fn take_heard(&mut self) -> Vec<Heard> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The rows of a delivery that is taken out; its place becomes free.
    fn hear_rows(&mut self, delivered: ConnectionRows) -> RecordBatch {
        let ConnectionRows { connection, rows, .. } = delivered;
        self.hear(Heard::Rows { connection, rows: rows.num_rows() as u32 });
        rows
    }

    /// Whether it holds rows that [`take`](ConnectionQueue::take) will return.
    pub(super) fn holds_rows(&self) -> bool {
        self.held.is_some()
    }

    /// The threads that are done since this was last asked. All that they delivered has been taken, except for what [is
    /// held](ConnectionQueue::holds_rows).
    pub(super) fn take_done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.done)
    }

    pub(super) fn add_fault(&mut self, text: String) {
        self.faults.add(text);
    }

    pub(super) fn take_faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    /// How many rows were taken.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Accepts nothing more: threads that wait to deliver wake up and end.
    pub(super) fn shut(&mut self) {
        *self = ConnectionQueue {
            faults: std::mem::take(&mut self.faults),
            rows: self.rows,
            ..ConnectionQueue::new(None)
        };
    }
}
