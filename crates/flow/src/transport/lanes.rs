//! The lanes for long parcels between processes, beside Timely's messages (decision 0021). A worker puts a message here
//! as it lies in memory, and Timely moves a note that announces it. The connection sends what waits here before it
//! sends the note, so a stage that reads the note finds the message.
//!
//! What waits to be sent has the same bound as Timely's own queues: it is held until it is processed, and gets no
//! credit beyond that ([`Parcel::hold`](crate::transport::parcel::Parcel::hold)). What has arrived is bounded by the
//! sender's credit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;

use crate::run_state::RunState;
use crate::sync::lock;
use crate::topology::Layout;

/// Announces a message that arrives beside Timely's: which one, and from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The sending process.
    pub process: u32,
    /// Its number among all messages from the one process to the other.
    pub number: u64,
}

/// The lanes of this process.
pub(crate) struct Lanes {
    process: u32,
    /// By process; the lane to this process is not used.
    lanes: Vec<Lane>,
}

/// Both directions between this process and another one.
#[derive(Default)]
pub(crate) struct Lane {
    leaving: Mutex<Leaving>,
    arrived: Mutex<Arrived>,
}

#[derive(Default)]
struct Leaving {
    /// The last number assigned.
    last: u64,
    waiting: Vec<Departure>,
}

#[derive(Default)]
struct Arrived {
    /// By number.
    messages: BTreeMap<u64, Buffer>,
    /// The run has stopped, and no one reads them any more.
    closed: bool,
}

/// A message that waits to be sent, in consecutive pieces.
pub(crate) struct Departure {
    /// From 1.
    pub number: u64,
    pub pieces: Vec<Buffer>,
}

impl Lanes {
    /// The lanes of a run, closed when it stops.
    pub fn of_run(run_state: &RunState) -> Arc<Lanes> {
        let lanes = Arc::new(Lanes::new(run_state.topology().layout));
        let stopped = Arc::clone(&lanes);
        run_state.add_stopper(Box::new(move || stopped.close()));
        lanes
    }

    pub fn new(layout: Layout) -> Lanes {
        Lanes { process: layout.process, lanes: (0..layout.processes).map(|_| Lane::default()).collect() }
    }

    /// The lane to and from another process.
    pub fn of(&self, process: usize) -> &Lane {
        &self.lanes[process]
    }

    /// Leaves a message for a process; its note must follow.
    pub fn leave(&self, process: usize, pieces: Vec<Buffer>) -> Note {
        Note { process: self.process, number: self.lanes[process].leave(pieces) }
    }

    /// The message of a note. `None`: it does not exist, or the run has stopped.
    pub fn take(&self, note: Note) -> Option<Buffer> {
        lock(&self.lanes.get(note.process as usize)?.arrived).messages.remove(&note.number)
    }

    /// The run has stopped: messages that have arrived, or will arrive, are useless.
    pub fn close(&self) {
        for lane in &self.lanes {
            *lock(&lane.arrived) = Arrived { messages: BTreeMap::new(), closed: true };
        }
    }
}

impl Lane {
    fn leave(&self, pieces: Vec<Buffer>) -> u64 {
        let mut leaving = lock(&self.leaving);
        leaving.last += 1;
        let number = leaving.last;
        leaving.waiting.push(Departure { number, pieces });
        number
    }

    /// All messages that wait to be sent, in order.
    pub fn departures(&self) -> Vec<Departure> {
        std::mem::take(&mut lock(&self.leaving).waiting)
    }

    /// A message has arrived.
    pub fn arrive(&self, number: u64, message: Buffer) {
        let mut arrived = lock(&self.arrived);
        if !arrived.closed {
            arrived.messages.insert(number, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> Lanes {
        Lanes::new(Layout { workers: 1, processes: 3, process: 1 })
    }

    #[test]
    fn messages_are_numbered_by_process_and_leave_in_order() {
        let lanes = lanes();
        let piece = |byte: u8| vec![Buffer::from(&[byte; 3])];
        assert_eq!(lanes.leave(2, piece(1)), Note { process: 1, number: 1 });
        assert_eq!(lanes.leave(0, piece(2)), Note { process: 1, number: 1 });
        assert_eq!(lanes.leave(2, piece(3)), Note { process: 1, number: 2 });
        let found = lanes.of(2).departures();
        let found: Vec<_> = found.iter().map(|one| (one.number, one.pieces[0][0])).collect();
        assert_eq!(found, [(1, 1), (2, 3)]);
        assert!(lanes.of(2).departures().is_empty());
        assert_eq!(lanes.leave(2, piece(4)).number, 3);
        assert_eq!(lanes.of(0).departures().len(), 1);
    }

    #[test]
    fn a_message_is_taken_once_by_its_note() {
        let lanes = lanes();
        lanes.of(0).arrive(1, Buffer::from(b"one"));
        lanes.of(2).arrive(1, Buffer::from(b"two"));
        let note = Note { process: 2, number: 1 };
        assert_eq!(lanes.take(note).unwrap(), Buffer::from(b"two"));
        assert!(lanes.take(note).is_none());
        assert!(lanes.take(Note { process: 0, number: 2 }).is_none());
        assert!(lanes.take(Note { process: 3, number: 1 }).is_none());
    }

    #[test]
    fn a_run_that_has_stopped_keeps_nothing() {
        let lanes = lanes();
        let arrive = |number: u64| {
            let owner = std::sync::Arc::new(());
            let bytes = bytes::Bytes::from_owner(Owned(std::sync::Arc::clone(&owner)));
            lanes.of(0).arrive(number, Buffer::from(bytes));
            owner
        };
        let before = arrive(1);
        assert_eq!(std::sync::Arc::strong_count(&before), 2);
        lanes.close();
        let after = arrive(2);
        assert_eq!([&before, &after].map(std::sync::Arc::strong_count), [1, 1]);
        assert!(lanes.take(Note { process: 0, number: 1 }).is_none());
        assert!(lanes.take(Note { process: 0, number: 2 }).is_none());
    }

    /// Memory that tells whether it is still held.
    struct Owned(#[expect(dead_code, reason = "it is held")] std::sync::Arc<()>);

    impl AsRef<[u8]> for Owned {
        fn as_ref(&self) -> &[u8] {
            b"bytes"
        }
    }
}
