//! A store as bytes, and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter, State};

use crate::chunk::Chunk;
use crate::config::StoreConfig;
use crate::marks::Mark;
use crate::reader::StoreReader;
use crate::writer::StoreWriter;

/// The first byte of a store that is not divided, or of a fragment.
pub(crate) const VERSION: u8 = 1;

impl StoreWriter {
    /// Writes all versions that can be read.
    ///
    /// # Errors
    /// [`Cause::bug`] if rows cannot be written as Arrow IPC.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) -> Result<(), Cause> {
        writer.u8(VERSION);
        fingerprint(&self.shared.config).write(writer);
        self.newest_cycle.write(writer);
        ((self.first, self.next, self.latest), (self.opened_at, self.keys, self.cleaned)).write(writer);
        (self.rows_dropped, self.chunks_dropped).write(writer);
        writer.u64(self.marks.len() as u64);
        for mark in self.marks.iter() {
            (mark.cycle, mark.first, mark.end, mark.latest).write(writer);
        }
        for chunks in [self.chunks.complete.as_slice(), &self.chunks.open] {
            writer.u64(chunks.len() as u64);
            chunks.iter().try_for_each(|chunk| write_chunk(chunk, writer))?;
        }
        Ok(())
    }

    /// A store with all versions that [`snapshot`](StoreWriter::snapshot) has written, and the handle to read it. Its limits
    /// may differ from those of the store that was written, and count from the next cycle on.
    ///
    /// # Errors
    /// As for [`StoreConfig::check`]; [`Cause::user`] if the bytes are of a store with other columns or another key, or
    /// have an unknown version; [`Cause::operation`] if they are damaged.
    pub fn restore(
        config: StoreConfig,
        reader: &mut SnapshotReader<'_>,
    ) -> Result<(StoreWriter, StoreReader), Cause> {
        reader.version(VERSION)?;
        StoreWriter::restore_rows(config, reader)
    }

    /// As [`restore`](StoreWriter::restore), behind the version of the format.
    pub(crate) fn restore_rows(
        config: StoreConfig,
        reader: &mut SnapshotReader<'_>,
    ) -> Result<(StoreWriter, StoreReader), Cause> {
        let (mut store, handle) = StoreWriter::new(config)?;
        let (found, expected) = (reader.text()?, fingerprint(&store.shared.config));
        if found != expected {
            return Err(Cause::user(format!(
                "the stored rows are those of another definition ({found}; expected: {expected}); drop the view, or \
                 define it as before"
            )));
        }
        store.newest_cycle = State::read(reader)?;
        ((store.first, store.next, store.latest), (store.opened_at, store.keys, store.cleaned)) =
            State::read(reader)?;
        (store.rows_dropped, store.chunks_dropped) = State::read(reader)?;
        for _ in 0..reader.u64()? {
            let (cycle, first, end, latest) = State::read(reader)?;
            store.marks.push(Mark { cycle, first, end, latest });
        }
        store.gone = match store.marks.oldest() {
            Some(oldest) => Some(oldest.cycle.saturating_sub(1)),
            None => store.newest_cycle,
        };
        let complete = store.read_chunks(reader, true)?;
        let open = store.read_chunks(reader, false)?;
        store.check_numbers(&complete, &open)?;
        let shown = complete.iter().filter(|chunk| chunk.first >= store.first);
        let shown: usize = shown.map(|chunk| chunk.bytes()).sum();
        store.add_complete(complete);
        store.shown_bytes = shown;
        store.chunks.open = open;
        store.link_restored()?;
        store.publish();
        Ok((store, handle))
    }

    fn read_chunks(
        &self,
        reader: &mut SnapshotReader<'_>,
        is_complete: bool,
    ) -> Result<Vec<Arc<Chunk>>, Cause> {
        let count = reader.u64()?;
        // Collected one by one: a count that is damaged must not reserve memory.
        (0..count).map(|_| read_chunk(&self.shared.config, reader, is_complete).map(Arc::new)).collect()
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
        match follow && end == self.next && begin <= self.first && self.first <= end && marks_fit {
            true => Ok(()),
            false => Err(damaged("its rows are not complete")),
        }
    }

    fn link_restored(&mut self) -> Result<(), Cause> {
        let held = self.held_from();
        let (Some(index), Some(hasher)) = (&mut self.index, &self.shared.hasher) else { return Ok(()) };
        for chunk in self.chunks.iter() {
            let hashes = hasher.hashes(&hasher.key_of(&chunk.rows), chunk.len())?;
            for (row, hash) in hashes.into_iter().enumerate() {
                index.set(hash, chunk.first + row as u64, held, |before| chunk.set_before(row, before));
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

fn write_chunk(chunk: &Chunk, writer: &mut SnapshotWriter) -> Result<(), Cause> {
    writer.u64(chunk.first);
    writer.i64(chunk.times.as_ref().map_or(i64::MIN, |times| times.latest));
    let schema = chunk.rows.schema();
    let ipc = || {
        let mut stream = StreamWriter::try_new(Vec::new(), &schema)?;
        stream.write(&chunk.rows)?;
        stream.into_inner()
    };
    let bytes = ipc().map_err(|error: arrow_schema::ArrowError| {
        Cause::bug(format!("rows cannot be written to a snapshot: {error}")).with_source(error)
    })?;
    writer.bytes(&bytes);
    if let Some(table) = &chunk.table {
        for values in [&table.ended, &table.ordinals] {
            let bytes = values.iter().flat_map(|value| value.load(Ordering::Relaxed).to_le_bytes());
            writer.bytes(&bytes.collect::<Vec<u8>>());
        }
    }
    Ok(())
}

fn read_chunk(
    config: &StoreConfig,
    reader: &mut SnapshotReader<'_>,
    is_complete: bool,
) -> Result<Chunk, Cause> {
    let (first, latest) = (reader.u64()?, reader.i64()?);
    let rows = read_rows(config, reader.bytes()?)?;
    let mut chunk = Chunk::new(config, first, rows, latest)?;
    let count = chunk.len();
    if let Some(table) = &mut chunk.table {
        table.ended = read_numbers(reader.bytes()?, count)?;
        table.ordinals = read_numbers(reader.bytes()?, count)?;
    }
    if is_complete {
        chunk.complete();
    }
    Ok(chunk)
}

fn read_rows(config: &StoreConfig, bytes: &[u8]) -> Result<RecordBatch, Cause> {
    let wrong = |error: arrow_schema::ArrowError| damaged(&error.to_string()).with_source(error);
    let mut stream = StreamReader::try_new(bytes, None).map_err(wrong)?;
    let rows = stream.next().ok_or_else(|| damaged("rows are missing"))?.map_err(wrong)?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(config.schema.clone(), rows.columns().to_vec(), &options).map_err(wrong)
}

fn read_numbers(bytes: &[u8], count: usize) -> Result<Box<[AtomicU64]>, Cause> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    match numbers.len() == count && rest.is_empty() {
        true => Ok(numbers.iter().map(|number| AtomicU64::new(u64::from_le_bytes(*number))).collect()),
        false => Err(damaged("a column of numbers has another length")),
    }
}

pub(crate) fn damaged(what: &str) -> Cause {
    Cause::operation(format!("the snapshot of a store is damaged: {what}"))
}
