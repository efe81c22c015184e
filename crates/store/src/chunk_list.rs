//! The chunks of a store, in the order of their rows.

use std::sync::Arc;

use crate::chunk::Chunk;

/// Complete chunks, and behind them the open one in pieces. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ChunkList {
    pub complete: Arc<Vec<Arc<Chunk>>>,
    pub open: Vec<Arc<Chunk>>,
}

impl ChunkList {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Chunk>> {
        self.complete.iter().chain(&self.open)
    }

    /// The chunk with this row.
    pub fn find(&self, number: u64) -> Option<&Arc<Chunk>> {
        let is_open = self.open.first().is_some_and(|first| first.first <= number);
        let chunks = if is_open { &self.open } else { self.complete.as_slice() };
        let after = chunks.partition_point(|chunk| chunk.first <= number);
        chunks[..after].last().filter(|chunk| number < chunk.end())
    }
}
