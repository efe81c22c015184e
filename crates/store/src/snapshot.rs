//! A store as bytes, and back.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_core::{Cause, SnapshotReader, SnapshotWriter, State};

use crate::chunk::Chunk;
use crate::chunk_fields::damaged;
use crate::chunk_files::{ChunkFiles, ChunkPlace};
use crate::config::{Contents, StoreConfig};
use crate::kept_chunks::{keep, kept_chunk};
use crate::marks::Mark;
use crate::reader::StoreReader;
use crate::writer::StoreWriter;

/// The first byte of a store that is not divided, or of a fragment, in which all rows are.
pub(crate) const WHOLE_VERSION: u8 = 1;
/// The first byte of one that names its complete chunks.
pub(crate) const VERSION: u8 = 3;
/// With this begins the [`fingerprint`] of a table, whose chunks say which rows were replaced.
pub(crate) const TABLE: &str = "LastOfKey ";
/// With this begins that of a changelog, whose versions also say which rows have come and which were taken back.
pub(crate) const CHANGES: &str = "Changes ";

impl StoreWriter {
    /// Writes all versions that can be read. Chunks that are complete, and were not before the last snapshot, are written to
    /// `files`; the snapshot names all of them. The files that it names are returned.
    ///
    /// # Errors
    /// [`Cause::bug`] if rows cannot be written as Arrow IPC; as for [`ChunkFiles::write`].
    pub fn snapshot(
        &self,
        writer: &mut SnapshotWriter,
        files: &mut dyn ChunkFiles,
    ) -> Result<BTreeSet<u64>, Cause> {
        let named = keep(self.chunks.complete.as_slice().iter(), files)?;
        self.write_manifest(writer)?;
        Ok(named)
    }

    /// Writes what a snapshot has when all complete chunks are kept.
    pub(crate) fn write_manifest(&self, writer: &mut SnapshotWriter) -> Result<(), Cause> {
        writer.u8(VERSION);
        fingerprint(&self.shared.config).write(writer);
        self.newest_cycle.write(writer);
        ((self.first, self.next, self.latest), (self.opened_at, self.keys, self.cleaned)).write(writer);
        (self.rows_dropped, self.chunks_dropped).write(writer);
        let has_changes = self.shared.config.contents == Contents::Changes;
        if has_changes {
            writer.u64(self.came);
        }
        writer.u64(self.marks.len() as u64);
        for mark in self.marks.iter() {
            (mark.cycle, mark.first, mark.end, mark.latest).write(writer);
            if has_changes {
                (mark.came, mark.taken.as_deref().unwrap_or_default().to_vec()).write(writer);
            }
        }
        let (complete, oldest) = (self.chunks.complete.as_slice(), self.oldest_cycle());
        writer.u64(complete.len() as u64);
        complete.iter().try_for_each(|chunk| name_chunk(chunk, oldest, writer))?;
        writer.u64(self.chunks.open.len() as u64);
        self.chunks.open.iter().try_for_each(|chunk| write_open_chunk(chunk, writer))
    }

    /// The oldest cycle that can be read.
    pub(crate) fn oldest_cycle(&self) -> u64 {
        self.marks.oldest().map_or(0, |mark| mark.cycle)
    }

    /// A store with all versions that [`snapshot`](StoreWriter::snapshot) has written, and the handle to read it. Its limits
    /// may differ from those of the store that was written, and count from the next cycle on.
    ///
    /// # Errors
    /// As for [`StoreConfig::check`]; [`Cause::user`] if the bytes are of a store with other columns or another key, or
    /// have an unknown version; [`Cause::operation`] if they are damaged; as for [`ChunkFiles::read`].
    pub fn restore(
        config: StoreConfig,
        reader: &mut SnapshotReader<'_>,
        files: &mut dyn ChunkFiles,
    ) -> Result<(StoreWriter, StoreReader), Cause> {
        let version = reader.version_of(&[WHOLE_VERSION, VERSION])?;
        StoreWriter::restore_rows(config, (version, reader), files)
    }

