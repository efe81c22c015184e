//! The room that the connections of a source share: bytes that were read, and rows made of them that the query has not
//! taken. Without it, each of many senders would fill memory of its own while the query stands still.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A number of bytes that may be held at a time.
#[derive(Debug)]
pub(super) struct QueueRoom {
    bytes_max: usize,
    held_bytes: Mutex<usize>,
    freed: Condvar,
}

/// A part of the room. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct RoomShare {
    room: Arc<QueueRoom>,
    bytes: usize,
}

impl QueueRoom {
    pub(super) fn new(bytes_max: usize) -> Arc<QueueRoom> {
        Arc::new(QueueRoom { bytes_max, held_bytes: Mutex::new(0), freed: Condvar::new() })
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) fn held_bytes(&self) -> usize {
        *self.lock()
    }

    /// Waits until there is room for these bytes; `None` if `is_over` says meanwhile that it is of no use.
    pub(super) fn take(self: &Arc<QueueRoom>, bytes: usize, is_over: impl Fn() -> bool) -> Option<RoomShare> {
        let mut held = self.lock();
        // Who finds nobody else gets what it asks for, or it would wait for ever.
        while *held > 0 && *held + bytes > self.bytes_max {
            if is_over() {
                return None;
            }
            self.freed.wait(&mut held);
        }
        *held += bytes;
        // A share that is given back wakes one thread, and there may be room for more.
        self.freed.notify_one();
        Some(RoomShare { room: Arc::clone(self), bytes })
    }

    /// A share without bytes, which can grow.
    pub(super) fn empty_share(self: &Arc<QueueRoom>) -> RoomShare {
        RoomShare { room: Arc::clone(self), bytes: 0 }
    }

    /// Everybody who waits asks again whether it is over.
    pub(super) fn wake_all(&self) {
        let _held = self.lock();
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.held_bytes.lock()
    }
}

impl RoomShare {
    /// Corrects the number of bytes. This does not wait, because the bytes are there already.
    pub(super) fn resize(&mut self, bytes: usize) {
        let mut held = self.room.lock();
        *held = *held - self.bytes + bytes;
        if bytes < self.bytes {
            self.room.freed.notify_one();
        }
        self.bytes = bytes;
    }
}

impl Drop for RoomShare {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn everybody_who_fits_is_let_in_when_a_share_is_given_back() {
        let room = QueueRoom::new(100);
        let all = room.take(100, || false).expect("nobody else is there");
        let (sender, taken) = channel();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (room, sender) = (Arc::clone(&room), sender.clone());
                thread::spawn(move || sender.send(room.take(30, || false)))
            })
            .collect();
        assert!(taken.try_recv().is_err(), "there is no room");
        drop(all);
        let shares: Vec<_> = (0..3).map(|_| taken.recv().expect("it is let in")).collect();
        assert_eq!(room.held_bytes(), 90);
        drop(shares);
        assert_eq!(room.held_bytes(), 0);
        waiting.into_iter().for_each(|thread| assert!(thread.join().expect("it ends").is_ok()));
    }

    #[test]
    fn more_than_there_is_comes_in_alone() {
        let room = QueueRoom::new(100);
        let large = room.take(1000, || false).expect("nobody else is there");
        assert!(room.take(1, || true).is_none());
        drop(large);
        assert!(room.take(1, || true).is_some());
    }

    #[test]
    fn who_waits_is_told_that_it_is_over() {
        let room = QueueRoom::new(10);
        let mut share = room.empty_share();
        share.resize(10);
        let is_over = Arc::new(AtomicBool::new(false));
        let waiting = thread::spawn({
            let (room, is_over) = (Arc::clone(&room), Arc::clone(&is_over));
            move || room.take(1, || is_over.load(Ordering::SeqCst)).is_none()
        });
        is_over.store(true, Ordering::SeqCst);
        room.wake_all();
        assert!(waiting.join().expect("it ends"));
    }
}
