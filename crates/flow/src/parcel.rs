//! What travels between workers: gathered batches, by reference within a process, as bytes between processes.

use std::cell::OnceCell;
use std::io::Write;
use std::sync::Arc;

use arrow_buffer::Buffer;
use tidemill_core::{PartitionedBatch, Run};
use tidemill_split::SplitPlan;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

use crate::wire;

/// A parcel that is longer travels in several messages. Timely's memory comes in pieces of 1 MiB: a message that does not
/// fit would make all pieces larger for ever, and one that is cut off by the end of a piece is copied.
const MESSAGE_BYTES_MAX: usize = 384 << 10;

/// A gathered batch on its way to one worker.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The worker that it is for.
    pub target: u32,
    /// Its place among all parcels of its edge and cycle.
    pub chunk: u32,
    /// Its place among the windows of its chunk, if that was divided on the way to splitters.
    pub window: u32,
    /// The plan by which it is split; `None` on the way to a sink.
    pub plan: Option<Arc<SplitPlan>>,
    /// What is counted as held for it until it is processed: the bytes of copies.
    pub held_bytes: u64,
    /// The rows; without runs on the way to a sink.
    pub rows: PartitionedBatch,
}

impl Parcel {
    /// Rows of a chunk for a worker.
    pub fn new(target: u32, chunk: u32, rows: PartitionedBatch) -> Self {
        Parcel { target, chunk, window: 0, plan: None, held_bytes: 0, rows }
    }

    /// The same, split by this plan.
    pub fn by(self, plan: &Arc<SplitPlan>) -> Self {
        Parcel { plan: Some(Arc::clone(plan)), ..self }
    }

    /// Rows `start..end` of it, with nothing held.
    fn slice(&self, start: u32, end: u32) -> Parcel {
        let cut = |row: u32| row.clamp(start, end) - start;
        let run = |run: &Run| Run { start: cut(run.start), end: cut(run.end), ..*run };
        let runs = self.rows.runs.iter().map(run).filter(|run| run.start < run.end).collect();
        let batch = self.rows.batch.slice(start as usize, end as usize);
        let (plan, rows) = (self.plan.clone(), PartitionedBatch { batch, runs });
        Parcel { target: self.target, chunk: self.chunk, window: self.window, plan, held_bytes: 0, rows }
    }
}

/// The container that Timely moves. Timely counts parcels, not rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parcels(pub Vec<Parcel>, Encoded);

/// The message of parcels that are sent to another process, in pieces: Timely asks for its length first.
type Encoded = OnceCell<Vec<Buffer>>;

impl Parcels {
    pub fn new(parcels: Vec<Parcel>) -> Self {
        Parcels(parcels, Encoded::new())
    }

    /// A parcel for another process, as messages that follow each other. What is held for it goes with the first.
    pub fn messages(parcel: Parcel) -> Vec<Parcels> {
        let whole = Parcels::new(vec![parcel]);
        let count = whole.length_in_bytes().div_ceil(MESSAGE_BYTES_MAX) as u64;
        let parcel = &whole.0[0];
        let rows = parcel.rows.batch.len() as u64;
        if count < 2 || rows < 2 {
            return vec![whole];
        }
        let count = count.min(rows);
        let bound = |index: u64| (rows * index / count) as u32;
        let mut parts: Vec<_> =
            (0..count).map(|index| parcel.slice(bound(index), bound(index + 1))).collect();
        parts[0].held_bytes = parcel.held_bytes;
        parts.into_iter().map(|part| Parcels::new(vec![part])).collect()
    }

    fn encoded(&self) -> &[Buffer] {
        self.1.get_or_init(|| wire::encode(&self.0))
    }

    /// All rows that all parcels bring, as often as partitions are given them.
    pub fn rows(&self) -> u64 {
        let rows = |rows: &PartitionedBatch| match rows.runs.is_empty() {
            true => rows.batch.len() as u64,
            false => rows.rows_given(),
        };
        self.0.iter().map(|parcel| rows(&parcel.rows)).sum()
    }
}

