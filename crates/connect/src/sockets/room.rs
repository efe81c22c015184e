//! How far a connection may read ahead of the query.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The number of reads per connection whose rows the query need not have taken yet: one is decoded while the other
/// waits. What is read is lost if the process ends, so a connection reads no further.
const READS_AHEAD: usize = 2;

/// Room for a number of reads, requested before the socket is read.
#[derive(Debug)]
pub(super) struct Room {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The room of one read. Dropped when everything from that read was taken, or nobody will take it any more.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
}

impl Room {
    pub(super) fn new() -> Arc<Room> {
        Arc::new(Room { free: Mutex::new(READS_AHEAD), freed: Condvar::new() })
    }

    /// Waits for room.
    pub(super) fn take(self: &Arc<Room>) -> Arc<Place> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Arc::new(Place { room: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.room.lock() += 1;
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
}
