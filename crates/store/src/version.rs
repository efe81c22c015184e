//! A version of a store: its rows after some cycle. It does not change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use crate::chunk::Chunk;
use crate::chunk_list::ChunkList;
use crate::config::StoreConfig;
use crate::selection::Work;
use crate::store_state::{Published, StoreState};

/// The rows of a store after some cycle. It does not change, and the rows stay as long as it exists.
#[derive(Clone)]
pub struct Version {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) published: Arc<Published>,
    pub(crate) cycle: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// What a search calls after each chunk that it has looked into: it may wait, or end the search.
pub type Pause<'a> = dyn FnMut() -> Result<(), Cause> + 'a;

/// A row of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    pub chunk: &'a Arc<Chunk>,
    pub row: usize,
}

impl StoredRow<'_> {
    /// For a row of a table, how many keys came before its key.
    pub fn ordinal(&self) -> Option<u64> {
        self.chunk.table.as_ref().map(|table| table.ordinals[self.row].load(Ordering::Relaxed))
    }
}

impl Version {
    /// The cycle after which these were the rows; `None` before the first.
    pub fn cycle(&self) -> Option<u64> {
        self.published.newest_cycle.map(|newest| newest.min(self.cycle))
    }

    /// What the store holds.
    pub fn config(&self) -> &StoreConfig {
        &self.shared.config
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.shared.config.schema.clone()
    }

    /// How many rows had been stored by then, also those that were dropped.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many rows were stored for it; those of a table that were replaced since count as well.
    pub fn stored_rows(&self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn chunks(&self) -> &ChunkList {
        &self.published.chunks
    }

    pub(crate) fn work(&self) -> Work {
        let chunks = self.chunks().count(self.first, self.end);
        Work { chunks, rows: self.stored_rows(), ..Work::default() }
    }
}
