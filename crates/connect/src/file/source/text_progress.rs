//! How far the rows of a text were returned, precisely enough that reading can continue there without losing or
//! repeating a row.
//!
//! A decoder makes several batches from one piece of text. Behind the last of them the next record begins at a known
//! byte. Behind the others, only the number of rows since such a byte is known. Reading again from that byte returns
//! these rows again, and that many are skipped.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use arrow_array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::source::SourceOffset;

use super::offset::{FileOffset, Fingerprint, Fingerprints, HEAD_BYTES, TAIL_BYTES, read_piece};
use crate::formats::{RecordDecoder, Waiting};

/// How many bytes are read at once to find a header.
const PIECE_BYTES: usize = 64 * 1024;

/// Rows, and how far their file was read behind them.
pub(super) struct RowsRead {
    pub rows: RecordBatch,
    pub offset: Option<SourceOffset>,
}

/// How far a text was decoded, and its rows returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextProgress {
    /// How many bytes the decoder has received.
    pub decoded: u64,
    /// All records before this byte were returned.
    pub offset: u64,
    /// The number of the line there.
    pub line: u64,
    /// Rows returned from behind it.
    pub rows: u64,
    /// Rows that an earlier run returned and that come again.
    known: u64,
    /// Whether nothing but NULs has come so far.
    is_unwritten: bool,
}

impl TextProgress {
    pub(super) fn start() -> TextProgress {
        TextProgress { decoded: 0, offset: 0, line: 1, rows: 0, known: 0, is_unwritten: true }
    }

    /// In a file of columns, behind this many of its rows.
    pub(super) fn of_rows(rows: u64) -> TextProgress {
        TextProgress { rows, ..TextProgress::start() }
    }

    /// At the offset where an earlier run stopped.
    pub(super) fn at(start: &FileOffset) -> TextProgress {
        let FileOffset { offset, line, rows, .. } = *start;
        let is_unwritten = line == 1 && rows == 0;
        TextProgress { decoded: offset, offset, line, rows: 0, known: rows, is_unwritten }
    }

    /// Leaves out the NULs at the beginning of a text, and returns the rest of these bytes. A program that keeps its place in a
    /// log while `copytruncate` empties it continues there, and the system fills what is before with NULs.
    pub(super) fn written<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if !self.is_unwritten {
            return bytes;
        }
        let nuls = bytes.iter().take_while(|byte| **byte == 0).count();
        self.is_unwritten = nuls == bytes.len();
        if nuls > 0 {
            self.decoded += nuls as u64;
            self.offset = self.decoded;
        }
        &bytes[nuls..]
    }

    /// Takes what was decoded from `bytes` more bytes, and returns the new rows with the track behind them.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        waiting: Option<Waiting>,
        batches: VecDeque<RecordBatch>,
        mut give: impl FnMut(RecordBatch, &TextProgress),
    ) {
        self.decoded += bytes;
        let count = batches.len();
        for (at, batch) in batches.into_iter().enumerate() {
            let rows = batch.num_rows();
            let known = self.known.min(rows as u64);
            self.known -= known;
            self.rows += rows as u64;
            if at + 1 == count {
                self.settle(waiting);
            }
            if known < rows as u64 {
                give(batch.slice(known as usize, rows - known as usize), self);
            }
        }
        if count == 0 {
            self.settle(waiting);
        }
    }

    fn settle(&mut self, waiting: Option<Waiting>) {
        if let Some(Waiting { bytes, line }) = waiting {
            (self.offset, self.line, self.rows) = (self.decoded - bytes, line, 0);
        }
    }
}

/// The fingerprints of what was read of a growing file.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowingFingerprints {
    extent: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl GrowingFingerprints {
    /// For a file that was read so far.
    pub(super) fn read(file: &mut File, extent: u64) -> io::Result<GrowingFingerprints> {
        let head = read_piece(file, 0, extent.min(HEAD_BYTES as u64))?;
        let tail_bytes = extent.min(TAIL_BYTES as u64);
        let tail = read_piece(file, extent - tail_bytes, tail_bytes)?;
        Ok(GrowingFingerprints { extent, head, tail })
    }

    /// Takes the next bytes of the file.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.extent += bytes.len() as u64;
        let head_room = (HEAD_BYTES - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..head_room]);
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        self.tail.drain(..(self.tail.len() + last.len()).saturating_sub(TAIL_BYTES));
        self.tail.extend_from_slice(last);
    }

    /// The last bytes that were read.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    pub(super) fn prints(&self) -> Fingerprints {
        let (head, tail) = (Fingerprint::of(&self.head), Fingerprint::of(&self.tail));
        Fingerprints { extent: self.extent, head, tail }
    }
}

