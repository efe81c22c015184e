//! Which complete chunks the snapshot of a store names, read without its definition.

use tidemill_core::{Cause, SnapshotReader, State};

use crate::chunk_fields::damaged;
use crate::chunk_files::ChunkPlace;
use crate::fragmentation::FRAGMENTS_MAX;
use crate::fragments::VERSION as FRAGMENTS_VERSION;
use crate::snapshot::{CHANGES, TABLE, VERSION, WHOLE_VERSION};

/// The places of all complete chunks that a snapshot names, in its order. None if its rows are in the snapshot itself.
///
/// ```
/// let damaged = tidemill_store::named_chunks(b"not a snapshot");
/// assert!(damaged.is_err());
/// ```
///
/// # Errors
/// [`Cause::operation`] if the bytes are damaged, [`Cause::user`] if they are of a version that this program does not know.
pub fn named_chunks(snapshot: &[u8]) -> Result<Vec<ChunkPlace>, Cause> {
    let mut reader = SnapshotReader::new(snapshot)?;
    let mut places = Vec::new();
    match reader.version_of(&[WHOLE_VERSION, FRAGMENTS_VERSION, VERSION])? {
        FRAGMENTS_VERSION => {
            let (count, _by) = (reader.u32()?, reader.text()?);
            if !(1..=FRAGMENTS_MAX).contains(&count) {
                return Err(damaged("it has an impossible number of fragments"));
            }
            let _: (u64, i64) = State::read(&mut reader)?;
            for _ in 0..count {
                let version = reader.version_of(&[WHOLE_VERSION, VERSION])?;
                read_store(version, &mut reader, &mut places)?;
            }
        }
        version => read_store(version, &mut reader, &mut places)?,
    }
    if reader.is_empty() { Ok(places) } else { Err(damaged("it has more than it should")) }
}

/// Reads a store, or a fragment, behind its version.
fn read_store(
    version: u8,
    reader: &mut SnapshotReader<'_>,
    places: &mut Vec<ChunkPlace>,
) -> Result<(), Cause> {
    let definition = reader.text()?;
    let has_changes = definition.starts_with(CHANGES);
    let is_table = has_changes || definition.starts_with(TABLE);
    let _: Option<u64> = State::read(reader)?;
    let _: ((u64, u64, i64), (i64, u64, u64)) = State::read(reader)?;
    let _: (u64, u64) = State::read(reader)?;
    if has_changes {
        let _came = reader.u64()?;
    }
    for _ in 0..reader.u64()? {
        let _: (u64, u64, u64, i64) = State::read(reader)?;
        if has_changes {
            let _: (u64, Vec<u64>) = State::read(reader)?;
        }
    }
    for _ in 0..reader.u64()? {
        match version {
            WHOLE_VERSION => skip_rows(is_table, reader)?,
            _ => places.push(read_name(is_table, reader)?),
        }
    }
    for _ in 0..reader.u64()? {
        skip_rows(is_table, reader)?;
    }
    Ok(())
}

/// A chunk that is in the snapshot itself.
fn skip_rows(is_table: bool, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
    let (_first, _latest, _rows) = (reader.u64()?, reader.i64()?, reader.bytes()?);
    if is_table {
        let (_ended, _ordinals) = (reader.bytes()?, reader.bytes()?);
    }
    Ok(())
}

/// A chunk that is named.
fn read_name(is_table: bool, reader: &mut SnapshotReader<'_>) -> Result<ChunkPlace, Cause> {
    let (file, offset, length, checksum) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u32()?);
    if is_table {
        // Which of its rows were replaced.
        reader.bytes()?;
        for _ in 0..reader.u64()? {
            let (_row, _cycle) = (reader.u32()?, reader.u64()?);
        }
    }
    Ok(ChunkPlace { file, offset, length, checksum })
}