    /// As [`restore`](StoreWriter::restore), behind the version of the format.
    pub(crate) fn restore_rows(
        config: StoreConfig,
        (version, reader): (u8, &mut SnapshotReader<'_>),
        files: &mut dyn ChunkFiles,
    ) -> Result<(StoreWriter, StoreReader), Cause> {
        let (mut store, handle) = StoreWriter::new(config)?;
        let (found, expected) = (reader.text()?, fingerprint(&store.shared.config));
        if found != expected {
            let remedy = if found.replace("Float32", "Float64") == expected {
                "write REAL where it says FLOAT: FLOAT was REAL in earlier versions, and is DOUBLE now"
            } else {
                "drop the view, or define it as before"
            };
            return Err(Cause::user(format!(
                "the stored rows are those of another definition ({found}; expected: {expected}); {remedy}"
            )));
        }
        store.newest_cycle = State::read(reader)?;
        ((store.first, store.next, store.latest), (store.opened_at, store.keys, store.cleaned)) =
            State::read(reader)?;
        (store.rows_dropped, store.chunks_dropped) = State::read(reader)?;
        let has_changes = store.shared.config.contents == Contents::Changes;
        if has_changes {
            store.came = reader.u64()?;
        }
        for _ in 0..reader.u64()? {
            let (cycle, first, end, latest) = State::read(reader)?;
            let (came, taken): (u64, Vec<u64>) =
                if has_changes { State::read(reader)? } else { Default::default() };
            let taken = (!taken.is_empty()).then(|| taken.into());
            let mark = Mark { cycle, first, end, latest, came, taken };
            store.mark_bytes += mark.bytes();
            store.marks.push(mark);
        }
        store.gone = match store.marks.oldest() {
            Some(oldest) => Some(oldest.cycle.saturating_sub(1)),
            None => store.newest_cycle,
        };
        let (config, oldest) = (&store.shared.config, store.oldest_cycle());
        let complete = read_chunks(reader, |reader| match version {
            WHOLE_VERSION => read_chunk(config, reader, true),
            _ => named_chunk(config, oldest, reader, files),
        })?;
        let open = read_chunks(reader, |reader| read_chunk(config, reader, false))?;
        store.check_numbers(&complete, &open)?;
        let shown = complete.iter().filter(|chunk| chunk.first >= store.first);
        let shown: usize = shown.map(|chunk| chunk.bytes()).sum();
        store.add_complete(complete);
        store.shown_bytes = shown;
        store.chunks.open = open;
        store.link_restored()?;
        store.index_restored_rows()?;
        store.publish();
        Ok((store, handle))
    }

    /// Checks that the chunks have the rows of all versions.
    fn check_numbers(&self, complete: &[Arc<Chunk>], open: &[Arc<Chunk>]) -> Result<(), Cause> {
        let chunks = || complete.iter().chain(open);
        let follow = chunks().zip(chunks().skip(1)).all(|(one, next)| one.end() == next.first);
        let begin = chunks().next().map_or(self.next, |chunk| chunk.first);
        let end = chunks().last().map_or(self.next, |chunk| chunk.end());
        let is_in = |mark: &Mark| begin <= mark.first && mark.first <= mark.end && mark.end <= end;
        let marks_fit =
            self.marks.iter().all(is_in) && self.marks.newest().is_none_or(|mark| mark.end == end);
        if follow && end == self.next && begin <= self.first && self.first <= end && marks_fit {
            Ok(())
        } else {
            Err(damaged("its rows are not complete"))
        }
    }

    fn link_restored(&mut self) -> Result<(), Cause> {
        let (held, oldest) = (self.held_from(), self.oldest_cycle());
        let has_changes = self.shared.config.contents == Contents::Changes;
        let (Some(index), Some(hasher)) = (&mut self.index, &self.shared.hasher) else { return Ok(()) };
        for chunk in self.chunks.iter() {
            let hashes = hasher.hashes(&hasher.key_of(&chunk.rows), chunk.len())?;
            for (row, hash) in hashes.into_iter().enumerate() {
                let number = chunk.first + row as u64;
                if !has_changes {
                    index.set(hash, number, held, |before| chunk.set_before(row, before));
                } else if chunk.is_shown(row, oldest) {
                    index.set(hash, number, held, |before| self.chunks.link(number, before, oldest));
                }
            }
        }
        Ok(())
    }
}

/// What a store must agree on to use another's rows.
pub(crate) fn fingerprint(config: &StoreConfig) -> String {
    let fields = config.schema.fields().iter();
    let columns: Vec<String> =
        fields.map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    let (contents, key, time, point) = (config.contents, &config.key, config.time, config.point);
    format!("{contents:?} of ({}), key {key:?}, time {time:?}, point {point:?}", columns.join(", "))
}

fn read_chunks(
    reader: &mut SnapshotReader<'_>,
    mut read: impl FnMut(&mut SnapshotReader<'_>) -> Result<Chunk, Cause>,
) -> Result<Vec<Arc<Chunk>>, Cause> {
    let count = reader.u64()?;
    // Collected one by one: a count that is damaged must not reserve memory.
    (0..count).map(|_| read(reader).map(Arc::new)).collect()
}

/// Writes a chunk of the open ones, which is in no file.
fn write_open_chunk(chunk: &Chunk, writer: &mut SnapshotWriter) -> Result<(), Cause> {
    chunk.write_rows(writer)?;
    if let Some(table) = &chunk.table {
        table.write_ended(writer);
        table.write_ordinals(writer);
    }
    Ok(())
}

/// Reads a chunk that is in the snapshot itself.
fn read_chunk(
    config: &StoreConfig,
    reader: &mut SnapshotReader<'_>,
    is_complete: bool,
) -> Result<Chunk, Cause> {
    let mut chunk = Chunk::read_rows(config, reader)?;
    chunk.read_ended(reader)?;
    chunk.read_ordinals(reader)?;
    if is_complete {
        chunk.complete();
    }
    Ok(chunk)
}

/// Names a complete chunk, and says what has changed about it since it was written.
fn name_chunk(chunk: &Chunk, oldest: u64, writer: &mut SnapshotWriter) -> Result<(), Cause> {
    let place = chunk.place.get().ok_or_else(|| Cause::bug("a chunk is in no file"))?;
    writer.u64(place.file);
    writer.u64(place.offset);
    writer.u64(place.length);
    writer.u32(place.checksum);
    if let Some(table) = &chunk.table {
        table.write_replaced(oldest, writer);
    }
    Ok(())
}

/// Reads a chunk that is named.
fn named_chunk(
    config: &StoreConfig,
    oldest: u64,
    reader: &mut SnapshotReader<'_>,
    files: &mut dyn ChunkFiles,
) -> Result<Chunk, Cause> {
    let (file, offset, length, checksum) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u32()?);
    let chunk = kept_chunk(config, ChunkPlace { file, offset, length, checksum }, files)?;
    if let Some(table) = &chunk.table {
        table.read_replaced(oldest, reader)?;
    }
    Ok(chunk)
}
