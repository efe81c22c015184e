//! What a store drops: whole chunks, the oldest first.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Contents;
use crate::marks::Mark;
use crate::writer::{SPARE_ROWS, StoreWriter};

impl StoreWriter {
    /// Drops the chunks that are too old or too many for the newest version.
    pub(crate) fn drop_old_rows(&mut self) {
        if self.shared.config.contents != Contents::AllRows {
            self.first = self.cleaned;
            return;
        }
        let retention = &self.shared.config.retention;
        let oldest = retention.time.map_or(i64::MIN, |time| self.latest.saturating_sub(time));
        let mut at = self.chunks.complete.as_slice().partition_point(|chunk| chunk.first < self.first);
        while let Some(chunk) = self.chunks.complete.as_slice().get(at) {
            let is_old = chunk.times.as_ref().is_some_and(|times| times.range.1 < oldest);
            let is_too_many = self.next - self.first > retention.rows_max as u64;
            let is_too_much = self.shown_bytes + self.open_bytes() > retention.bytes_max / 8 * 7;
            if !is_old && (retention.is_strict || !(is_too_many || is_too_much)) {
                return;
            }
            self.first = chunk.end();
            self.shown_bytes -= chunk.bytes();
            self.rows_dropped += chunk.len() as u64;
            self.chunks_dropped += 1;
            at += 1;
        }
    }

    /// Notes the newest version, and forgets the oldest ones if there are too many, or if they hold too much.
    pub(crate) fn keep_version(&mut self, mark: Mark) {
        self.mark_bytes += mark.bytes();
        self.marks.push(mark);
        let retention = &self.shared.config.retention;
        let (bytes_max, versions_max) = (retention.bytes_max, retention.versions_max.max(1));
        while self.marks.len() > versions_max {
            self.drop_version();
        }
        self.release();
        while self.marks.len() > 1 && (self.bytes() > bytes_max || self.is_mostly_outdated()) {
            self.drop_version();
            self.release();
        }
    }

    fn drop_version(&mut self) {
        let oldest = self.marks.oldest();
        self.mark_bytes -= oldest.map_or(0, Mark::bytes);
        self.gone = oldest.map(|mark| mark.cycle);
        self.marks.pop_oldest();
        // The oldest version that is left does not show what it took back itself.
        self.passed_by.extend(self.marks.oldest().and_then(|mark| mark.taken.clone()));
    }

    /// Whether earlier versions hold more of a table, or of a changelog, than the newest.
    fn is_mostly_outdated(&self) -> bool {
        self.shared.config.contents != Contents::AllRows
            && self.next - self.held_from() > 4 * self.keys + 2 * SPARE_ROWS
    }

    /// Frees the chunks that no version needs.
    fn release(&mut self) {
        let held = self.held_from();
        let free = self.chunks.complete.as_slice().partition_point(|chunk| chunk.end() <= held);
        if free > 0 {
            let chunks = Arc::make_mut(&mut self.chunks.complete);
            self.complete_bytes -= chunks.remove_oldest(free).map(|chunk| chunk.bytes()).sum::<usize>();
        }
    }

    /// The bytes of all chunks that it holds, and of what versions have besides.
    pub(crate) fn bytes(&self) -> usize {
        self.complete_bytes + self.open_bytes() + self.mark_bytes
    }

    fn open_bytes(&self) -> usize {
        self.chunks.open.iter().map(|chunk| chunk.bytes()).sum()
    }

    /// Adds complete chunks.
    pub(crate) fn add_complete(&mut self, chunks: Vec<Arc<Chunk>>) {
        let bytes: usize = chunks.iter().map(|chunk| chunk.bytes()).sum();
        self.complete_bytes += bytes;
        self.shown_bytes += bytes;
        Arc::make_mut(&mut self.chunks.complete).extend(chunks);
    }
}
