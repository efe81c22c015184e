//! The write side of a store: one version for each cycle.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, MemoryAccount};

use crate::changes::{RowEquality, RowIndex};
use crate::chunk::{Chunk, bytes_of};
use crate::chunk_list::ChunkList;
use crate::config::{Contents, Retention, StoreConfig};
use crate::key_index::KeyIndexWriter;
use crate::keys::{KeyEquality, KeyHasher};
use crate::marks::{Mark, Marks};
use crate::reader::StoreReader;
use crate::store_memory::StoreMemory;
use crate::store_state::{Published, StoreState, StoreStatistics};
use crate::stored_again::StoredAgain;
use crate::strict_limits::{too_many_bytes, too_many_rows};
use crate::version_cell::VersionCell;
use crate::weights::weighted;

/// A chunk is complete when it has this many rows.
pub(crate) const CHUNK_ROWS: usize = 1 << 14;
/// Or this many bytes, or a thirty-second of what the store may hold.
const CHUNK_BYTES: usize = 4 << 20;
/// Pieces of the open chunk are merged up to this many rows.
const PIECE_ROWS: usize = 1 << 10;
/// How many rows ahead the index's memory is fetched.
pub(crate) const AHEAD: usize = 16;
/// How many rows of a table may be outdated, however small it is.
pub(crate) const SPARE_ROWS: u64 = 1 << 16;

/// Stores the rows of each cycle, and publishes a version for it. There is one for each store.
///
/// Publishing copies no rows and no list of all chunks, and costs the same however large the store is.
pub struct StoreWriter {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) chunks: ChunkList,
    pub(crate) index: Option<KeyIndexWriter>,
    /// The copies of each row of a changelog.
    pub(crate) rows: Option<RowIndex>,
    /// The columns of the rows that it is given.
    pub(crate) input: SchemaRef,
    pub(crate) marks: Marks,
    pub(crate) newest_cycle: Option<u64>,
    /// The last cycle whose version was dropped, or may have been.
    pub(crate) gone: Option<u64>,
    /// The number of the first row of the newest version.
    pub(crate) first: u64,
    /// The number of the next row.
    pub(crate) next: u64,
    /// The largest time of all rows.
    pub(crate) latest: i64,
    /// The largest time when the open chunk began.
    pub(crate) opened_at: i64,
    /// How many keys a table has, or how many rows a changelog comes to.
    pub(crate) keys: u64,
    /// How many rows have come in a changelog.
    pub(crate) came: u64,
    /// The rows of a table or of a changelog before this number are outdated or were stored again.
    pub(crate) cleaned: u64,
    /// The bytes of all complete chunks, and of those that the newest version has.
    pub(crate) complete_bytes: usize,
    pub(crate) shown_bytes: usize,
    /// The bytes of what versions say about rows that were taken back.
    pub(crate) mark_bytes: usize,
    /// Rows of a changelog that no version shows any more, but to which others of their keys may lead.
    pub(crate) passed_by: Vec<Arc<[u64]>>,
    pub(crate) rows_dropped: u64,
    pub(crate) chunks_dropped: u64,
}