/// Begins a text in its middle: shows the decoder the beginning of the text, which may determine the columns, and no
/// more of it. Returns how many bytes were read; `read` reads the next ones.
pub(super) fn begin_at(
    decoder: &mut dyn RecordDecoder,
    place: &str,
    track: &TextProgress,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, Cause>,
) -> Result<u64, Cause> {
    decoder.begin(place);
    let (mut done, mut beginning) = (0, TextProgress::start());
    let mut piece = vec![0; PIECE_BYTES];
    while done < track.offset && !decoder.knows_beginning() {
        let length = (track.offset - done).min(PIECE_BYTES as u64) as usize;
        let count = read(&mut piece[..length])?;
        if count == 0 {
            break;
        }
        decoder.decode(beginning.written(&piece[..count]), &mut VecDeque::new())?;
        done += count as u64;
    }
    // The run that returned these rows has reported them.
    drop(decoder.faults());
    if track.offset > 0 {
        decoder.resume_at(track.line);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;

    use super::*;

    fn batches(rows: &[usize]) -> VecDeque<RecordBatch> {
        let batch = |rows: &usize| {
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![0; *rows])) as _)]).unwrap()
        };
        rows.iter().map(batch).collect()
    }

    /// Offset, rows behind it and rows given, for each batch.
    fn taken(
        track: &mut TextProgress,
        bytes: u64,
        waiting: Option<u64>,
        rows: &[usize],
    ) -> Vec<(u64, u64, usize)> {
        let mut found = Vec::new();
        let waiting = waiting.map(|bytes| Waiting { bytes, line: 7 });
        track.take(bytes, waiting, batches(rows), |batch, track| {
            found.push((track.offset, track.rows, batch.num_rows()));
        });
        found
    }

    #[test]
    fn only_behind_the_last_batch_a_byte_is_known() {
        let mut track = TextProgress::start();
        assert_eq!(taken(&mut track, 100, Some(10), &[8, 8, 3]), [(0, 8, 8), (0, 16, 8), (90, 0, 3)]);
        assert_eq!(taken(&mut track, 50, None, &[2]), [(90, 2, 2)], "it ends in a record that is left out");
        assert_eq!(taken(&mut track, 50, Some(0), &[]), []);
        assert_eq!((track.offset, track.rows, track.line), (200, 0, 7));
    }

    #[test]
    fn nuls_are_left_out_at_the_beginning_and_nowhere_else() {
        let mut track = TextProgress::start();
        assert_eq!(track.written(b"\0\0"), b"");
        assert_eq!(track.written(b"\0a\0b\n"), b"a\0b\n");
        assert_eq!((track.decoded, track.offset), (3, 3), "a later run begins behind them");
        assert_eq!(track.written(b"\0"), b"\0");
        let behind_a_line = FileOffset { offset: 2, line: 2, ..FileOffset::start("t".into(), None) };
        assert_eq!(TextProgress::at(&behind_a_line).written(b"\0x"), b"\0x");
        let behind_nuls = FileOffset { offset: 2, ..FileOffset::start("t".into(), None) };
        assert_eq!(TextProgress::at(&behind_nuls).written(b"\0x"), b"x");
    }

    #[test]
    fn rows_of_an_earlier_run_are_left_out() {
        let start = FileOffset { offset: 90, rows: 11, ..FileOffset::start("t".into(), None) };
        let mut track = TextProgress::at(&start);
        assert_eq!(taken(&mut track, 60, Some(0), &[8]), []);
        assert_eq!((track.decoded, track.offset), (150, 150));
        assert_eq!(taken(&mut track, 60, Some(5), &[8, 1]), [(150, 8, 5), (205, 0, 1)]);
    }
}
