//! Complete chunks, each of them written once and named by the snapshots that follow.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use crate::chunk::Chunk;
use crate::chunk_fields::damaged;
use crate::chunk_files::{ChunkFiles, ChunkPlace};
use crate::config::StoreConfig;

/// The format of a chunk that is kept.
const VERSION: u8 = 1;

/// Keeps those of these complete chunks that are not kept yet. The files with all of them are returned.
pub(crate) fn keep<'a>(
    chunks: impl Iterator<Item = &'a Arc<Chunk>> + Clone,
    files: &mut dyn ChunkFiles,
) -> Result<BTreeSet<u64>, Cause> {
    let mut places = Vec::new();
    for chunk in chunks.clone().filter(|chunk| chunk.place.get().is_none()) {
        places.push((chunk, files.write(&chunk_bytes(chunk)?)?));
    }
    if !places.is_empty() {
        files.sync()?;
    }
    for (chunk, place) in places {
        // Nobody else sets it: a store has one writer.
        let _ = chunk.place.set(place);
    }
    Ok(chunks.filter_map(|chunk| Some(chunk.place.get()?.file)).collect())
}

fn chunk_bytes(chunk: &Chunk) -> Result<Vec<u8>, Cause> {
    let mut writer = SnapshotWriter::default();
    writer.u8(VERSION);
    chunk.write_rows(&mut writer)?;
    if let Some(table) = &chunk.table {
        table.write_ordinals(&mut writer);
    }
    Ok(writer.finish())
}

/// Reads a chunk that is kept. Of a table, it does not say yet which of its rows were replaced.
pub(crate) fn kept_chunk(
    config: &StoreConfig,
    place: ChunkPlace,
    files: &mut dyn ChunkFiles,
) -> Result<Chunk, Cause> {
    let bytes = files.read(&place)?;
    let mut reader = SnapshotReader::new(&bytes)?;
    reader.version(VERSION)?;
    let mut chunk = Chunk::read_rows(config, &mut reader)?;
    chunk.read_ordinals(&mut reader)?;
    if !reader.is_empty() {
        return Err(damaged("a chunk has more than it should"));
    }
    chunk.complete();
    // It is new.
    let _ = chunk.place.set(place);
    Ok(chunk)
}
