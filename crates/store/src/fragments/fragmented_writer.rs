//! Stores the rows of each cycle in several fragments, and publishes one version of all.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, MemoryAccount, SnapshotWriter, State};

use super::fragment_config;
use super::fragment_thread::{CYCLES_QUEUED, FragmentThread, Part};
use super::splitter::Splitter;
use crate::chunk_files::ChunkFiles;
use crate::config::{Contents, StoreConfig};
use crate::fragmentation::Fragmentation;
use crate::kept_chunks::keep;
use crate::reader::StoreReader;
use crate::store_state::{FragmentsState, Published, StoreStatistics};
use crate::strict_limits::check_strict;
use crate::version_cell::VersionCell;
use crate::writer::StoreWriter;

/// The first byte of a store of several fragments.
pub(crate) const VERSION: u8 = 2;

/// Divides the rows of each cycle among fragments, whose threads store them at the same time. Readers see a cycle when every
/// fragment has it.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_store::{FragmentBy, Fragmentation, FragmentedWriter, StoreConfig};
///
/// let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as _;
/// let rows = RecordBatch::try_from_iter([("vid", column(vec![7, 8, 7, 9]))])?;
/// let fragments = Some(Fragmentation { count: 3, by: FragmentBy::Key });
/// let config = StoreConfig { key: Some(vec![0]), fragments, ..StoreConfig::new(&rows.schema()) };
/// let (mut writer, reader) = FragmentedWriter::new(config)?;
/// writer.append(0, &[rows.clone()])?;
/// writer.publish()?;
/// assert_eq!(reader.latest().read()?, rows);
/// assert_eq!(reader.fragments().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FragmentedWriter {
    state: Arc<FragmentsState>,
    threads: Vec<FragmentThread>,
    splitter: Splitter,
    /// The columns of the rows that it is given.
    input: SchemaRef,
    newest_cycle: Option<u64>,
    /// How many cycles the fragments were given whose version is not published yet.
    queued: VecDeque<u64>,
    /// Why no more rows can be stored: some fragments may have a cycle that others do not have.
    failed: Option<Cause>,
}

impl FragmentedWriter {
    /// An empty store, and the handle to read it.
    ///
    /// # Errors
    /// As for [`StoreConfig::check`]; [`Cause::bug`] if the configuration has no fragments; [`Cause::resource`] if a thread
    /// cannot be started.
    pub fn new(config: StoreConfig) -> Result<(FragmentedWriter, StoreReader), Cause> {
        config.check()?;
        let count = config.fragments.as_ref().map_or(0, |fragments| fragments.count);
        let writers = (0..count).map(|_| StoreWriter::new(fragment_config(&config, count)));
        let writers =
            writers.map(|created| created.map(|(writer, _)| writer)).collect::<Result<_, Cause>>()?;
        FragmentedWriter::of(config, writers, (0, i64::MIN))
    }

    /// A store of these fragments. `numbers` are the number of its next row, and the largest time of all rows.
    pub(super) fn of(
        config: StoreConfig,
        writers: Vec<StoreWriter>,
        numbers: (u64, i64),
    ) -> Result<(FragmentedWriter, StoreReader), Cause> {
        let Some((fragmentation, first)) = config.fragments.clone().zip(writers.first()) else {
            return Err(Cause::bug("a store of fragments has none"));
        };
        let shared = first.shared.clone();
        let newest_cycle = first.newest_cycle();
        let splitter = Splitter::new(&config, fragmentation, first.input.clone(), numbers)?;
        let fragments: Vec<_> = writers.iter().map(|writer| writer.shared.clone()).collect();
        let published: Vec<_> = fragments.iter().map(|fragment| fragment.current.load()).collect();
        let input = config.input();
        let state = FragmentsState { config, fragments, current: VersionCell::new(published) };
        let state = Arc::new(state);
        let threads = writers.into_iter().enumerate();
        let threads = threads.map(|(fragment, writer)| FragmentThread::start(fragment, writer));
        let writer = FragmentedWriter {
            state: state.clone(),
            threads: threads.collect::<Result<_, Cause>>()?,
            input,
            splitter,
            newest_cycle,
            queued: VecDeque::new(),
            failed: None,
        };
        Ok((writer, StoreReader { shared, whole: Some(state) }))
    }

