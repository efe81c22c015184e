//! Rows that a transaction has put into sources: they enter them when it is committed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use tidemill_connect::memory::PushTarget;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::bytes_of_rows;

use crate::report::{INSUFFICIENT_RESOURCES, PROGRAM_LIMIT, Report};

/// The most bytes of rows that wait in memory. Those that follow wait in a file.
const MEMORY_BYTES_MAX: usize = 8 << 20;
/// The most bytes that the file gets.
const FILE_BYTES_MAX: u64 = 64 << 30;

/// Rows that wait for the end of a transaction, in the order in which they came.
#[derive(Default)]
pub(super) struct InsertedRows {
    pieces: Vec<(PushTarget, Piece)>,
    memory_bytes: usize,
    /// A file without a name: it is gone with the session, even if the process is killed.
    file: Option<File>,
    file_bytes: u64,
}

/// Rows of one source.
enum Piece {
    InMemory(RecordBatch),
    /// These bytes of the file.
    InFile(Range<u64>),
}

impl InsertedRows {
    /// Adds rows for a source.
    pub fn add(&mut self, target: PushTarget, rows: RecordBatch) -> Result<(), Report> {
        let bytes = bytes_of_rows(&rows);
        // What is in the file came before.
        let piece = if self.file_bytes == 0 && self.memory_bytes + bytes <= MEMORY_BYTES_MAX {
            self.memory_bytes += bytes;
            Piece::InMemory(rows)
        } else {
            Piece::InFile(self.write(&rows)?)
        };
        self.pieces.push((target, piece));
        Ok(())
    }

    /// Writes rows behind those of the file.
    fn write(&mut self, rows: &RecordBatch) -> Result<Range<u64>, Report> {
        let mut bytes = Vec::new();
        let written = StreamWriter::try_new(&mut bytes, &rows.schema()).and_then(|mut writer| {
            writer.write(rows)?;
            writer.finish()
        });
        written.map_err(|error| Report::bug(error.to_string()))?;
        let end = self.file_bytes + bytes.len() as u64;
        if end > FILE_BYTES_MAX {
            let message = format!("a transaction inserts at most {FILE_BYTES_MAX} bytes of rows");
            return Err(Report::error(PROGRAM_LIMIT, message).with_hint("COMMIT now and then"));
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile().map_err(|error| cannot("write", &error))?),
        };
        file.write_all_at(&bytes, self.file_bytes).map_err(|error| cannot("write", &error))?;
        Ok(std::mem::replace(&mut self.file_bytes, end)..end)
    }

    /// Returns how many pieces of rows were added.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Forgets all but the first pieces.
    pub fn truncate(&mut self, pieces: usize) {
        for (_, piece) in self.pieces.drain(pieces.min(self.pieces.len())..) {
            match piece {
                Piece::InMemory(rows) => self.memory_bytes -= bytes_of_rows(&rows),
                Piece::InFile(bytes) => self.file_bytes = self.file_bytes.min(bytes.start),
            }
        }
        if self.file_bytes == 0 {
            self.file = None;
        }
    }

    /// Returns the rows, each piece with its source.
    pub fn rows(&self) -> impl Iterator<Item = Result<(&PushTarget, RecordBatch), Report>> {
        self.pieces.iter().map(|(target, piece)| match piece {
            Piece::InMemory(rows) => Ok((target, rows.clone())),
            Piece::InFile(bytes) => Ok((target, self.read(bytes)?)),
        })
    }

    fn read(&self, range: &Range<u64>) -> Result<RecordBatch, Report> {
        let file = self.file.as_ref().ok_or_else(|| Report::bug("rows are not in their file"))?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).map_err(|error| cannot("read", &error))?;
        let rows = StreamReader::try_new(bytes.as_slice(), None).and_then(|mut rows| rows.next().transpose());
        let rows = rows.map_err(|error| Report::bug(error.to_string()))?;
        rows.ok_or_else(|| Report::bug("a piece of the file has no rows"))
    }
}

/// Tells that the file cannot be used.
fn cannot(what: &str, error: &io::Error) -> Report {
    let folder = std::env::temp_dir();
    let message = format!("cannot {what} the rows of the transaction in {}: {error}", folder.display());
    let report = Report::error(INSUFFICIENT_RESOURCES, message);
    report.with_hint("make room there, name another folder in the server's TMPDIR, or COMMIT now and then")
}
