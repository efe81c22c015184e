//! The container of parcels that Timely moves: by reference within a process, as bytes between processes.

use std::cell::OnceCell;
use std::io::Write;

use arrow_buffer::Buffer;
use tidemill_core::PartitionedBatch;
use tidemill_core::error::Cause;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

use crate::error::Failure;
use crate::run_state::credit::Credit;
use crate::transport::bulk_channels::{BulkChannels, BulkTicket};
use crate::transport::parcel::Parcel;
use crate::transport::wire;

/// Messages of at least this length take the bulk channel. Copying a shorter one takes less time than writing it separately.
const BULK_BYTES_MIN: usize = 16 << 10;

/// The container that Timely moves. Timely counts parcels, not rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parcels(pub Vec<Parcel>, Option<BulkTicket>, Encoded);

/// The message for another process, in pieces: Timely asks for its length first.
type Encoded = OnceCell<Vec<Buffer>>;

impl Parcels {
    pub fn new(parcels: Vec<Parcel>) -> Self {
        Parcels(parcels, None, Encoded::new())
    }

    /// A parcel that is not here, but arrives over its bulk channel.
    fn ticketed(ticket: BulkTicket) -> Self {
        Parcels(Vec::new(), Some(ticket), Encoded::new())
    }

    /// A parcel for another process: a long message goes over the bulk channel, and Timely moves a ticket.
    pub fn sent(self, process: usize, bulk: &BulkChannels) -> Parcels {
        if self.length_in_bytes() < BULK_BYTES_MIN {
            return self;
        }
        let pieces = self.2.into_inner().unwrap_or_default();
        Parcels::ticketed(bulk.enqueue(process, pieces))
    }

    /// Counts rows that are split into more rows as held until they are processed, because broadcast rows must not pile
    /// up either. Rows that the parcels of a split share are not copied.
    pub fn hold_copies(mut self, rows_before: u64, credit: &Credit) -> Parcels {
        let are_shared = self.0.iter().any(|parcel| parcel.rows.shared.is_some());
        if !are_shared && self.rows() > rows_before {
            for parcel in &mut self.0 {
                parcel.held_bytes = parcel.rows.batch.bytes() as u64;
            }
            let held_bytes: u64 = self.0.iter().map(|parcel| parcel.held_bytes).sum();
            credit.hold(held_bytes as i64);
        }
        self
    }

    /// All parcels, wherever they have arrived.
    pub fn arrived(self, bulk: &BulkChannels) -> Result<Vec<Parcel>, Failure> {
        let Parcels(mut parcels, ticket, _) = self;
        if let Some(ticket) = ticket {
            let message = bulk.take(ticket).and_then(wire::decode);
            parcels.extend(message.ok_or_else(|| unreadable(ticket))?);
        }
        Ok(parcels)
    }

    fn encoded(&self) -> &[Buffer] {
        self.2.get_or_init(|| match &self.1 {
            Some(ticket) => wire::encode_ticket(*ticket),
            None => wire::encode(&self.0),
        })
    }

    /// Total rows, counting a broadcast row once per partition.
    pub fn rows(&self) -> u64 {
        let rows = |rows: &PartitionedBatch| {
            if rows.runs.is_empty() { rows.batch.len() as u64 } else { rows.rows_given() }
        };
        self.0.iter().map(|parcel| rows(&parcel.rows)).sum()
    }
}

impl Accountable for Parcels {
    fn record_count(&self) -> i64 {
        (self.0.len() + usize::from(self.1.is_some())) as i64
    }
}

impl ContainerBytes for Parcels {
    fn from_bytes(bytes: Bytes) -> Self {
        if let Some(ticket) = wire::decode_ticket(&bytes) {
            return Parcels::ticketed(ticket);
        }
        // A copy: otherwise an operator that keeps a row would keep Timely's memory, which is 1 MiB.
        let parcels = wire::decode(Buffer::from(&bytes[..]));
        Parcels::new(parcels.expect("parcels come from this same program, whole"))
    }

    fn length_in_bytes(&self) -> usize {
        self.encoded().iter().map(Buffer::len).sum()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        for piece in self.encoded() {
            writer.write_all(piece).expect("the transport's buffer has the announced length");
        }
    }
}

