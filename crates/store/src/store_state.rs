//! What a store's writer and its readers share. Neither ever waits for the other.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::chunk_list::ChunkList;
use crate::config::StoreConfig;
use crate::key_index::KeyIndex;
use crate::keys::KeyHasher;
use crate::marks::Marks;
use crate::store_memory::StoreMemory;

pub(crate) struct StoreState {
    pub config: StoreConfig,
    pub hasher: Option<KeyHasher>,
    /// The newest version.
    pub current: ArcSwap<Published>,
    /// The chunks of the newest version, or of the next: all rows that the index of keys leads to.
    pub staged: ArcSwap<ChunkList>,
    /// What the store holds in memory.
    pub memory: StoreMemory,
}

/// The newest version, and what is needed to go back to earlier ones.
pub(crate) struct Published {
    pub chunks: Arc<ChunkList>,
    pub index: Option<KeyIndex>,
    pub marks: Marks,
    pub newest_cycle: Option<u64>,
    /// The last cycle whose version was dropped, or may have been.
    pub gone: Option<u64>,
    /// The number of its first row.
    pub first: u64,
    /// One past the number of its last row.
    pub end: u64,
    pub statistics: StoreStatistics,
}

/// How much a store holds, and what it has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// The rows of the newest version; for a table its keys.
    pub rows: u64,
    /// The chunks that it holds, also those that only earlier versions have.
    pub chunks: usize,
    /// The bytes of their columns, and of what is kept for each row.
    pub bytes: usize,
    /// The bytes of the index of keys.
    pub index_bytes: usize,
    /// How many versions can be read.
    pub versions: usize,
    /// The rows that were dropped because they were too old, or too many.
    pub rows_dropped: u64,
    /// The chunks that they were in.
    pub chunks_dropped: u64,
}
