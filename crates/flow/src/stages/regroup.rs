//! Puts a stage's input of one cycle into the defined order.

use tidemill_core::PartitionedBatch;
use tidemill_split::merge_by_partition;
use tidemill_split::order::Sorter;

use crate::topology::InputOrder;
use crate::transport::parcel::Parcel;

/// The batches of an input, arranged so that each partition's rows are consecutive and in the defined order.
pub(crate) fn regroup(
    mut parcels: Vec<Parcel>,
    order: InputOrder,
    positions_end: u32,
    sorter: &mut Sorter,
) -> Vec<PartitionedBatch> {
    // Parcels of one chunk and window come from several splitters of a tree's last level: the partitions of
    // each are its own.
    parcels.sort_by_key(|parcel| (parcel.chunk, parcel.window));
    let batches: Vec<PartitionedBatch> = parcels.into_iter().map(|parcel| parcel.rows).collect();
    match order {
        InputOrder::ByChunk => batches,
        InputOrder::Interleaved => merge_by_partition(&batches, positions_end, sorter).into_iter().collect(),
    }
}
