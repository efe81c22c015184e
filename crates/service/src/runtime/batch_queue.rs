//! The queue between a query and the reader of its rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Cause, bytes_of_rows};

use crate::runtime::unread::UnreadRows;

/// Batches that may wait for the reader. The query waits when there are this many.
const BATCHES_MAX: usize = 16;
/// Bytes of rows that may wait for the reader, or one batch if it has more.
const BYTES_MAX: u64 = 4 << 20;

/// Hands batches to a reader. Clones hand them to the same one.
pub(crate) struct BatchSender(Arc<Queue>);

/// Takes batches. Dropping it ends those who wait to hand some over.
pub(crate) struct BatchReceiver(Arc<Queue>);

/// What a reader gets when it waits for a batch.
#[derive(Debug, PartialEq)]
pub(crate) enum ReceiveOutcome {
    Batch(RecordBatch),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    End,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Each with its bytes.
    batches: VecDeque<(RecordBatch, u64)>,
    /// The bytes of all of them.
    unread: UnreadRows,
    senders: usize,
    is_read: bool,
}

/// A queue, with one sender. What waits in it counts as unread.
pub(crate) fn batch_queue(unread: UnreadRows) -> (BatchSender, BatchReceiver) {
    let state = State { batches: VecDeque::new(), unread, senders: 1, is_read: true };
    let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() });
    (BatchSender(Arc::clone(&queue)), BatchReceiver(queue))
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn has_room(&self, bytes: u64) -> bool {
        let has_room = || self.batches.len() < BATCHES_MAX && self.unread.bytes() + bytes <= BYTES_MAX;
        self.batches.is_empty() || has_room()
    }

    /// Takes a batch in, unless the process would hold more than it may.
    fn push(&mut self, batch: RecordBatch, bytes: u64) -> Result<(), Cause> {
        let before = self.unread.bytes();
        self.unread.set(before + bytes);
        if let Err(cause) = self.unread.check() {
            self.unread.set(before);
            return Err(cause);
        }
        self.batches.push_back((batch, bytes));
        Ok(())
    }

    fn pop(&mut self) -> Option<RecordBatch> {
        let (batch, bytes) = self.batches.pop_front()?;
        self.unread.set(self.unread.bytes() - bytes);
        Some(batch)
    }
}

impl BatchSender {
    /// Hands over a batch once there is room for it.
    ///
    /// # Errors
    /// If the reader is gone, or the process holds more than it may.
    pub fn send(&self, batch: RecordBatch) -> Result<(), Cause> {
        let bytes = bytes_of_rows(&batch) as u64;
        let mut state = self.0.lock();
        let waiting = |state: &mut State| state.is_read && !state.has_room(bytes);
        self.0.changed.wait_while(&mut state, waiting);
        if !state.is_read {
            return Err(Cause::operation("the rows are no longer being read"));
        }
        state.push(batch, bytes)?;
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Clone for BatchSender {
    fn clone(&self) -> BatchSender {
        self.0.lock().senders += 1;
        BatchSender(Arc::clone(&self.0))
    }
}

impl Drop for BatchSender {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

impl BatchReceiver {
    /// The next batch, which is waited for as long as this.
    pub fn receive(&self, time: Duration) -> ReceiveOutcome {
        let until = Instant::now() + time;
        let mut state = self.0.lock();
        loop {
            if let Some(batch) = state.pop() {
                drop(state);
                self.0.changed.notify_all();
                return ReceiveOutcome::Batch(batch);
            }
            if state.senders == 0 {
                return ReceiveOutcome::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ReceiveOutcome::Nothing;
            }
            self.0.changed.wait_for(&mut state, left);
        }
    }
}

impl Drop for BatchReceiver {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_read = false;
        state.batches.clear();
        state.unread.set(0);
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tidemill_engine::MemoryBudget;
    use tidemill_engine::arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::runtime::unread::UnreadBytes;

    const LONG: Duration = Duration::from_secs(60);

    fn batch(first: i64, rows: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows));
        RecordBatch::try_from_iter([("value", values)]).unwrap()
    }

    fn queue(limit: u64) -> (BatchSender, BatchReceiver, UnreadBytes) {
        let unread = UnreadBytes::default();
        let (sender, receiver) = batch_queue(UnreadRows::new(&MemoryBudget::new(limit), unread.clone()));
        (sender, receiver, unread)
    }

    #[test]
    fn batches_come_in_order_and_then_the_end() {
        let (sender, receiver, unread) = queue(u64::MAX);
        let other = sender.clone();
        let sending = thread::spawn(move || (0..100).try_for_each(|first| sender.send(batch(first, 1))));
        for first in 0..100 {
            assert_eq!(receiver.receive(LONG), ReceiveOutcome::Batch(batch(first, 1)));
        }
        sending.join().unwrap().unwrap();
        assert_eq!(receiver.receive(Duration::from_millis(1)), ReceiveOutcome::Nothing);
        drop(other);
        assert_eq!(receiver.receive(LONG), ReceiveOutcome::End);
        assert_eq!(unread.get(), 0);
    }

    #[test]
    fn one_large_batch_waits_at_a_time() {
        let (sender, receiver, unread) = queue(u64::MAX);
        // A batch has 8 MB; a second one waits for the first.
        let sending = thread::spawn(move || (0..5).try_for_each(|_| sender.send(batch(0, 1 << 20))));
        let mut most = 0;
        while let ReceiveOutcome::Batch(_) = receiver.receive(LONG) {
            most = most.max(unread.get());
        }
        sending.join().unwrap().unwrap();
        assert!(most <= 8 << 20, "{most}");
    }

    #[test]
    fn a_sender_that_waits_ends_with_its_reader() {
        let (sender, receiver, unread) = queue(u64::MAX);
        let sending = thread::spawn(move || (0..100).try_for_each(|first| sender.send(batch(first, 1))));
        assert_eq!(receiver.receive(LONG), ReceiveOutcome::Batch(batch(0, 1)));
        drop(receiver);
        let ended = sending.join().unwrap().unwrap_err();
        assert!(ended.message.contains("no longer being read"), "{ended}");
        assert_eq!(unread.get(), 0);
    }

    #[test]
    fn the_memory_of_the_process_counts() {
        let (sender, receiver, unread) = queue(1 << 20);
        sender.send(batch(0, 100_000)).unwrap();
        let refused = sender.send(batch(0, 100_000)).unwrap_err();
        assert!(refused.message.contains("1.5 MB"), "{refused}");
        assert_eq!(unread.get(), 800_000, "what is refused is not held");
        assert_eq!(receiver.receive(LONG), ReceiveOutcome::Batch(batch(0, 100_000)));
        assert_eq!(unread.get(), 0);
    }
}