impl Accountable for Parcels {
    fn record_count(&self) -> i64 {
        self.0.len() as i64
    }
}

impl ContainerBytes for Parcels {
    fn from_bytes(bytes: Bytes) -> Self {
        let parcels = wire::decode(wire::shared(bytes));
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

#[cfg(test)]
mod tests {
    use arrow_array::{RecordBatch, StringArray, StringViewArray, UInt32Array};
    use tidemill_core::Batch;

    use super::*;

    fn parcel(rows: RecordBatch, runs: Vec<Run>) -> Parcel {
        let numbers = 0..rows.num_rows() as u32;
        let batch = Batch { rows, positions: numbers.clone().collect(), origins: numbers.collect() };
        Parcel { window: 7, held_bytes: 9, ..Parcel::new(1, 2, PartitionedBatch { batch, runs }) }
    }

    fn one_column(rows: u32) -> RecordBatch {
        let column = Arc::new(UInt32Array::from_iter_values(0..rows)) as _;
        RecordBatch::try_from_iter([("number", column)]).unwrap()
    }

    #[test]
    fn a_long_parcel_travels_in_messages_with_the_same_rows_in_order() {
        let run = |partition, start, end| Run { partition, start, end };
        let rows = 200_000;
        let runs = vec![run(3, 0, 10), run(4, 10, 150_000), run(8, 150_000, rows)];
        let messages = Parcels::messages(parcel(one_column(rows), runs));
        assert!(messages.len() > 2);
        let mut found = Vec::new();
        for message in &messages {
            assert!((MESSAGE_BYTES_MAX / 3..MESSAGE_BYTES_MAX + 1024).contains(&message.length_in_bytes()));
            let [parcel] = &message.0[..] else { panic!("one parcel in each message") };
            assert_eq!((parcel.target, parcel.chunk, parcel.window), (1, 2, 7));
            let PartitionedBatch { batch, runs } = &parcel.rows;
            assert_eq!(runs.iter().map(|run| (run.end - run.start) as usize).sum::<usize>(), batch.len());
            for run in runs {
                let rows = batch.slice(run.start as usize, run.end as usize);
                assert_eq!(rows.positions, rows.origins);
                assert_eq!(rows.as_rows().column::<arrow_array::types::UInt32Type>(0), &rows.positions[..]);
                found.extend(rows.positions.iter().map(|row| (run.partition, *row)));
            }
        }
        let partition = |row| {
            if row < 10 {
                3
            } else if row < 150_000 {
                4
            } else {
                8
            }
        };
        assert!(found.into_iter().eq((0..rows).map(|row| (partition(row), row))));
        let held: Vec<u64> = messages.iter().map(|message| message.0[0].held_bytes).collect();
        assert!(held[0] == 9 && held[1..].iter().all(|held| *held == 0), "{held:?}");
    }

    #[test]
    fn short_parcels_and_single_rows_are_one_message() {
        assert_eq!(Parcels::messages(parcel(one_column(1000), Vec::new())).len(), 1);
        assert_eq!(Parcels::messages(parcel(one_column(0), Vec::new())).len(), 1);
        let column = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)])) as _;
        let long = RecordBatch::try_from_iter([("text", column)]).unwrap();
        assert_eq!(Parcels::messages(parcel(long, Vec::new())).len(), 1);
    }

    #[test]
    fn texts_that_no_row_shows_are_not_sent() {
        let texts = (0..30_000).map(|number| format!("a text of more than twelve bytes {number}"));
        let column = Arc::new(StringViewArray::from_iter_values(texts)) as _;
        let rows = RecordBatch::try_from_iter([("text", column)]).unwrap();
        let bytes: usize =
            Parcels::messages(parcel(rows.clone(), Vec::new())).iter().map(Parcels::length_in_bytes).sum();
        let few = Parcels::new(vec![parcel(rows.slice(5, 10), Vec::new())]).length_in_bytes();
        assert!(few < 2000 && bytes < 30_000 * 70, "{few}, {bytes}");
    }
}
