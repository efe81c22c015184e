//! A source in front of another one, which writes down the records that the other one could not read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use tidemill_core::source::{Refused, SourceOffset};
use tidemill_core::{
    BadRecords, Cause, DelegatingSource, Faults, Heard, Outage, OutageReport, Polled, Source,
};
use tracing::warn;

use super::SourceLetterFile;
use crate::formats::encode::row_json;

/// How long it waits before it writes again to a disk that had no space.
const TRIAL_WAIT: Duration = Duration::from_secs(1);

/// Keeps the records that a source could not read, and the rows that may not come in, in a file of dead letters.
///
/// Letters are on disk before the rows that came with them are returned, and therefore before these are journaled or
/// acknowledged. A full disk holds the rows back until it has space.
pub struct SourceLetters {
    source: Box<dyn Source>,
    name: String,
    letters: SourceLetterFile,
    /// Whether a letter file of this source is open.
    is_open: Arc<AtomicBool>,
    /// Not on disk yet.
    pending: BadRecords,
    /// What was polled together with letters that are not on disk.
    held: Option<Polled>,
    /// The rows that are to be acknowledged once all letters are on disk.
    acknowledged: Option<u64>,
    faults: Faults,
    full_disk: Outage,
    full_file: Outage,
    next_trial: Instant,
}

impl SourceLetters {
    /// A source of this name with a file of letters. `comes_again` is as in [`SourceLetterFile::open`]. If the source is
    /// open already (`is_open`), in another query, that one writes the letters, and the source is returned as it is.
    ///
    /// # Errors
    /// As [`SourceLetterFile::open`].
    pub fn before(
        mut source: Box<dyn Source>,
        name: &str,
        path: &Path,
        comes_again: bool,
        is_open: &Arc<AtomicBool>,
    ) -> Result<Box<dyn Source>, Cause> {
        if is_open.swap(true, Ordering::AcqRel) {
            return Ok(source);
        }
        let letters = SourceLetterFile::open(path, name, comes_again);
        let letters = letters.inspect_err(|_| is_open.store(false, Ordering::Release))?;
        source.keep_bad_records();
        Ok(Box::new(SourceLetters {
            source,
            name: name.to_owned(),
            letters,
            is_open: Arc::clone(is_open),
            pending: BadRecords::default(),
            held: None,
            acknowledged: None,
            faults: Faults::default(),
            full_disk: Outage::default(),
            full_file: Outage::default(),
            next_trial: Instant::now(),
        }))
    }

    /// Takes what the source reports.
    fn take_faults(&mut self) {
        let mut faults = self.source.faults();
        if let Some(records) = faults.records.take() {
            self.pending.merge(records);
        }
        self.faults.merge(faults);
    }

    /// Writes what is pending. False: the disk has no space.
    fn write(&mut self) -> Result<bool, Cause> {
        if self.pending.is_empty() {
            return Ok(true);
        }
        let now = Instant::now();
        if now < self.next_trial {
            return Ok(false);
        }
        let left_out = self.letters.left_out();
        match self.letters.write(&self.pending) {
            Ok(()) => self.pending = BadRecords::default(),
            Err(error) if is_out_of_space(&error) => {
                self.next_trial = now + TRIAL_WAIT;
                self.tell_of_full_disk(&error, now);
                return Ok(false);
            }
            Err(error) => return Err(self.letters.unwritten(&error).with_source(error)),
        }
        if let Some(OutageReport { attempts, lasted }) = self.full_disk.over(now) {
            let source = &self.name;
            warn!(source, attempts, after = ?lasted, "the disk of dead letters has space again; intake continues");
            self.faults.notice("the disk of the dead letters has space again; intake continues");
        }
        if self.letters.left_out() > left_out && self.full_file.failed(now).is_some() {
            self.faults.notice(self.letters.full());
        }
        if let Some(rows) = self.acknowledged.take() {
            self.source.acknowledge(rows);
        }
        Ok(true)
    }

    fn tell_of_full_disk(&mut self, error: &std::io::Error, now: Instant) {
        if let Some(OutageReport { attempts, lasted }) = self.full_disk.failed(now) {
            let source = &self.name;
            warn!(source, attempts, ?lasted, %error, "intake pauses, because the disk of dead letters has no space");
            if attempts == 1 {
                let reason = self.letters.unwritten(error);
                self.faults.notice(format!("intake pauses until there is space: {reason}"));
            }
        }
    }

    /// Waits until it is worth to write again, but no longer than this.
    fn pause(&self, wait: Duration) {
        std::thread::sleep(wait.min(self.next_trial.saturating_duration_since(Instant::now())));
    }
}

impl Drop for SourceLetters {
    fn drop(&mut self) {
        self.is_open.store(false, Ordering::Release);
    }
}

impl DelegatingSource for SourceLetters {
    fn inner(&self) -> &dyn Source {
        self.source.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Source {
        self.source.as_mut()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        if !self.write()? {
            self.pause(wait);
            return Ok(Polled::Nothing);
        }
        if let Some(held) = self.held.take() {
            return Ok(held);
        }
        let polled = self.source.poll(wait)?;
        self.take_faults();
        if self.write()? {
            return Ok(polled);
        }
        self.held = Some(polled);
        Ok(Polled::Nothing)
    }

    fn offsets(&mut self) -> Vec<SourceOffset> {
        match self.held {
            None => self.source.offsets(),
            // They belong to rows that are not returned yet.
            Some(_) => Vec::new(),
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        if self.pending.is_empty() { self.source.acknowledge(rows) } else { self.acknowledged = Some(rows) }
    }

    fn connections(&mut self) -> Vec<Heard> {
        match self.held {
            None => self.source.connections(),
            Some(_) => Vec::new(),
        }
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    fn refused_rows(&mut self, rows: &RecordBatch, refused: &Refused) -> Result<(), Cause> {
        for (place, row) in refused.rows.iter().enumerate() {
            let (reason, row) = (refused.reason(place).to_owned(), row_json(&rows.slice(*row, 1)));
            self.pending.add_row(self.name.clone(), reason, row);
        }
        self.write().map(drop)
    }
}

fn is_out_of_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
