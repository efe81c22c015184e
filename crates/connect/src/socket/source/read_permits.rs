//! How far a connection may read ahead of the query.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::queue_room::RoomShare;

/// The number of reads per connection whose rows the query need not have taken yet: some are decoded while a cycle of others is stored, so that
/// a fast sender fills the next cycle. With half as much in them, cycles are so small that storing each takes longer than all else.
/// What is read is lost if the process ends, so a connection reads no further.
const READS_AHEAD: usize = 4;

/// Permits for a number of reads. One is taken before each read of the socket.
#[derive(Debug)]
pub(super) struct ReadPermits {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The permits that are left.
    free: usize,
    /// Since when the reader has been waiting for the socket.
    reading_since: Option<Instant>,
    /// The bytes of a record whose end has not come.
    incomplete_bytes: usize,
    is_closed: bool,
    has_read: bool,
}

/// A permit for one read. Dropped when everything from that read was taken, or nobody will take it any more.
#[derive(Debug)]
pub(super) struct ReadPermit {
    permits: Arc<ReadPermits>,
    /// The room for what was read.
    share: Option<RoomShare>,
}

impl ReadPermits {
    pub(super) fn new() -> Arc<ReadPermits> {
        let state = State {
            free: READS_AHEAD,
            reading_since: None,
            incomplete_bytes: 0,
            is_closed: false,
            has_read: false,
        };
        Arc::new(ReadPermits { state: Mutex::new(state), freed: Condvar::new() })
    }

    /// Waits for a permit; `None` if the connection is closed.
    pub(super) fn take(self: &Arc<ReadPermits>) -> Option<ReadPermit> {
        let mut state = self.lock();
        while state.free == 0 && !state.is_closed {
            self.freed.wait(&mut state);
        }
        if state.is_closed {
            return None;
        }
        state.free -= 1;
        Some(ReadPermit { permits: Arc::clone(self), share: None })
    }

    /// Nothing more is to be read.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.freed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Records whether the reader is waiting for the socket.
    pub(super) fn set_reading(&self, is_reading: bool) {
        self.lock().reading_since = is_reading.then(Instant::now);
    }

    /// Something has come.
    pub(super) fn set_has_read(&self) {
        self.lock().has_read = true;
    }

    pub(super) fn has_read(&self) -> bool {
        self.lock().has_read
    }

    /// Since when the sender has sent nothing. Only then is it silent: everything before was taken, and the reader is
    /// waiting for the socket.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let state = self.lock();
        // The read that waits has a permit, too.
        state.reading_since.filter(|_| state.free == READS_AHEAD - 1)
    }

    pub(super) fn set_incomplete_bytes(&self, bytes: usize) {
        self.lock().incomplete_bytes = bytes;
    }

    /// The bytes of a record whose end has not come.
    pub(super) fn incomplete_bytes(&self) -> usize {
        self.lock().incomplete_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl ReadPermit {
    /// Holds this room as long as the permit.
    pub(super) fn hold(&mut self, share: RoomShare) {
        self.share = Some(share);
    }

    /// What was read takes this many bytes now.
    pub(super) fn resize(&mut self, bytes: usize) {
        if let Some(share) = &mut self.share {
            share.resize(bytes);
        }
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        self.share = None;
        self.permits.lock().free += 1;
        self.permits.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn take(permits: &Arc<ReadPermits>) -> Arc<ReadPermit> {
        Arc::new(permits.take().expect("it is open"))
    }

    #[test]
    fn who_finds_no_permit_waits_until_all_of_a_read_was_taken() {
        let permits = ReadPermits::new();
        let mut held: Vec<_> = (0..READS_AHEAD).map(|_| take(&permits)).collect();
        let (sender, taken) = channel();
        let waiting = std::thread::spawn({
            let permits = Arc::clone(&permits);
            move || sender.send(permits.take().is_some())
        });
        let second_batch_of_the_read = Arc::clone(&held[0]);
        held.remove(0);
        assert!(taken.try_recv().is_err(), "its second batch still waits");
        drop(second_batch_of_the_read);
        assert_eq!(taken.recv(), Ok(true));
        assert!(waiting.join().expect("it ends").is_ok());
    }

    #[test]
    fn who_waits_for_a_permit_is_told_when_the_connection_is_closed() {
        let permits = ReadPermits::new();
        let _held: Vec<_> = (0..READS_AHEAD).map(|_| take(&permits)).collect();
        let waiting = std::thread::spawn({
            let permits = Arc::clone(&permits);
            move || permits.take().is_none()
        });
        permits.close();
        assert!(waiting.join().expect("it ends"));
    }

    #[test]
    fn a_connection_is_silent_only_if_all_that_came_was_taken() {
        let permits = ReadPermits::new();
        let _reads = take(&permits);
        assert_eq!(permits.silent_since(), None, "the socket is not read");
        permits.set_reading(true);
        assert!(permits.silent_since().is_some());
        let waits_for_the_query = take(&permits);
        assert_eq!(permits.silent_since(), None);
        drop(waits_for_the_query);
        assert!(permits.silent_since().is_some());
        permits.set_reading(false);
        assert_eq!(permits.silent_since(), None);
    }
}
