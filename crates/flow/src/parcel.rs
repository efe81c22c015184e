//! What travels between workers: gathered batches, by reference within a process, as bytes between processes.

use std::cell::OnceCell;
use std::io::Write;
use std::sync::Arc;

use arrow_buffer::Buffer;
use tidemill_core::PartitionedBatch;
use tidemill_split::SplitPlan;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

use crate::wire;

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

    fn encoded(&self) -> &[Buffer] {
        self.1.get_or_init(|| wire::encode(&self.0))
    }

    /// All rows of all parcels.
    pub fn rows(&self) -> u64 {
        self.0.iter().map(|parcel| parcel.rows.batch.len() as u64).sum()
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