impl StoreWriter {
    /// An empty store, and the handle to read it.
    ///
    /// # Errors
    /// As for [`StoreConfig::check`].
    pub fn new(config: StoreConfig) -> Result<(StoreWriter, StoreReader), Cause> {
        config.check()?;
        let hasher = config.key.as_ref().map(|key| KeyHasher::new(&config.schema, key)).transpose()?;
        let index = hasher.is_some().then(KeyIndexWriter::new);
        let has_changes = config.contents == Contents::Changes;
        let rows = has_changes.then(|| RowEquality::new(&config.shown())).transpose()?;
        let input = config.input();
        let published = Published {
            chunks: Arc::default(),
            index: index.as_ref().map(KeyIndexWriter::index),
            marks: Marks::default(),
            newest_cycle: None,
            gone: None,
            first: 0,
            end: 0,
            statistics: StoreStatistics::default(),
        };
        let (current, staged) = (VersionCell::new(published), VersionCell::new(ChunkList::default()));
        let memory = StoreMemory::default();
        let shared = Arc::new(StoreState { config, hasher, rows, current, staged, memory });
        let writer = StoreWriter {
            shared: shared.clone(),
            chunks: ChunkList::default(),
            index,
            rows: has_changes.then(RowIndex::new),
            input,
            marks: Marks::default(),
            newest_cycle: None,
            gone: None,
            first: 0,
            next: 0,
            latest: i64::MIN,
            opened_at: i64::MIN,
            keys: 0,
            came: 0,
            cleaned: 0,
            complete_bytes: 0,
            shown_bytes: 0,
            mark_bytes: 0,
            passed_by: Vec::new(),
            rows_dropped: 0,
            chunks_dropped: 0,
        };
        Ok((writer, StoreReader { shared, whole: None }))
    }

    /// What the store holds counts in this account from here on, until the writer and all readers are gone. `holder` is what an
    /// error at the limit names.
    ///
    /// ```
    /// use tidemill_core::MemoryBudget;
    /// use tidemill_core::arrow::schema::{DataType, Field, Schema};
    /// use tidemill_store::{StoreConfig, StoreWriter};
    ///
    /// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
    /// let budget = MemoryBudget::new(1 << 20);
    /// let (store, _reader) = StoreWriter::new(StoreConfig::new(&schema))?;
    /// store.count_in(budget.account(), "view 'recent'");
    /// assert_eq!(budget.held(), 0);
    /// # Ok::<(), tidemill_core::Cause>(())
    /// ```
    pub fn count_in(&self, account: MemoryAccount, holder: &str) {
        self.shared.memory.count_in(account, holder, self.bytes_held());
    }

    fn bytes_held(&self) -> usize {
        self.bytes() + self.index_bytes()
    }

    fn index_bytes(&self) -> usize {
        let of_keys = self.index.as_ref().map_or(0, KeyIndexWriter::bytes);
        of_keys + self.rows.as_ref().map_or(0, RowIndex::bytes)
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.shared.config
    }

    /// A handle to read the store.
    pub fn reader(&self) -> StoreReader {
        StoreReader { shared: self.shared.clone(), whole: None }
    }

    /// The last cycle whose rows it has.
    pub fn newest_cycle(&self) -> Option<u64> {
        self.newest_cycle
    }

    /// Stores the rows of a cycle, in order, and publishes the version. Readers see all of them or, on an error, none. Those of a
    /// changelog have the columns of [`StoreConfig::input`].
    ///
    /// # Errors
    /// [`Cause::resource`] if the store is strict and would hold too much, or there is no memory left for it; [`Cause::bug`] if the cycle is not after the
    /// last one, the rows have other columns, or a changelog takes back a row that is not there.
    pub fn append(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        let has_rows = batches.iter().any(|rows| rows.num_rows() > 0);
        self.append_part(cycle, batches, has_rows)
    }

    /// Stores the rows that are there before the first cycle, such as the row of an aggregate of nothing. They have the columns
    /// that are shown.
    ///
    /// # Errors
    /// As for [`append`](StoreWriter::append).
    pub fn begin_with(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        self.store_rows(0, &[weighted(rows, &self.input)?])?;
        self.publish();
        self.shared.memory.set(self.bytes_held());
        Ok(())
    }

    /// As [`append`](StoreWriter::append), for a fragment. A cycle that has rows in any fragment makes a version of all.
    pub(crate) fn append_part(
        &mut self,
        cycle: u64,
        batches: &[RecordBatch],
        has_rows: bool,
    ) -> Result<(), Cause> {
        if let Some(newest) = self.newest_cycle.filter(|newest| *newest >= cycle) {
            return Err(Cause::bug(format!("a store was given cycle {cycle} after cycle {newest}")));
        }
        let wrong = batches.iter().find(|rows| rows.schema_ref() != &self.input);
        if let Some(wrong) = wrong {
            return Err(Cause::bug(format!("a store was given rows of other columns: {:?}", wrong.schema())));
        }
        if has_rows {
            self.store_rows(cycle, batches)?;
        }
        self.newest_cycle = Some(cycle);
        self.publish();
        self.shared.memory.set(self.bytes_held());
        Ok(())
    }

