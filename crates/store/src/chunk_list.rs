//! The chunks of a store, in the order of their rows.

use std::sync::Arc;

use crate::area::Area;
use crate::chunk::Chunk;
use crate::selection::Selection;

/// Complete chunks, and behind them the open one in pieces. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ChunkList {
    pub complete: Arc<CompleteChunks>,
    pub open: Vec<Arc<Chunk>>,
}

/// Complete chunks, each with its outline beside it.
#[derive(Clone, Default)]
pub(crate) struct CompleteChunks {
    chunks: Vec<Arc<Chunk>>,
    outlines: Vec<Outline>,
}

/// What decides whether a chunk is looked at. The outlines of all chunks lie side by side in memory: a thousand chunks
/// that are not looked at cost a thousand cache lines that are fetched ahead, instead of several thousand that are not.
#[derive(Clone, Copy)]
struct Outline {
    first: u64,
    /// The least and the largest time; the other way round if there are none.
    times: (i64, i64),
    /// The largest time of all rows up to its last one. It never falls from chunk to chunk.
    latest: i64,
    area: Area,
}

impl Outline {
    fn of(chunk: &Chunk) -> Outline {
        let (times, latest) = chunk
            .times
            .as_ref()
            .map_or(((i64::MAX, i64::MIN), i64::MIN), |times| (times.range, times.latest));
        let area = chunk.points.as_ref().map_or(Area::NOTHING, |points| points.area);
        Outline { first: chunk.first, times, latest, area }
    }

    fn may_meet(&self, selection: &Selection) -> bool {
        selection.time.is_none_or(|(from, to)| self.times.0 <= to && from <= self.times.1)
            && selection.area.is_none_or(|area| area.meets(&self.area))
    }
}

impl ChunkList {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Chunk>> {
        self.complete.chunks.iter().chain(&self.open)
    }

    /// The chunk with this row.
    pub fn find(&self, number: u64) -> Option<&Arc<Chunk>> {
        let is_open = self.open.first().is_some_and(|first| first.first <= number);
        let found = if is_open {
            self.open[..self.open.partition_point(|chunk| chunk.first <= number)].last()
        } else {
            let after = self.complete.outlines.partition_point(|outline| outline.first <= number);
            self.complete.chunks[..after].last()
        };
        found.filter(|chunk| number < chunk.end())
    }

    /// The chunks with rows from `first` to `end`, without most of those in which no row meets the conditions on time and
    /// place.
    pub fn among(
        &self,
        first: u64,
        end: u64,
        selection: &Selection,
    ) -> impl Iterator<Item = &Arc<Chunk>> + use<'_> {
        let complete = &self.complete;
        let (mut from, to) = complete.places(first, end);
        if let Some((earliest, _)) = selection.time {
            from = from.max(complete.outlines.partition_point(|outline| outline.latest < earliest)).min(to);
        }
        let selection = Selection { time: selection.time, area: selection.area, ..Selection::default() };
        let open = self.open.iter().map(|chunk| (Outline::of(chunk), chunk));
        let complete = complete.outlines[from..to].iter().copied().zip(&complete.chunks[from..to]);
        let wanted = complete.chain(open).filter(move |(outline, _)| outline.may_meet(&selection));
        wanted.map(|(_, chunk)| chunk).filter(move |chunk| chunk.first < end && first < chunk.end())
    }

    /// How many chunks have rows from `first` to `end`.
    pub fn count(&self, first: u64, end: u64) -> usize {
        let (from, to) = self.complete.places(first, end);
        let open = self.open.iter().filter(|chunk| chunk.first < end && first < chunk.end());
        to - from + open.count()
    }
}

impl CompleteChunks {
    pub fn as_slice(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    pub fn extend(&mut self, chunks: Vec<Arc<Chunk>>) {
        self.outlines.extend(chunks.iter().map(|chunk| Outline::of(chunk)));
        self.chunks.extend(chunks);
    }

    /// Takes the oldest away.
    pub fn remove_oldest(&mut self, count: usize) -> impl Iterator<Item = Arc<Chunk>> {
        self.outlines.drain(..count);
        self.chunks.drain(..count)
    }

    /// Where the chunks with rows from `first` to `end` are.
    fn places(&self, first: u64, end: u64) -> (usize, usize) {
        let to = self.outlines.partition_point(|outline| outline.first < end);
        let after = self.outlines[..to].partition_point(|outline| outline.first <= first);
        let from = after.saturating_sub(1);
        // The rows may begin behind the last chunk.
        let is_behind = self.chunks[from..to].first().is_some_and(|chunk| chunk.end() <= first);
        (from + usize::from(is_behind), to)
    }
}
