//! How far a connection may read ahead of the query.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The number of reads per connection whose rows the query need not have taken yet: one is decoded while the other
/// waits. What is read is lost if the process ends, so a connection reads no further.
const READS_AHEAD: usize = 2;

/// Room for a number of reads, requested before the socket is read.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The room for this many reads.
    free: usize,
    /// Since when the reader has been waiting for the socket.
    reading_since: Option<Instant>,
}

/// The room of one read. Dropped when everything from that read was taken, or nobody will take it any more.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
}

impl Room {
    pub(super) fn new() -> Arc<Room> {
        let state = State { free: READS_AHEAD, reading_since: None };
        Arc::new(Room { state: Mutex::new(state), freed: Condvar::new() })
    }

    /// Waits for room.
    pub(super) fn take(self: &Arc<Room>) -> Arc<Place> {
        let mut state = self.lock();
        while state.free == 0 {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.free -= 1;
        Arc::new(Place { room: Arc::clone(self) })
    }

    /// Records whether the reader is waiting for the socket.
    pub(super) fn set_reading(&self, is_reading: bool) {
        self.lock().reading_since = is_reading.then(Instant::now);
    }

    /// Since when the sender has sent nothing. Only then is it silent: everything before was taken, and the reader is
    /// waiting for the socket.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let state = self.lock();
        // The read that waits has room, too.
        state.reading_since.filter(|_| state.free == READS_AHEAD - 1)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.lock().free += 1;
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_finds_no_room_waits_until_all_of_a_read_was_taken() {
        let room = Room::new();
        let mut places: Vec<_> = (0..READS_AHEAD).map(|_| room.take()).collect();
        let (sender, taken) = channel();
        let waiting = std::thread::spawn({
            let room = Arc::clone(&room);
            move || sender.send(room.take())
        });
        let second_batch_of_the_read = Arc::clone(&places[0]);
        places.remove(0);
        assert!(taken.try_recv().is_err(), "its second batch still waits");
        drop(second_batch_of_the_read);
        assert!(taken.recv().is_ok());
        assert!(waiting.join().expect("it ends").is_ok());
    }

    #[test]
    fn a_connection_is_silent_only_if_all_that_came_was_taken() {
        let room = Room::new();
        let _reads = room.take();
        assert_eq!(room.silent_since(), None, "the socket is not read");
        room.set_reading(true);
        assert!(room.silent_since().is_some());
        let waits_for_the_query = room.take();
        assert_eq!(room.silent_since(), None);
        drop(waits_for_the_query);
        assert!(room.silent_since().is_some());
        room.set_reading(false);
        assert_eq!(room.silent_since(), None);
    }
}
