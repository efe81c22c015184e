//! A chunk as fields: its rows, and what is known about each of them.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use crate::chunk::{Chunk, NEVER, TableRows};
use crate::config::StoreConfig;

impl Chunk {
    /// Writes the number of its first row, its times and its rows.
    pub(crate) fn write_rows(&self, writer: &mut SnapshotWriter) -> Result<(), Cause> {
        writer.u64(self.first);
        writer.i64(self.times.as_ref().map_or(i64::MIN, |times| times.latest));
        let schema = self.rows.schema();
        let ipc = || {
            let mut stream = StreamWriter::try_new(Vec::new(), &schema)?;
            stream.write(&self.rows)?;
            stream.into_inner()
        };
        let bytes = ipc().map_err(|error: arrow_schema::ArrowError| {
            Cause::bug(format!("rows cannot be written to a snapshot: {error}")).with_source(error)
        })?;
        writer.bytes(&bytes);
        Ok(())
    }

    /// Reads what [`write_rows`](Chunk::write_rows) has written.
    pub(crate) fn read_rows(config: &StoreConfig, reader: &mut SnapshotReader<'_>) -> Result<Chunk, Cause> {
        let (first, latest) = (reader.u64()?, reader.i64()?);
        Chunk::new(config, first, rows_of(config, reader.bytes()?)?, latest)
    }

    /// Reads what [`write_ended`](TableRows::write_ended) has written, if it is of a table.
    pub(crate) fn read_ended(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let count = self.len();
        let Some(table) = &mut self.table else { return Ok(()) };
        table.ended = read_numbers(reader.bytes()?, count)?;
        Ok(())
    }

    /// Reads what [`write_ordinals`](TableRows::write_ordinals) has written, if it is of a table.
    pub(crate) fn read_ordinals(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let count = self.len();
        let Some(table) = &mut self.table else { return Ok(()) };
        table.ordinals = read_numbers(reader.bytes()?, count)?;
        Ok(())
    }
}

impl TableRows {
    /// Writes by which cycle each row was replaced.
    pub(crate) fn write_ended(&self, writer: &mut SnapshotWriter) {
        write_numbers(&self.ended, writer);
    }

    /// Writes the place of each row's key in the order of keys.
    pub(crate) fn write_ordinals(&self, writer: &mut SnapshotWriter) {
        write_numbers(&self.ordinals, writer);
    }

    /// Writes which rows were replaced: a bit for each row that the version after cycle `oldest` does not have, and the cycle of
    /// each that was replaced later. There are few of these, because earlier versions have only a small part of the memory.
    pub(crate) fn write_replaced(&self, oldest: u64, writer: &mut SnapshotWriter) {
        let mut gone = vec![0_u8; self.ended.len().div_ceil(8)];
        let mut later = Vec::new();
        for (row, ended) in self.ended.iter().enumerate() {
            match ended.load(Ordering::Relaxed) {
                NEVER => {}
                ended if ended > oldest => later.push((row as u32, ended)),
                _ => gone[row / 8] |= 1 << (row % 8),
            }
        }
        let has_gone = gone.iter().any(|bits| *bits != 0);
        writer.bytes(if has_gone { &gone } else { &[] });
        writer.u64(later.len() as u64);
        for (row, ended) in later {
            writer.u32(row);
            writer.u64(ended);
        }
    }

    /// Reads what [`write_replaced`](TableRows::write_replaced) has written.
    pub(crate) fn read_replaced(&self, oldest: u64, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let gone = reader.bytes()?;
        if !gone.is_empty() && gone.len() != self.ended.len().div_ceil(8) {
            return Err(damaged("it says of another number of rows which are outdated"));
        }
        for (row, ended) in self.ended.iter().enumerate() {
            if gone.get(row / 8).is_some_and(|bits| bits & (1 << (row % 8)) != 0) {
                ended.store(oldest, Ordering::Relaxed);
            }
        }
        for _ in 0..reader.u64()? {
            let (row, cycle) = (reader.u32()?, reader.u64()?);
            let ended = self.ended.get(row as usize);
            ended.ok_or_else(|| damaged("an outdated row is missing"))?.store(cycle, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn rows_of(config: &StoreConfig, bytes: &[u8]) -> Result<RecordBatch, Cause> {
    let wrong = |error: arrow_schema::ArrowError| damaged(&error.to_string()).with_source(error);
    let mut stream = StreamReader::try_new(bytes, None).map_err(wrong)?;
    let rows = stream.next().ok_or_else(|| damaged("rows are missing"))?.map_err(wrong)?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(config.schema.clone(), rows.columns().to_vec(), &options).map_err(wrong)
}

fn write_numbers(values: &[AtomicU64], writer: &mut SnapshotWriter) {
    let bytes = values.iter().flat_map(|value| value.load(Ordering::Relaxed).to_le_bytes());
    writer.bytes(&bytes.collect::<Vec<u8>>());
}

fn read_numbers(bytes: &[u8], count: usize) -> Result<Box<[AtomicU64]>, Cause> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if numbers.len() == count && rest.is_empty() {
        Ok(numbers.iter().map(|number| AtomicU64::new(u64::from_le_bytes(*number))).collect())
    } else {
        Err(damaged("a column of numbers has another length"))
    }
}

pub(crate) fn damaged(what: &str) -> Cause {
    Cause::operation(format!("the snapshot of a store is damaged: {what}"))
}
