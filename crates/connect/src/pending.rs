//! Cycles that were prepared and wait for their commit.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, Cause, CycleOutput};

use crate::formats::encode::TextEncoder;

/// The most bytes of text that wait for a commit.
pub(crate) const PENDING_BYTES_MAX: usize = 1 << 30;

/// A larger buffer is released once it is empty.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// All rows of a cycle, stream after stream, none of them empty.
///
/// # Errors
/// [`Cause::bug`] if they do not have the schema that the sink was made for.
pub(crate) fn rows_of(output: CycleOutput, schema: &SchemaRef) -> Result<(u64, Vec<RecordBatch>), Cause> {
    let (cycle, batches) = batches_of(output, schema)?;
    Ok((cycle, batches.into_iter().map(|batch| batch.rows).collect()))
}

/// Like [`rows_of`], with the positions of the rows.
pub(crate) fn batches_of(output: CycleOutput, schema: &SchemaRef) -> Result<(u64, Vec<Batch>), Cause> {
    let cycle = output.cut.cycle;
    let batches = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
    let checked = batches.map(|batch| Ok(Batch { rows: with_schema(batch.rows, schema)?, ..batch }));
    Ok((cycle, checked.collect::<Result<_, Cause>>()?))
}

/// The rows with the sink's own schema, which may differ in names, metadata and nullability, but not in types.
pub(crate) fn with_schema(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    if rows.schema_ref() == schema {
        return Ok(rows);
    }
    RecordBatch::try_new(schema.clone(), rows.columns().to_vec()).map_err(|error| {
        Cause::bug(format!("a sink received rows that do not have its columns: {error}")).with_source(error)
    })
}

/// Rows of whole cycles.
#[derive(Debug, Default)]
pub(crate) struct PendingRows {
    cycles: VecDeque<(u64, Vec<RecordBatch>)>,
}

impl PendingRows {
    /// Keeps the rows of a cycle.
    pub fn push(&mut self, output: CycleOutput, schema: &SchemaRef) -> Result<(), Cause> {
        self.cycles.push_back(rows_of(output, schema)?);
        Ok(())
    }

    /// Returns the rows of all cycles up to this one.
    pub fn take(&mut self, last_cycle: u64) -> Vec<RecordBatch> {
        let count = self.cycles.partition_point(|(cycle, _)| *cycle <= last_cycle);
        self.cycles.drain(..count).flat_map(|(_, rows)| rows).collect()
    }
}

/// Rows of whole cycles, with their cycles and positions.
#[cfg(feature = "kafka")]
#[derive(Debug, Default)]
pub(crate) struct PendingBatches {
    batches: VecDeque<(u64, Batch)>,
}

#[cfg(feature = "kafka")]
impl PendingBatches {
    /// Keeps the rows of a cycle.
    pub fn push(&mut self, output: CycleOutput, schema: &SchemaRef) -> Result<(), Cause> {
        let (cycle, batches) = batches_of(output, schema)?;
        self.batches.extend(batches.into_iter().map(|batch| (cycle, batch)));
        Ok(())
    }

    /// Returns the rows of all cycles up to this one.
    pub fn take(&mut self, last_cycle: u64) -> Vec<(u64, Batch)> {
        let count = self.batches.partition_point(|(cycle, _)| *cycle <= last_cycle);
        self.batches.drain(..count).collect()
    }
}

/// Text of whole cycles.
pub(crate) struct PendingText {
    schema: SchemaRef,
    encoder: Box<dyn TextEncoder>,
    text: Vec<u8>,
    /// For each cycle its number, and the end of its text and of its rows.
    ends: VecDeque<(u64, usize, u64)>,
    rows: u64,
}

impl PendingText {
    pub fn new(schema: &SchemaRef, encoder: Box<dyn TextEncoder>) -> PendingText {
        PendingText { schema: schema.clone(), encoder, text: Vec::new(), ends: VecDeque::new(), rows: 0 }
    }

    /// The text before the first row.
    pub fn header(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.encoder.header(&mut text);
        text
    }

    /// The text for no rows at all, after the header.
    pub fn without_rows(&mut self) -> Result<Vec<u8>, Cause> {
        let mut text = Vec::new();
        self.encoder.rows(&RecordBatch::new_empty(self.schema.clone()), &mut text)?;
        Ok(text)
    }

    /// Encodes the rows of a cycle.
    pub fn push(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let (cycle, batches) = rows_of(output, &self.schema)?;
        for rows in batches {
            self.encoder.rows(&rows, &mut self.text)?;
            self.rows += rows.num_rows() as u64;
            if self.text.len() > PENDING_BYTES_MAX {
                return Err(Cause::resource(format!(
                    "more than {} MiB of text are waiting for the commit of cycle {cycle}; use smaller cycles",
                    PENDING_BYTES_MAX >> 20
                )));
            }
        }
        self.ends.push_back((cycle, self.text.len(), self.rows));
        Ok(())
    }

    /// Passes the text of all cycles up to this one, and its number of rows, to `write`, then drops it.
    pub fn take(
        &mut self,
        last_cycle: u64,
        write: impl FnOnce(&[u8], u64) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let count = self.ends.partition_point(|(cycle, _, _)| *cycle <= last_cycle);
        let (_, end, rows) = self.ends.drain(..count).next_back().unwrap_or((0, 0, 0));
        let written = write(&self.text[..end], rows);
        self.text.drain(..end);
        if self.text.is_empty() && self.text.capacity() > KEPT_BYTES_MAX {
            self.text = Vec::new();
        }
        self.rows -= rows;
        for later in &mut self.ends {
            later.1 -= end;
            later.2 -= rows;
        }
        written
    }
}
