//! Rows that were prepared and wait for their commit.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use tidemill_core::{Batch, RefusedRow};

use super::copy::{CopyEncoder, END, HEAD, row_bounds};
use crate::dead_letter::DeadLetter;

/// The size of one message.
const MESSAGE_BYTES: usize = 256 << 10;

/// The rows of some cycles.
#[derive(Default)]
pub(super) struct PreparedRows {
    cycles: VecDeque<PreparedCycle>,
    row_number: u64,
}

struct PreparedCycle {
    cycle: u64,
    batches: Vec<Batch>,
    /// The rows for COPY, without header and trailer.
    encoded: Bytes,
    /// Rows that cannot be encoded.
    refused: Vec<Refused>,
}

struct Refused {
    batch: usize,
    row: usize,
    reason: String,
}

/// An encoded row, and its origin.
pub(super) struct EncodedRow<'a> {
    bytes: Bytes,
    cycle: u64,
    batch: &'a Batch,
    row: usize,
}

impl PreparedRows {
    /// Encodes the rows of a cycle; returns the first row that cannot be encoded, and why.
    pub fn push(
        &mut self,
        cycle: u64,
        batches: Vec<Batch>,
        encoder: &CopyEncoder,
    ) -> Option<(RefusedRow, &str)> {
        let (mut encoded, mut refused) = (Vec::new(), Vec::new());
        for (batch, rows) in batches.iter().map(|batch| &batch.rows).enumerate() {
            encoder.rows(rows, self.row_number, &mut encoded, &mut |row, reason| {
                refused.push(Refused { batch, row, reason });
            });
            self.row_number += rows.num_rows() as u64;
        }
        refused.sort_unstable_by_key(|refused| (refused.batch, refused.row));
        self.cycles.push_back(PreparedCycle { cycle, batches, encoded: encoded.into(), refused });
        let prepared = self.cycles.back()?;
        let first = prepared.refused.first()?;
        let event = prepared.batches[first.batch].positions[first.row];
        Some((RefusedRow { cycle, event }, first.reason.as_str()))
    }

    /// Takes the rows of all cycles up to this one.
    pub fn take(&mut self, last_cycle: u64) -> PreparedRows {
        let count = self.cycles.partition_point(|prepared| prepared.cycle <= last_cycle);
        PreparedRows { cycles: self.cycles.drain(..count).collect(), row_number: 0 }
    }

    /// The size of the encoded rows.
    pub fn bytes(&self) -> usize {
        self.cycles.iter().map(|prepared| prepared.encoded.len()).sum()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.cycles.iter().all(|prepared| prepared.encoded.is_empty() && prepared.refused.is_empty())
    }

    /// All rows for COPY; nothing if there are none.
    pub fn messages(&self) -> Vec<Bytes> {
        let parts: Vec<Bytes> = self.cycles.iter().map(|prepared| prepared.encoded.clone()).collect();
        messages(&parts)
    }

    /// The rows that could not be encoded.
    pub fn refused(&self) -> Vec<DeadLetter> {
        let of_cycle = |prepared: &PreparedCycle| {
            let letter = |refused: &Refused| {
                letter(prepared.cycle, &prepared.batches[refused.batch], refused.row, &refused.reason)
            };
            prepared.refused.iter().map(letter).collect::<Vec<_>>()
        };
        self.cycles.iter().flat_map(of_cycle).collect()
    }

    /// The rows one by one.
    pub fn rows(&self) -> Vec<EncodedRow<'_>> {
        let mut rows = Vec::new();
        for prepared in &self.cycles {
            let is_encoded = |batch: usize, row: usize| {
                let found = prepared
                    .refused
                    .binary_search_by_key(&(batch, row), |refused| (refused.batch, refused.row));
                found.is_err()
            };
            let bounds = row_bounds(&prepared.encoded);
            let mut bounds = bounds.windows(2).map(|bounds| bounds[0]..bounds[1]);
            for (number, batch) in prepared.batches.iter().enumerate() {
                for row in (0..batch.len()).filter(|row| is_encoded(number, *row)) {
                    let Some(bytes) = bounds.next() else { break };
                    rows.push(EncodedRow {
                        bytes: prepared.encoded.slice(bytes),
                        cycle: prepared.cycle,
                        batch,
                        row,
                    });
                }
            }
        }
        rows
    }
}

impl EncodedRow<'_> {
    /// The row, with the reason why it is refused.
    pub fn refused(&self, reason: &str) -> DeadLetter {
        letter(self.cycle, self.batch, self.row, reason)
    }
}

/// Messages for COPY with some of the rows.
pub(super) fn messages_of(rows: &[EncodedRow<'_>]) -> Vec<Bytes> {
    let parts: Vec<Bytes> = rows.iter().map(|row| row.bytes.clone()).collect();
    messages(&[Bytes::from(parts.concat())])
}

fn letter(cycle: u64, batch: &Batch, row: usize, reason: &str) -> DeadLetter {
    DeadLetter::new(cycle, batch.positions[row], &batch.rows, row, reason)
}

fn messages(parts: &[Bytes]) -> Vec<Bytes> {
    if parts.iter().all(Bytes::is_empty) {
        return Vec::new();
    }
    let mut messages = vec![Bytes::from_static(HEAD)];
    for part in parts {
        let starts = (0..part.len()).step_by(MESSAGE_BYTES);
        messages.extend(starts.map(|start| part.slice(start..part.len().min(start + MESSAGE_BYTES))));
    }
    messages.push(Bytes::from_static(END));
    messages
}

/// The halves of a range, the second one first, so that the first is popped first.
pub(super) fn halves(range: &Range<usize>) -> [Range<usize>; 2] {
    let middle = range.start + range.len() / 2;
    [middle..range.end, range.start..middle]
}
