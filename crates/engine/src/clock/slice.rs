//! The rows of one source in one cycle, shared by the queries that read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::memory::bytes_of_rows;
use tidemill_flow::Chunk;

/// The rows of one source in one cycle. They count as held until the last query has taken them.
pub(super) struct Slice {
    pub chunks: Vec<Chunk>,
    bytes: u64,
    held_bytes: Arc<AtomicU64>,
}

impl Slice {
    pub fn new(chunks: Vec<Chunk>, held_bytes: &Arc<AtomicU64>) -> Arc<Slice> {
        let bytes = chunks.iter().map(bytes_of).sum();
        held_bytes.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Slice { chunks, bytes, held_bytes: Arc::clone(held_bytes) })
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a chunk without rows takes.
const CHUNK_BYTES: u64 = 128;

/// The bytes that a chunk takes.
pub(super) fn bytes_of(chunk: &Chunk) -> u64 {
    CHUNK_BYTES + row_bytes_of(chunk)
}

/// The bytes of the rows of a chunk.
pub(super) fn row_bytes_of(chunk: &Chunk) -> u64 {
    let batches = chunk.streams.iter().flatten();
    batches.map(|batch| bytes_of_rows(&batch.rows) as u64).sum()
}
