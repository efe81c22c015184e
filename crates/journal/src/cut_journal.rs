//! The durable log of cuts.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::error::Cause;
use tidemill_core::fields::Fields;
use tidemill_core::{Cut, CutLog};

use crate::cut_record::{decode_cut, encode_cut};
use crate::failure::damaged;
use crate::log_reader::{LogReader, Read};
use crate::progress::StreamProgress;
use crate::record_log::{NewRecord, RecordLog};
use crate::recovery;

/// The durable log of a query's cuts. Clones refer to the same log.
///
/// Appending does not wait while another thread syncs. It does wait when a segment is full, which is then synced, and
/// while segments are removed.
#[derive(Clone)]
pub struct CutJournal {
    log: Arc<Mutex<RecordLog>>,
    progress: Arc<StreamProgress>,
}

impl CutJournal {
    pub(crate) fn new(log: RecordLog) -> CutJournal {
        let progress = log.shared.progress.clone();
        CutJournal { log: Arc::new(Mutex::new(log)), progress }
    }

    /// Makes everything appended before durable.
    ///
    /// # Errors
    /// If the disk fails. It is then unknown what the disk has, so the log accepts nothing more.
    pub fn sync(&self) -> Result<(), Cause> {
        let Some(pending) = self.lock().begin_sync()? else { return Ok(()) };
        let result = pending.run();
        let mut log = self.lock();
        log.end_sync(&pending, result)?;
        log.remove_released()
    }

    /// The last cycle whose cut is synced.
    pub fn synced(&self) -> Option<u64> {
        self.progress.synced().checked_sub(1)
    }

    /// The first cycle whose cut is still there.
    pub fn start(&self) -> u64 {
        self.progress.first()
    }

    /// How far the log is; its positions are numbers of cycles.
    pub fn progress(&self) -> Arc<StreamProgress> {
        Arc::clone(&self.progress)
    }

    /// Reads the cuts one after the other.
    pub fn reader(&self) -> CutReader {
        CutReader(LogReader::new(self.lock().shared.clone()))
    }

    /// One past the last cycle whose cut is logged.
    pub fn end(&self) -> u64 {
        self.progress.end()
    }

    /// The logged cuts with larger numbers, ascending and without gaps.
    ///
    /// # Errors
    /// If one of them was removed or is damaged.
    pub fn cuts_after(&self, cycle: Option<u64>) -> Result<Vec<Cut>, Cause> {
        let first = cycle.map_or(0, |cycle| cycle.saturating_add(1));
        let mut reader = LogReader::new(self.lock().shared.clone());
        (first..self.progress.end()).map_while(|cycle| read_cut(&mut reader, cycle).transpose()).collect()
    }

    /// The cut of this cycle, if it was logged.
    ///
    /// # Errors
    /// If it was removed or is damaged.
    pub fn cut(&self, cycle: u64) -> Result<Option<Cut>, Cause> {
        read_cut(&mut LogReader::new(self.lock().shared.clone()), cycle)
    }

    /// The last cut.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read_last(&self) -> Result<Option<Cut>, Cause> {
        let Some(cycle) = self.progress.end().checked_sub(1) else { return Ok(None) };
        read_cut(&mut LogReader::new(self.lock().shared.clone()), cycle)
    }

    /// The last cut; `None` if it cannot be read.
    pub fn last(&self) -> Option<Cut> {
        self.read_last().ok().flatten()
    }

    /// How many bytes the log has.
    pub fn bytes(&self) -> u64 {
        self.progress.bytes()
    }

    /// Reports that the cuts up to this cycle are no longer needed.
    pub fn release(&self, cycle: u64) {
        self.progress.release(cycle.saturating_add(1));
    }

    /// Asks for the cuts from this cycle on once more; whether they are still there. They then stay until they are
    /// released again.
    pub fn keep_from(&self, cycle: u64) -> bool {
        self.progress.keep_from(cycle)
    }

    /// Durably cuts off the cuts with larger numbers, whose rows were lost in a power failure. `None`: all.
    ///
    /// # Errors
    /// If the disk fails, or one of the cuts before is damaged.
    pub fn discard_after(&self, cycle: Option<u64>) -> Result<(), Cause> {
        recovery::cut_back(&mut self.lock(), cycle.map_or(0, |cycle| cycle.saturating_add(1)))
    }

    /// How many bytes of an incompletely written cut were cut off when the log was opened.
    pub fn torn_bytes(&self) -> u64 {
        self.lock().torn_bytes
    }

    fn lock(&self) -> MutexGuard<'_, RecordLog> {
        self.log.lock()
    }
}

/// Reads a log of cuts. Reading on is fast; going back searches the segment.
pub struct CutReader(LogReader);

impl CutReader {
    /// The cut of this cycle, if it was logged.
    ///
    /// # Errors
    /// If it was removed or is damaged.
    pub fn read(&mut self, cycle: u64) -> Result<Option<Cut>, Cause> {
        read_cut(&mut self.0, cycle)
    }
}

impl CutLog for CutJournal {
    fn append(&mut self, cut: &Cut) -> Result<(), Cause> {
        let mut log = self.lock();
        if cut.cycle != log.end() {
            let due = log.end();
            return Err(Cause::bug(format!("cut {} is logged where cut {due} is expected", cut.cycle)));
        }
        let mut bytes = Vec::with_capacity(64 + 17 * cut.positions.len());
        encode_cut(cut, &mut bytes);
        log.append(
            NewRecord { count: 1, arrived_ns: cut.closed_at_ns, request: None, offsets: &[], stretches: &[] },
            &[&bytes],
        )
        .map(drop)
    }
}

fn read_cut(reader: &mut LogReader, cycle: u64) -> Result<Option<Cut>, Cause> {
    let Some(Read { head, bytes, segment, offset }) = reader.read(cycle)? else { return Ok(None) };
    let cut = decode_cut(&mut Fields(&bytes[head.content()]));
    match cut {
        Ok(cut) if cut.cycle == cycle => Ok(Some(cut)),
        _ => Err(damaged(&segment.path, offset, "this is not the expected cut")),
    }
}