fn unreadable(ticket: BulkTicket) -> Failure {
    let cause = Cause::bug(format!("parcel {} has not arrived completely", ticket.number));
    Failure::Engine { part: format!("rows from process {}", ticket.process), cause }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use arrow_array::{RecordBatch, StringArray, StringViewArray, UInt32Array};
    use tidemill_core::{Batch, Run};
    use timely::bytes::arc::BytesMut;

    use super::*;
    use crate::topology::Layout;
    use crate::transport::wire::samples::assert_same;

    fn parcel(rows: RecordBatch) -> Parcel {
        let numbers = 0..rows.num_rows() as u32;
        let runs = vec![Run { partition: 3, start: 0, end: numbers.end }];
        let batch = Batch { rows, positions: numbers.clone().collect(), origins: numbers.collect() };
        Parcel { window: 7, held_bytes: 9, ..Parcel::new(1, 2, PartitionedBatch::new(batch, runs)) }
    }

    fn one_column(rows: Range<u32>) -> RecordBatch {
        let column = Arc::new(UInt32Array::from_iter_values(rows)) as _;
        RecordBatch::try_from_iter([("number", column)]).unwrap()
    }

    fn bulk(process: u32) -> BulkChannels {
        BulkChannels::new(Layout { workers: 1, processes: 2, process })
    }

    /// The bytes of an arriving message, as Timely passes them on.
    fn carried(parcels: &Parcels) -> Parcels {
        let mut bytes = Vec::new();
        parcels.into_bytes(&mut bytes);
        assert_eq!(bytes.len(), parcels.length_in_bytes());
        Parcels::from_bytes(BytesMut::from(bytes).freeze())
    }

    /// What the connection does with the messages in the bulk channel.
    fn carry(from: &BulkChannels, to: &BulkChannels) -> usize {
        let take_outgoing = from.of(1).take_outgoing();
        for departure in &take_outgoing {
            let bytes: Vec<u8> = departure.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
            to.of(0).deliver(departure.number, Buffer::from_vec(bytes));
        }
        take_outgoing.len()
    }

    #[test]
    fn short_parcels_travel_in_timelys_messages_and_long_ones_on_the_lane() {
        for (rows, on_the_lane) in [(0, 0), (1000, 0), (2000, 1), (500_000, 1)] {
            let (here, there, sent) = (bulk(0), bulk(1), parcel(one_column(0..rows)));
            let whole = Parcels::new(vec![sent.clone()]).length_in_bytes();
            let parcels = Parcels::new(vec![sent.clone()]).sent(1, &here);
            assert_eq!(parcels.record_count(), 1);
            assert_eq!(parcels.length_in_bytes(), if on_the_lane == 1 { 24 } else { whole });
            let found = carried(&parcels);
            assert_eq!(found.record_count(), 1, "Timely counts the same on both sides");
            assert_eq!(carry(&here, &there), on_the_lane, "{rows} rows of {whole} bytes");
            let found = found.arrived(&there).unwrap();
            assert_eq!(found.len(), 1);
            assert_same(&found[0], &sent);
        }
    }

    #[test]
    fn notes_find_their_parcels_in_any_order() {
        let (here, there) = (bulk(0), bulk(1));
        let sent = [0, 1, 2].map(|number| parcel(one_column(10_000 * number..10_000 * (number + 1))));
        let tickets: Vec<_> =
            sent.iter().map(|sent| carried(&Parcels::new(vec![sent.clone()]).sent(1, &here))).collect();
        assert_eq!(carry(&here, &there), 3);
        for index in [1, 2, 0] {
            assert_same(&tickets[index].clone().arrived(&there).unwrap()[0], &sent[index]);
        }
        let error = tickets[1].clone().arrived(&there).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rows from process 0: this is a bug: parcel 2 has not arrived completely"
        );
    }

    #[test]
    fn what_has_arrived_damaged_is_an_error() {
        let (here, there) = (bulk(0), bulk(1));
        let ticket = Parcels::new(vec![parcel(one_column(0..9000))]).sent(1, &here);
        there.of(0).deliver(1, Buffer::from_vec(vec![1_u8; 64]));
        assert!(carried(&ticket).arrived(&there).is_err());
    }

    #[test]
    fn what_was_kept_of_a_short_message_does_not_keep_timelys_memory() {
        let sent = Parcels::new(vec![parcel(one_column(0..100))]);
        let mut bytes = Vec::new();
        sent.into_bytes(&mut bytes);
        let arrived = BytesMut::from(bytes).freeze();
        let memory = arrived.as_ptr_range();
        let found = Parcels::from_bytes(arrived);
        let column = found.0[0].rows.batch.rows.column(0).to_data();
        assert!(!memory.contains(&column.buffers()[0].as_ptr()));
    }

    #[test]
    fn a_row_of_a_megabyte_takes_the_lane() {
        let column = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)])) as _;
        let long = RecordBatch::try_from_iter([("text", column)]).unwrap();
        let here = bulk(0);
        assert_eq!(Parcels::new(vec![parcel(long)]).sent(1, &here).length_in_bytes(), 24);
    }

    #[test]
    fn texts_that_no_row_shows_are_not_sent() {
        let texts = (0..30_000).map(|number| format!("a text of more than twelve bytes {number}"));
        let column = Arc::new(StringViewArray::from_iter_values(texts)) as _;
        let rows = RecordBatch::try_from_iter([("text", column)]).unwrap();
        let bytes = |rows: RecordBatch| Parcels::new(vec![parcel(rows)]).length_in_bytes();
        let (few, all) = (bytes(rows.slice(5, 10)), bytes(rows));
        assert!(few < 2000 && all < 30_000 * 70, "{few}, {all}");
    }
}