    /// The largest time of the rows of all fragments, for one that may have older rows only.
    pub(crate) fn raise_latest(&mut self, latest: i64) {
        self.latest = self.latest.max(latest);
    }

    fn store_rows(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        if self.shared.config.contents == Contents::Changes {
            return self.store_changes(cycle, batches);
        }
        self.shared.memory.grow(batches.iter().flat_map(RecordBatch::columns).map(bytes_of).sum())?;
        self.store(cycle, batches)
    }

    fn store(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        let hashes = self.hashes(batches)?;
        self.check_rows(batches, &hashes)?;
        let again = self.rows_to_store_again();
        let again = again.iter().map(StoredAgain::batch).collect::<Result<Vec<_>, Cause>>()?;
        let hashes_again = self.hashes(&again)?;
        let added_from = self.chunks.open.len();
        for rows in again.iter().chain(batches) {
            self.add_pieces(rows)?;
        }
        // The index may lead readers to the new rows before they are published.
        self.shared.staged.store(Arc::new(self.chunks.clone()));
        if self.index.is_some() {
            let hashes: Vec<u64> = hashes_again.into_iter().chain(hashes).flatten().collect();
            self.link(added_from, &hashes, cycle)?;
        }
        self.add_version(Mark { cycle, ..Mark::default() })
    }

    /// Puts the new rows in order, and notes the version that they make.
    pub(crate) fn add_version(&mut self, mark: Mark) -> Result<(), Cause> {
        self.merge_pieces()?;
        self.complete_chunks()?;
        self.drop_old_rows();
        self.keep_version(Mark { first: self.first, end: self.next, latest: self.latest, ..mark });
        Ok(())
    }

    /// The hashes of the keys of these rows, if they have keys.
    pub(crate) fn hashes(&self, batches: &[RecordBatch]) -> Result<Vec<Vec<u64>>, Cause> {
        let Some(hasher) = &self.shared.hasher else { return Ok(Vec::new()) };
        batches.iter().map(|rows| hasher.hashes(&hasher.key_of(rows), rows.num_rows())).collect()
    }

    /// Checks a strict store's limit on rows.
    fn check_rows(&self, batches: &[RecordBatch], hashes: &[Vec<u64>]) -> Result<(), Cause> {
        let Retention { rows_max, is_strict, .. } = self.shared.config.retention;
        if !is_strict {
            return Ok(());
        }
        let added: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let bytes = batches.iter().flat_map(RecordBatch::columns).map(bytes_of).sum();
        let rows = if self.shared.config.contents != Contents::LastOfKey {
            self.next - self.first + added as u64
        } else if self.keys + added as u64 <= rows_max as u64 {
            self.keys
        } else {
            let is_new =
                |hash: &&u64| self.index.as_ref().is_some_and(|index| index.newest(**hash).is_none());
            self.keys + hashes.iter().flatten().filter(is_new).collect::<HashSet<_>>().len() as u64
        };
        self.check_limits(bytes, rows)
    }

    /// Checks that a strict store may hold so many more bytes, and this many rows in all.
    pub(crate) fn check_limits(&self, more_bytes: usize, rows: u64) -> Result<(), Cause> {
        let Retention { bytes_max, rows_max, is_strict, .. } = self.shared.config.retention;
        let bytes = self.bytes().saturating_add(more_bytes);
        if is_strict && bytes > bytes_max {
            return Err(too_many_bytes(bytes, bytes_max));
        }
        if is_strict && rows > rows_max as u64 {
            return Err(too_many_rows(self.shared.config.contents, rows, rows_max));
        }
        Ok(())
    }

