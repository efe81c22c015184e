//! Bulk channels: for long parcels between processes, beside Timely's messages (decision 0021). A worker puts a message here
//! as it lies in memory, and Timely moves a ticket that announces it. The connection sends what waits here before it
//! sends the ticket, so a stage that reads the ticket finds the message.
//!
//! What waits to be sent has the same bound as Timely's own queues: it is held until it is processed, and gets no
//! credit beyond that ([`Parcel::hold`](crate::transport::parcel::Parcel::hold)). What has arrived is bounded by the
//! sender's credit.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_buffer::Buffer;
use parking_lot::Mutex;

use crate::run_state::RunState;
use crate::topology::Layout;

/// Announces a message that arrives beside Timely's: which one, and from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BulkTicket {
    /// The sending process.
    pub process: u32,
    /// Its number among all messages from the one process to the other.
    pub number: u64,
}

/// The bulk channels of this process.
pub(crate) struct BulkChannels {
    process: u32,
    /// By process; the channel to this process is not used.
    bulk: Vec<BulkChannel>,
}

/// Both directions between this process and another one.
#[derive(Default)]
pub(crate) struct BulkChannel {
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
}

#[derive(Default)]
struct Outgoing {
    /// The last number assigned.
    last: u64,
    waiting: Vec<OutgoingMessage>,
}

#[derive(Default)]
struct Incoming {
    /// By number.
    messages: BTreeMap<u64, Buffer>,
    /// The run has stopped, and no one reads them any more.
    closed: bool,
}

/// A message that waits to be sent, in consecutive pieces.
pub(crate) struct OutgoingMessage {
    /// From 1.
    pub number: u64,
    pub pieces: Vec<Buffer>,
}

impl BulkChannels {
    /// The bulk channels of a run, closed when it stops.
    pub fn of_run(run_state: &RunState) -> Arc<BulkChannels> {
        let bulk = Arc::new(BulkChannels::new(run_state.topology().layout));
        let stopped = Arc::clone(&bulk);
        run_state.add_stopper(Box::new(move || stopped.close()));
        bulk
    }

    pub fn new(layout: Layout) -> BulkChannels {
        BulkChannels {
            process: layout.process,
            bulk: (0..layout.processes).map(|_| BulkChannel::default()).collect(),
        }
    }

    /// The channel to and from another process.
    pub fn of(&self, process: usize) -> &BulkChannel {
        &self.bulk[process]
    }

    /// Enqueues a message for a process; its ticket must follow.
    pub fn enqueue(&self, process: usize, pieces: Vec<Buffer>) -> BulkTicket {
        BulkTicket { process: self.process, number: self.bulk[process].enqueue(pieces) }
    }

    /// The message of a ticket. `None`: it does not exist, or the run has stopped.
    pub fn take(&self, ticket: BulkTicket) -> Option<Buffer> {
        self.bulk.get(ticket.process as usize)?.incoming.lock().messages.remove(&ticket.number)
    }

    /// The run has stopped: messages that have arrived, or will arrive, are useless.
    pub fn close(&self) {
        for channel in &self.bulk {
            *channel.incoming.lock() = Incoming { messages: BTreeMap::new(), closed: true };
        }
    }
}

impl BulkChannel {
    fn enqueue(&self, pieces: Vec<Buffer>) -> u64 {
        let mut outgoing = self.outgoing.lock();
        outgoing.last += 1;
        let number = outgoing.last;
        outgoing.waiting.push(OutgoingMessage { number, pieces });
        number
    }

    /// All messages that wait to be sent, in order.
    pub fn take_outgoing(&self) -> Vec<OutgoingMessage> {
        std::mem::take(&mut self.outgoing.lock().waiting)
    }

    /// A message has arrived.
    pub fn deliver(&self, number: u64, message: Buffer) {
        let mut incoming = self.incoming.lock();
        if !incoming.closed {
            incoming.messages.insert(number, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk() -> BulkChannels {
        BulkChannels::new(Layout { workers: 1, processes: 3, process: 1 })
    }

    #[test]
    fn messages_are_numbered_by_process_and_leave_in_order() {
        let bulk = bulk();
        let piece = |byte: u8| vec![Buffer::from(&[byte; 3])];
        assert_eq!(bulk.enqueue(2, piece(1)), BulkTicket { process: 1, number: 1 });
        assert_eq!(bulk.enqueue(0, piece(2)), BulkTicket { process: 1, number: 1 });
        assert_eq!(bulk.enqueue(2, piece(3)), BulkTicket { process: 1, number: 2 });
        let found = bulk.of(2).take_outgoing();
        let found: Vec<_> = found.iter().map(|one| (one.number, one.pieces[0][0])).collect();
        assert_eq!(found, [(1, 1), (2, 3)]);
        assert!(bulk.of(2).take_outgoing().is_empty());
        assert_eq!(bulk.enqueue(2, piece(4)).number, 3);
        assert_eq!(bulk.of(0).take_outgoing().len(), 1);
    }

    #[test]
    fn a_message_is_taken_once_by_its_note() {
        let bulk = bulk();
        bulk.of(0).deliver(1, Buffer::from(b"one"));
        bulk.of(2).deliver(1, Buffer::from(b"two"));
        let ticket = BulkTicket { process: 2, number: 1 };
        assert_eq!(bulk.take(ticket).unwrap(), Buffer::from(b"two"));
        assert!(bulk.take(ticket).is_none());
        assert!(bulk.take(BulkTicket { process: 0, number: 2 }).is_none());
        assert!(bulk.take(BulkTicket { process: 3, number: 1 }).is_none());
    }

    #[test]
    fn a_run_that_has_stopped_keeps_nothing() {
        let bulk = bulk();
        let arrive = |number: u64| {
            let owner = std::sync::Arc::new(());
            let bytes = bytes::Bytes::from_owner(Owned(std::sync::Arc::clone(&owner)));
            bulk.of(0).deliver(number, Buffer::from(bytes));
            owner
        };
        let before = arrive(1);
        assert_eq!(std::sync::Arc::strong_count(&before), 2);
        bulk.close();
        let after = arrive(2);
        assert_eq!([&before, &after].map(std::sync::Arc::strong_count), [1, 1]);
        assert!(bulk.take(BulkTicket { process: 0, number: 1 }).is_none());
        assert!(bulk.take(BulkTicket { process: 0, number: 2 }).is_none());
    }

    /// Memory that tells whether it is still held.
    struct Owned(#[expect(dead_code, reason = "it is held")] std::sync::Arc<()>);

    impl AsRef<[u8]> for Owned {
        fn as_ref(&self) -> &[u8] {
            b"bytes"
        }
    }
}
