//! Rows of a durable source again, as its clock has given them before.

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::{Chunk, guard};
use tidemill_journal::{Positions, StreamReader};

use super::clock_journal::SourceJournal;
use crate::chunk_builder::ChunkBuilder;

/// Reads the journal of a source from a cut on. Event times and lateness are decided again, with the same result.
pub(super) struct SourceReplay {
    reader: StreamReader,
    chunks: ChunkBuilder,
    position: u64,
    /// What is left of a record behind the last cut.
    rest: Option<Chunk>,
}

impl SourceReplay {
    /// From a cut on, at which the source was at this position and complete up to this event time.
    pub fn new(source: &SourceJournal, (position, watermark): (u64, i64)) -> SourceReplay {
        let streams = [SchemaRef::clone(&source.schema), SchemaRef::clone(&source.schema)];
        let chunks = ChunkBuilder::new(&source.settings, &streams).resumed(watermark);
        SourceReplay { reader: source.reader(), chunks, position, rest: None }
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
        let mut chunk = guard(|| self.chunks.take_without(&record, &Positions::default()))?;
        chunk.arrived_ns = Some(record.arrived_ns);
        let known = u32::try_from(self.position - record.start).unwrap_or(u32::MAX);
        let rest = chunk.split_at(known).1;
        rest.ok_or_else(|| Cause::bug("a record of a journal has no rows at the position that was read"))
    }
}
