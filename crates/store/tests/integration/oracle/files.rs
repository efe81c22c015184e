//! Files of chunks in memory, of which two chunks share one.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_core::Cause;
use tidemill_store::{ChunkFiles, ChunkPlace};

#[derive(Clone, Default)]
pub struct Files {
    files: BTreeMap<u64, Vec<u8>>,
    written: u64,
}

impl Files {
    /// Removes what no snapshot names.
    pub fn keep_only(&mut self, named: &BTreeSet<u64>) {
        assert!(named.iter().all(|file| self.files.contains_key(file)), "what is named is there");
        self.files.retain(|file, _| named.contains(file));
    }
}

impl ChunkFiles for Files {
    fn write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause> {
        let file = self.written / 2;
        self.written += 1;
        let content = self.files.entry(file).or_default();
        let offset = content.len() as u64;
        content.extend_from_slice(bytes);
        Ok(ChunkPlace { file, offset, length: bytes.len() as u64, checksum: 7 })
    }

    fn sync(&mut self) -> Result<(), Cause> {
        // What follows begins another file.
        self.written = self.written.next_multiple_of(2);
        Ok(())
    }

    fn read(&mut self, place: &ChunkPlace) -> Result<Vec<u8>, Cause> {
        assert_eq!(place.checksum, 7);
        let content = self.files.get(&place.file).ok_or_else(|| Cause::operation("a file is missing"))?;
        let part = content.get(place.offset as usize..(place.offset + place.length) as usize);
        part.map(<[u8]>::to_vec).ok_or_else(|| Cause::operation("a chunk is missing"))
    }
}
