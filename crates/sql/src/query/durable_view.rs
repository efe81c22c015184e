//! A materialized view of a durable query: its rows are kept with the query's snapshots.

use std::ops::RangeInclusive;

use tidemill_engine::{
    Cause, CycleOutput, Fault, Guarantee, MemoryAccount, Sink, SnapshotReader, SnapshotWriter,
    StoredRowsFile, chain,
};
use tidemill_store::{StoreConfig, StoreReader, StoreSink};
use tracing::warn;

/// A sink into a store whose rows survive the process. They are written as a whole at the end of a snapshot's cycle; later
/// cycles are given again by the run that resumes from there.
pub(crate) struct DurableView {
    sink: StoreSink,
    file: StoredRowsFile,
    /// The last cycle in the file, and the last that was committed.
    recorded: Option<u64>,
    committed: Option<u64>,
}

impl DurableView {
    /// A sink that begins with the rows in a file, and the handle to read them.
    pub fn open(config: StoreConfig, file: StoredRowsFile) -> Result<(DurableView, StoreReader), Cause> {
        let (sink, reader, recorded) = match file.read()? {
            Some((cycle, bytes)) => {
                let (sink, reader) = StoreSink::restore(config, &mut SnapshotReader::new(&bytes)?)?;
                (sink, reader, Some(cycle))
            }
            None => {
                let (sink, reader) = StoreSink::new(config)?;
                (sink, reader, None)
            }
        };
        let view = DurableView { sink, file, recorded, committed: recorded };
        Ok((view, reader))
    }

    /// What its rows hold counts in this account, as for [`StoreSink::count_in`].
    pub fn count_in(&self, account: MemoryAccount, holder: &str) {
        self.sink.count_in(account, holder);
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
        let mut writer = SnapshotWriter::default();
        self.sink.snapshot(&mut writer)?;
        match self.file.write(cycle, &writer.finish()) {
            Ok(()) => self.recorded = Some(cycle),
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
