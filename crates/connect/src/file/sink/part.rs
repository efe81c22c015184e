//! One file of a folder while it is being written.

use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use super::columnar_file::ColumnarFile;
use super::file_format::{FileFormat, SyncPolicy};
use super::manifest::CommittedPart;
use super::part_name::open_name;
use super::text_file::TextFile;
use crate::formats::encode::TextEncoder;

/// The open file and its contents so far.
pub(crate) struct Part {
    pub path: PathBuf,
    pub first_cycle: u64,
    pub last_cycle: u64,
    pub rows: u64,
    pub since: Instant,
    content: Content,
}

enum Content {
    Text { file: TextFile, encoder: Box<dyn TextEncoder>, text: Vec<u8> },
    Columnar(Box<ColumnarFile>),
}

impl Part {
    /// Creates a file whose first rows belong to this cycle. `sync` says when text is forced to disk.
    pub fn create(
        folder: &Path,
        schema: &SchemaRef,
        format: &FileFormat,
        sync: SyncPolicy,
        first_cycle: u64,
    ) -> Result<Part, Cause> {
        let path = folder.join(open_name(first_cycle, format.ending()));
        let content = match format.text() {
            Some(text_format) => {
                let encoder = text_format.encoder(schema)?;
                let mut text = Vec::new();
                encoder.header(&mut text);
                Content::Text { file: TextFile::create(&path, false, sync)?, encoder, text }
            }
            None => Content::Columnar(Box::new(ColumnarFile::create(&path, format, schema)?)),
        };
        Ok(Part { path, first_cycle, last_cycle: first_cycle, rows: 0, since: Instant::now(), content })
    }

    /// Continues a text file of an earlier run, and cuts off what is not committed.
    pub fn reopen(
        folder: &Path,
        schema: &SchemaRef,
        format: &FileFormat,
        sync: SyncPolicy,
        committed: &CommittedPart,
    ) -> Result<Part, Cause> {
        let path = folder.join(open_name(committed.first_cycle, format.ending()));
        let Some(text_format) = format.text() else {
            return Err(Cause::bug(format!("'{}' is not text, but was left open", path.display())));
        };
        let file = TextFile::reopen(&path, committed.bytes, sync)?;
        let content = Content::Text { file, encoder: text_format.encoder(schema)?, text: Vec::new() };
        Ok(Part {
            path,
            first_cycle: committed.first_cycle,
            last_cycle: committed.last_cycle,
            rows: committed.rows,
            since: Instant::now(),
            content,
        })
    }

    /// Writes the rows of commits up to this cycle.
    pub fn write(&mut self, batches: &[RecordBatch], last_cycle: u64) -> Result<(), Cause> {
        match &mut self.content {
            Content::Columnar(file) => file.write(batches)?,
            Content::Text { file, encoder, text } => {
                batches.iter().try_for_each(|rows| encoder.rows(rows, text))?;
                file.append(text)?;
                text.clear();
            }
        }
        self.rows += batches.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
        self.last_cycle = last_cycle;
        Ok(())
    }

    /// Whether what was written before a failure can be kept.
    pub fn is_text(&self) -> bool {
        matches!(self.content, Content::Text { .. })
    }

    /// The approximate size of the file in bytes; exact for text.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::Columnar(file) => file.bytes(),
            Content::Text { file, .. } => file.length(),
        }
    }

    /// The valid part of it.
    pub fn committed(&self) -> CommittedPart {
        let Part { first_cycle, last_cycle, rows, .. } = *self;
        CommittedPart { first_cycle, last_cycle, rows, bytes: self.bytes(), is_complete: false }
    }

    /// Writes the end of the file and closes it; it keeps its current name.
    pub fn close(self, sync: SyncPolicy) -> Result<(), Cause> {
        match self.content {
            Content::Columnar(file) => file.finish(sync).inspect_err(|_| {
                // It cannot be read. If it stays, its name says so.
                let _ = std::fs::remove_file(&self.path);
            }),
            // After a failed write the file holds what was committed, which is worth its name.
            Content::Text { file, .. } if file.has_failed() => Ok(()),
            Content::Text { mut file, .. } if sync != SyncPolicy::Never => file.finish(),
            Content::Text { .. } => Ok(()),
        }
    }
}