    /// What the store holds counts in this account and in others of its budget from here on, as for
    /// [`StoreWriter::count_in`].
    pub fn count_in(&self, account: MemoryAccount, holder: &str) {
        for fragment in &self.state.fragments {
            let StoreStatistics { bytes, index_bytes, .. } = fragment.current.load().statistics;
            fragment.memory.count_in(account.budget().account(), holder, bytes + index_bytes);
        }
    }

    /// Refuses rows that are there before the first cycle, if they may be taken back later.
    pub(crate) fn begin_with(&self, rows: &RecordBatch) -> Result<(), Cause> {
        if self.state.config.contents != Contents::Changes || rows.num_rows() == 0 {
            return Ok(());
        }
        Err(Cause::user(
            "the result has a row before any input has come, such as a sum of nothing, so it cannot be divided among \
             fragments; leave out FRAGMENTS",
        ))
    }

    /// Gives the rows of a cycle to the fragments. It waits if they are a few cycles behind. Readers see the rows when a
    /// later cycle is given, or at the latest after [`publish`](FragmentedWriter::publish).
    ///
    /// # Errors
    /// As for [`StoreWriter::append`], also for one of the cycles before. After an error it takes no more rows; readers
    /// keep the last version that all fragments have.
    pub fn append(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        self.unless_failed(|writer| writer.give(cycle, batches))
    }

    /// Waits until every fragment has all cycles that were given, and publishes them.
    ///
    /// # Errors
    /// As for [`append`](FragmentedWriter::append).
    pub fn publish(&mut self) -> Result<(), Cause> {
        self.unless_failed(|writer| {
            while !writer.queued.is_empty() {
                writer.publish_next()?;
            }
            Ok(())
        })
    }

    /// Writes all versions that can be read, after it has published all cycles, as for [`StoreWriter::snapshot`].
    ///
    /// # Errors
    /// As for [`publish`](FragmentedWriter::publish) and [`StoreWriter::snapshot`].
    pub fn snapshot(
        &mut self,
        writer: &mut SnapshotWriter,
        files: &mut dyn ChunkFiles,
    ) -> Result<BTreeSet<u64>, Cause> {
        self.publish()?;
        let published = self.state.current.load();
        let complete = published.iter().flat_map(|fragment| fragment.chunks.complete.as_slice());
        let named = keep(complete, files)?;
        let Fragmentation { count, by } = &self.splitter.fragmentation;
        writer.u8(VERSION);
        writer.u32(*count);
        by.text().to_owned().write(writer);
        (self.splitter.next, self.splitter.latest).write(writer);
        for thread in &self.threads {
            *writer = thread.write_manifest(std::mem::take(writer))?;
        }
        Ok(named)
    }

    fn unless_failed(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Cause>) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        step(self).inspect_err(|cause| self.failed = Some(cause.clone()))
    }

    fn give(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        if let Some(newest) = self.newest_cycle.filter(|newest| *newest >= cycle) {
            return Err(Cause::bug(format!("a store was given cycle {cycle} after cycle {newest}")));
        }
        let wrong = batches.iter().find(|rows| rows.schema_ref() != &self.input);
        if let Some(wrong) = wrong {
            return Err(Cause::bug(format!("a store was given rows of other columns: {:?}", wrong.schema())));
        }
        if self.queued.len() == CYCLES_QUEUED {
            self.publish_next()?;
        }
        let parts = self.splitter.split(&self.state.config, batches)?;
        let has_rows = parts.iter().any(|rows| !rows.is_empty());
        for (thread, rows) in self.threads.iter().zip(parts) {
            thread.append(Part { cycle, rows, has_rows, latest: self.splitter.latest })?;
        }
        self.newest_cycle = Some(cycle);
        self.queued.push_back(cycle);
        Ok(())
    }

    /// Publishes the oldest cycle that is not published yet, as soon as every fragment has it.
    fn publish_next(&mut self) -> Result<(), Cause> {
        self.queued.pop_front();
        let published: Vec<_> = self.threads.iter().map(FragmentThread::published).collect();
        let published: Vec<Arc<Published>> = published.into_iter().collect::<Result<_, Cause>>()?;
        let held = published.iter().map(|published| published.statistics).reduce(StoreStatistics::and);
        check_strict(&self.state.config, &held.unwrap_or_default())?;
        self.state.current.store(Arc::new(published));
        Ok(())
    }
}
