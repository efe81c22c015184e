//! What a store's writer and its readers share. Neither ever waits for the other.

use std::sync::Arc;

use crate::changes::RowEquality;
use crate::chunk_list::ChunkList;
use crate::config::StoreConfig;
use crate::key_index::KeyIndex;
use crate::keys::KeyHasher;
use crate::marks::Marks;
use crate::store_memory::StoreMemory;
use crate::version_cell::VersionCell;

pub(crate) struct StoreState {
    pub config: StoreConfig,
    pub hasher: Option<KeyHasher>,
    /// Compares the rows of a changelog.
    pub rows: Option<RowEquality>,
    /// The newest version.
    pub current: VersionCell<Published>,
    /// The chunks of the newest version, or of the next: all rows that the index of keys leads to.
    pub staged: VersionCell<ChunkList>,
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

/// What the writer and the readers of a store of several fragments share.
pub(crate) struct FragmentsState {
    /// What all fragments hold together.
    pub config: StoreConfig,
    /// The fragments.
    pub fragments: Vec<Arc<StoreState>>,
    /// The newest cycle that every fragment has: what each published after it.
    pub current: VersionCell<Vec<Arc<Published>>>,
}

impl Published {
    /// The oldest and the newest cycle that can be read.
    pub fn cycles(&self) -> Option<(u64, u64)> {
        let oldest = self.marks.oldest()?.cycle;
        Some((oldest, self.newest_cycle?))
    }
}

/// What a fragment of a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentStatus {
    /// How much it holds.
    pub statistics: StoreStatistics,
    /// The oldest and the newest cycle that can be read of it.
    pub cycles: Option<(u64, u64)>,
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
    /// The bytes of the index of keys, and of that of the rows of a changelog.
    pub index_bytes: usize,
    /// How many versions can be read.
    pub versions: usize,
    /// The rows that were dropped because they were too old, or too many.
    pub rows_dropped: u64,
    /// The chunks that they were in.
    pub chunks_dropped: u64,
}

impl StoreStatistics {
    /// What both fragments of a store hold. A version can be read if both have it.
    #[must_use]
    pub(crate) fn and(self, other: StoreStatistics) -> StoreStatistics {
        StoreStatistics {
            rows: self.rows + other.rows,
            chunks: self.chunks + other.chunks,
            bytes: self.bytes + other.bytes,
            index_bytes: self.index_bytes + other.index_bytes,
            versions: self.versions.min(other.versions),
            rows_dropped: self.rows_dropped + other.rows_dropped,
            chunks_dropped: self.chunks_dropped + other.chunks_dropped,
        }
    }
}