    /// Puts rows behind the open chunk's.
    pub(crate) fn add_pieces(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        let most = self.piece_rows(rows);
        for start in (0..rows.num_rows()).step_by(most) {
            let piece = rows.slice(start, most.min(rows.num_rows() - start));
            let chunk = Chunk::new(&self.shared.config, self.next, piece, self.latest)?;
            self.next = chunk.end();
            self.latest = chunk.times.as_ref().map_or(self.latest, |times| times.latest);
            self.chunks.open.push(Arc::new(chunk));
        }
        Ok(())
    }

    /// How many of these rows are put into one piece. Chunks are dropped as a whole, so that one may not hold most of what is kept.
    fn piece_rows(&self, rows: &RecordBatch) -> usize {
        let bytes: usize = rows.columns().iter().map(bytes_of).sum();
        let fit = rows.num_rows() as u128 * self.piece_bytes_max() as u128 / bytes.max(1) as u128;
        fit.clamp(1, CHUNK_ROWS as u128) as usize
    }

    fn chunk_bytes_max(&self) -> usize {
        CHUNK_BYTES.min(self.shared.config.retention.bytes_max / 32)
    }

    /// A piece that comes at once may be a larger chunk than those that are made of several. Tables drop no chunks.
    fn piece_bytes_max(&self) -> usize {
        match self.shared.config.contents {
            Contents::AllRows => 2 * self.chunk_bytes_max(),
            Contents::LastOfKey | Contents::Changes => usize::MAX / 2,
        }
    }

