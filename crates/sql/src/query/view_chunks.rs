//! The complete chunks of a view's store, in the journal of its query.

use std::collections::BTreeSet;

use tidemill_engine::{Cause, ChunkPlace as Place, StoredChunks, chain};
use tidemill_store::{ChunkFiles, ChunkPlace};
use tracing::warn;

/// The files with the complete chunks of a view.
pub(crate) struct ViewChunks {
    chunks: StoredChunks,
    /// The files of which something was read.
    read: BTreeSet<u64>,
}

impl ViewChunks {
    pub fn new(chunks: StoredChunks) -> ViewChunks {
        ViewChunks { chunks, read: BTreeSet::new() }
    }

    /// Removes the files of which nothing was read.
    pub fn remove_unread(&mut self) -> Result<(), Cause> {
        self.chunks.keep_only(&std::mem::take(&mut self.read))
    }

    /// Removes all other files than these. If that fails it costs only room, and the next time tries again.
    pub fn keep_only(&mut self, named: &BTreeSet<u64>) {
        if let Err(cause) = self.chunks.keep_only(named) {
            warn!(causes = ?chain(&cause), "files with outdated rows of a view cannot be removed");
        }
    }
}

impl ChunkFiles for ViewChunks {
    fn write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause> {
        let Place { file, offset, length, checksum } = self.chunks.write(bytes)?;
        Ok(ChunkPlace { file, offset, length, checksum })
    }

    fn sync(&mut self) -> Result<(), Cause> {
        self.chunks.sync()
    }

    fn read(&mut self, place: &ChunkPlace) -> Result<Vec<u8>, Cause> {
        let ChunkPlace { file, offset, length, checksum } = *place;
        self.read.insert(file);
        self.chunks.read(&Place { file, offset, length, checksum })
    }
}
