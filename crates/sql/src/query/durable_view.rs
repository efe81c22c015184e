//! A materialized view of a durable query: its rows are kept with the query's snapshots.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use datafusion::arrow::array::RecordBatch;
use tidemill_engine::{
    Cause, CycleOutput, Fault, Guarantee, Journal, MemoryAccount, Sink, SnapshotReader, SnapshotWriter,
    StoredRowsFile, chain,
};
use tidemill_store::{StoreConfig, StoreReader, StoreSink};
use tracing::warn;

use crate::query::view_chunks::ViewChunks;

/// A sink into a store whose rows survive the process. They are written at the end of a snapshot's cycle: chunks that have become
/// complete to files of their own, and then the rest, which names all chunks, in place of what was there. Later cycles are
/// given again by the run that resumes from there.
pub(crate) struct DurableView {
    sink: StoreSink,
    file: StoredRowsFile,
    chunks: ViewChunks,
    /// The last cycle in the file, and the last that was committed.
    recorded: Option<u64>,
    committed: Option<u64>,
}

impl DurableView {
    /// A sink that begins with the rows that a view of this name has in a journal, and the handle to read them.
    pub fn open(
        config: StoreConfig,
        name: &str,
        journal: &Journal,
    ) -> Result<(DurableView, StoreReader), Cause> {
        let file = journal.stored_rows(name)?;
        let mut chunks = ViewChunks::new(journal.stored_chunks(name)?);
        let (sink, reader, recorded) = match file.read()? {
            Some((cycle, bytes)) => {
                let mut snapshot = SnapshotReader::new(&bytes)?;
                let (sink, reader) = StoreSink::restore(config, &mut snapshot, &mut chunks)?;
                (sink, reader, Some(cycle))
            }
            None => {
                let (sink, reader) = StoreSink::new(config)?;
                (sink, reader, None)
            }
        };
        // The file has named all that was read. The rest is of a run that ended before it could name it.
        chunks.remove_unread()?;
        let view = DurableView { sink, file, chunks, recorded, committed: recorded };
        Ok((view, reader))
    }

    /// Stores the rows that are there before the first cycle, unless an earlier run has kept others.
    pub fn begin_with(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        if self.recorded.is_some() { Ok(()) } else { self.sink.begin_with(rows) }
    }

    /// What its rows hold counts in this account, as for [`StoreSink::count_in`].
    pub fn count_in(&self, account: MemoryAccount, holder: &str) {
        self.sink.count_in(account, holder);
    }

    /// Writes the rows after this cycle; returns the files of chunks that they are in.
    fn write(&mut self, cycle: u64) -> Result<BTreeSet<u64>, Cause> {
        let mut writer = SnapshotWriter::default();
        let named = self.sink.snapshot(&mut writer, &mut self.chunks)?;
        self.file.write(cycle, &writer.finish())?;
        Ok(named)
    }
}

impl Sink for DurableView {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.recorded)
    }

    fn unrecorded(&self) -> Option<u64> {
        (self.committed > self.recorded).then(|| self.recorded.map_or(0, |cycle| cycle + 1))
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.sink.prepare(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.committed = Some(*cycles.end());
        self.sink.commit(cycles)
    }

    fn record(&mut self) -> Result<(), Cause> {
        let Some(cycle) = self.committed.filter(|_| self.committed > self.recorded) else { return Ok(()) };
        match self.write(cycle) {
            Ok(named) => {
                self.recorded = Some(cycle);
                self.chunks.keep_only(&named);
            }
            // Without it, more is given again. There may be room at the next snapshot.
            Err(cause) if cause.fault == Fault::Resource => {
                warn!(cycle, causes = ?chain(&cause), "there is no space for the rows of a view; skipped until the \
                    next snapshot");
            }
            Err(cause) => return Err(cause),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.sink.finish()
    }
}

#[cfg(test)]
#[path = "../../tests/kept_views/mod.rs"]
mod kept_views;