    /// Leads from each new row to the one before with the same key, and from the key to the new one.
    fn link(&mut self, added_from: usize, hashes: &[u64], cycle: u64) -> Result<(), Cause> {
        let held = self.held_from();
        let (chunks, shared) = (&self.chunks, &self.shared);
        let (Some(index), Some(hasher)) = (&mut self.index, &shared.hasher) else { return Ok(()) };
        let mut at = 0;
        for chunk in &chunks.open[added_from..] {
            let key = hasher.key_of(&chunk.rows);
            let mut equalities: HashMap<u64, KeyEquality> = HashMap::new();
            for row in 0..chunk.len() {
                let number = chunk.first + row as u64;
                if let Some(ahead) = hashes.get(at + AHEAD) {
                    index.prefetch(*ahead);
                }
                let mut before = None;
                index.set(hashes[at], number, held, |newest| {
                    chunk.set_before(row, newest);
                    before = newest;
                });
                at += 1;
                let Some(table) = &chunk.table else { continue };
                let mut ordinal = None;
                while let Some(earlier) = before {
                    let Some(other) = chunks.find(earlier) else { break };
                    let equality = match equalities.entry(other.first) {
                        std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                        std::collections::hash_map::Entry::Vacant(free) => {
                            free.insert(KeyEquality::new(hasher, &hasher.key_of(&other.rows), &key)?)
                        }
                    };
                    let other_row = (earlier - other.first) as usize;
                    let ended = other.table.as_ref().filter(|_| equality.is_equal(other_row, row));
                    if let Some(ended) = ended {
                        ended.ended[other_row].store(cycle, Ordering::Relaxed);
                        ordinal = Some(ended.ordinals[other_row].load(Ordering::Relaxed));
                        break;
                    }
                    before = other.before(earlier);
                }
                let ordinal = ordinal.unwrap_or_else(|| {
                    self.keys += 1;
                    chunk.numbers.as_ref().map_or(self.keys - 1, |numbers| numbers[row])
                });
                table.ordinals[row].store(ordinal, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Merges small pieces of the open chunk. Like in a binary counter, a piece is merged with its neighbour until that has
    /// at least twice its size. So each row is copied at most ten times, and a version lists few pieces.
    fn merge_pieces(&mut self) -> Result<(), Cause> {
        let bytes_max = 2 * self.piece_bytes_max();
        let open = &mut self.chunks.open;
        loop {
            let [.., before, last] = open.as_slice() else { return Ok(()) };
            let is_large =
                before.len() + last.len() > PIECE_ROWS || before.bytes() + last.bytes() > bytes_max;
            if before.len() >= 2 * last.len() || is_large {
                return Ok(());
            }
            let merged = Chunk::merged(&self.shared.config, &open[open.len() - 2..], false)?;
            open.truncate(open.len() - 2);
            open.push(Arc::new(merged));
        }
    }

    /// Makes complete chunks of the open one's pieces as soon as it has enough rows, or bytes, or covers enough time.
    fn complete_chunks(&mut self) -> Result<(), Cause> {
        let retention = &self.shared.config.retention;
        let bytes_max = self.chunk_bytes_max();
        let slice = retention.time.map_or(i64::MAX, |time| (time / 16).max(1));
        let (mut from, mut rows, mut bytes) = (0, 0, 0);
        let mut complete = Vec::new();
        for (at, piece) in self.chunks.open.iter().enumerate() {
            (rows, bytes) = (rows + piece.len(), bytes + piece.bytes());
            // A fragment without new rows is as late as the others.
            let is_last = at + 1 == self.chunks.open.len();
            let latest = match &piece.times {
                Some(_) if is_last => self.latest,
                Some(times) => times.latest,
                None => i64::MIN,
            };
            if self.opened_at == i64::MIN {
                self.opened_at = latest;
            }
            let is_old = latest.saturating_sub(self.opened_at) >= slice;
            if rows >= CHUNK_ROWS || bytes >= bytes_max || is_old {
                complete.push(Arc::new(Chunk::merged(
                    &self.shared.config,
                    &self.chunks.open[from..=at],
                    true,
                )?));
                (from, rows, bytes) = (at + 1, 0, 0);
                self.opened_at = latest;
            }
        }
        if from > 0 {
            self.chunks.open.drain(..from);
            self.add_complete(complete);
        }
        Ok(())
    }

    /// The rows of the oldest chunks of a table or of a changelog that still count, once most rows are outdated. They are stored
    /// again, so that these chunks can be dropped: each row is then copied once per at least as many new rows.
    pub(crate) fn rows_to_store_again(&mut self) -> Vec<StoredAgain> {
        let mut again = Vec::new();
        while self.shared.config.contents != Contents::AllRows
            && self.next - self.cleaned > 2 * self.keys + SPARE_ROWS
        {
            let Some(chunk) =
                self.chunks.complete.as_slice().iter().find(|chunk| chunk.first >= self.cleaned)
            else {
                break;
            };
            self.cleaned = chunk.end();
            again.extend(StoredAgain::of(chunk));
        }
        again
    }

    /// The number of the first row that some version has.
    pub(crate) fn held_from(&self) -> u64 {
        self.marks.oldest().map_or(self.first, |mark| mark.first)
    }

    pub(crate) fn publish(&self) {
        let chunks = Arc::new(self.chunks.clone());
        let published = Published {
            chunks: chunks.clone(),
            index: self.index.as_ref().map(KeyIndexWriter::index),
            marks: self.marks.clone(),
            newest_cycle: self.newest_cycle,
            gone: self.gone,
            first: self.first,
            end: self.next,
            statistics: self.statistics(),
        };
        self.shared.current.store(Arc::new(published));
        self.shared.staged.store(chunks);
    }

    fn statistics(&self) -> StoreStatistics {
        let rows = match self.shared.config.contents {
            Contents::AllRows => self.next - self.first,
            Contents::LastOfKey | Contents::Changes => self.keys,
        };
        StoreStatistics {
            rows,
            chunks: self.chunks.complete.as_slice().len() + self.chunks.open.len(),
            bytes: self.bytes(),
            index_bytes: self.index_bytes(),
            versions: self.marks.len(),
            rows_dropped: self.rows_dropped,
            chunks_dropped: self.chunks_dropped,
        }
    }
}
