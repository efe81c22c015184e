//! A version of one fragment of a store, or of a store that has only one.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::chunk_list::ChunkList;
use crate::store_state::{Published, StoreState};

/// The rows of a fragment after some cycle.
#[derive(Clone)]
pub(crate) struct FragmentVersion {
    pub shared: Arc<StoreState>,
    pub published: Arc<Published>,
    pub cycle: u64,
    pub first: u64,
    pub end: u64,
}

impl FragmentVersion {
    pub fn cycle(&self) -> Option<u64> {
        self.published.newest_cycle.map(|newest| newest.min(self.cycle))
    }

    /// How many rows were stored for it.
    pub fn stored_rows(&self) -> u64 {
        self.end - self.first
    }

    pub fn chunks(&self) -> &ChunkList {
        &self.published.chunks
    }

    /// Whether it shows a row of its chunks, as far as what ended the row says.
    pub fn shows(&self, chunk: &Chunk, row: usize) -> bool {
        // Nothing had ended before the first cycle.
        self.published.newest_cycle.is_none() || chunk.is_shown(row, self.cycle)
    }

    /// How many chunks have rows of it.
    pub fn chunks_of_version(&self) -> usize {
        self.chunks().count(self.first, self.end)
    }
}
