//! Rows of a durable source again, as its clock has given them before.

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::{Chunk, guard};
use tidemill_journal::{Positions, Record, StreamReader};

use super::source_journal::SourceJournal;
use crate::chunk_builder::ChunkBuilder;
use crate::feed_settings::FeedSettings;

/// Reads the journal of a source.
pub(crate) trait ReadRecord: Send {
    /// The record with the row at a position; `None`: the journal ends before.
    fn read(&mut self, position: u64) -> Result<Option<Record>, Cause>;
}

impl ReadRecord for StreamReader {
    fn read(&mut self, position: u64) -> Result<Option<Record>, Cause> {
        StreamReader::read(self, position)
    }
}

/// Reads the journal of a source from a cut on. Event times and lateness are decided again, with the same result.
pub(crate) struct SourceReplay {
    reader: Box<dyn ReadRecord>,
    chunks: ChunkBuilder,
    /// The positions that are left out.
    skipped: Positions,
    position: u64,
    /// What is left of a record behind the last cut.
    rest: Option<Chunk>,
}

impl SourceReplay {
    /// From a cut on, at which the source was at this position and complete up to this event time.
    pub fn new(source: &SourceJournal, place: (u64, i64)) -> SourceReplay {
        let streams = [SchemaRef::clone(&source.schema), SchemaRef::clone(&source.schema)];
        let reader = (Box::new(source.reader()) as _, Positions::default());
        SourceReplay::of(reader, (&source.settings, &streams), place)
    }

    /// As `new`, for rows that come in with these settings and columns, without those at some positions.
    pub fn of(
        (reader, skipped): (Box<dyn ReadRecord>, Positions),
        (settings, streams): (&FeedSettings, &[SchemaRef]),
        (position, watermark): (u64, i64),
    ) -> SourceReplay {
        let chunks = ChunkBuilder::new(settings, streams).resumed(watermark);
        SourceReplay { reader, chunks, skipped, position, rest: None }
    }

    /// The rows up to a cut.
    pub fn up_to(&mut self, end: u64) -> Result<Vec<Chunk>, Cause> {
        let mut chunks = Vec::new();
        while self.position < end {
            let chunk = match self.rest.take() {
                Some(chunk) => chunk,
                None => self.next_chunk()?,
            };
            let (now, rest) = chunk.split_at(u32::try_from(end - self.position).unwrap_or(u32::MAX));
            self.rest = rest;
            self.position += now.iter().map(|chunk| u64::from(chunk.events)).sum::<u64>();
            chunks.extend(now);
        }
        Ok(chunks)
    }

    /// What is in the journal from the position on, up to the end of a record.
    fn next_chunk(&mut self) -> Result<Chunk, Cause> {
        let record = self.reader.read(self.position)?.ok_or_else(|| {
            Cause::operation(format!(
                "the journal of a source ends before position {}, which belongs to a logged cycle; restore the \
                 journal's folder",
                self.position
            ))
        })?;
        let end = record.start + record.rows.num_rows() as u64;
        let skipped = self.skipped.within(record.start..end);
        let mut chunk = guard(|| self.chunks.take_without(&record, &skipped))?;
        chunk.arrived_ns = Some(record.arrived_ns);
        let known = u32::try_from(self.position - record.start).unwrap_or(u32::MAX);
        let rest = chunk.split_at(known).1;
        rest.ok_or_else(|| Cause::bug("a record of a journal has no rows at the position that was read"))
    }
}
