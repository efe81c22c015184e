//! The source of a durable query to which the program pushes: a push returns once its rows are in the journal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidemill_engine::{Cause, Polled, Request, Source};

/// How many pushes wait for the source.
const PUSHES_MAX: usize = 16;

/// What becomes of pushed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// They are in the journal, or were before.
    Safe,
    /// They are not taken in, because this later number of their client was.
    Behind(u64),
}

enum Push {
    Rows {
        rows: RecordBatch,
        request: Option<Request>,
        reply: SyncSender<Outcome>,
    },
    /// No rows are to be expected for now.
    Idle,
}

/// Gives the rows that the program pushes.
pub(crate) struct PushedRows {
    schema: SchemaRef,
    queue: Receiver<Push>,
    is_left: Arc<AtomicBool>,
    /// The number of rows that were given.
    given: u64,
    /// Who waits until this many rows are safe.
    unanswered: VecDeque<(u64, SyncSender<Outcome>, Outcome)>,
}

/// The program's end of [`PushedRows`].
pub(crate) struct Pusher {
    sender: Mutex<Option<SyncSender<Push>>>,
    is_left: Arc<AtomicBool>,
}

/// A source and the program's end of it.
pub(crate) fn pushed_rows(schema: &SchemaRef) -> (PushedRows, Pusher) {
    let (sender, queue) = sync_channel(PUSHES_MAX);
    let is_left = Arc::new(AtomicBool::new(false));
    let pusher = Pusher { sender: Mutex::new(Some(sender)), is_left: Arc::clone(&is_left) };
    let unanswered = VecDeque::new();
    (PushedRows { schema: Arc::clone(schema), queue, is_left, given: 0, unanswered }, pusher)
}

impl Pusher {
    /// Pushes rows and waits until it is known what becomes of them; `None`: the source has ended, or the query has
    /// stopped.
    pub fn push(&self, rows: RecordBatch, request: Option<Request>) -> Option<Outcome> {
        let sender = self.sender.lock().clone()?;
        let (reply, outcome) = sync_channel(1);
        sender.send(Push::Rows { rows, request, reply }).ok()?;
        drop(sender);
        outcome.recv().ok()
    }

    /// Says that no rows are to be expected for now; `None`: the source has ended, or the query has stopped.
    pub fn idle(&self) -> Option<()> {
        let sender = self.sender.lock().clone()?;
        sender.send(Push::Idle).ok()
    }

    /// Ends the source behind the pushes that have begun.
    pub fn end(&self) {
        self.sender.lock().take();
    }

    /// Leaves the source, behind the pushes that have begun, without ending it.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        self.end();
    }
}

impl Source for PushedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        match self.queue.recv_timeout(wait) {
            Ok(Push::Rows { rows, request, reply }) => {
                self.given += rows.num_rows() as u64;
                self.unanswered.push_back((self.given, reply, Outcome::Safe));
                Ok(match request {
                    Some(request) => Polled::Request { rows, request },
                    None => Polled::Rows(rows),
                })
            }
            Ok(Push::Idle) => Ok(Polled::Idle),
            Err(RecvTimeoutError::Timeout) => Ok(Polled::Nothing),
            Err(RecvTimeoutError::Disconnected) if self.is_left.load(Ordering::SeqCst) => Ok(Polled::Left),
            Err(RecvTimeoutError::Disconnected) => Ok(Polled::Ended),
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        while let Some((_, reply, outcome)) = self.unanswered.pop_front_if(|(given, ..)| *given <= rows) {
            // Its thread waits, unless it has panicked.
            let _ = reply.send(outcome);
        }
    }

    fn refuse(&mut self, last: u64) {
        if let Some((_, _, outcome)) = self.unanswered.back_mut() {
            *outcome = Outcome::Behind(last);
        }
    }

    fn is_finite(&self) -> bool {
        // It ends when the program says so. Until then it lives.
        false
    }
}
