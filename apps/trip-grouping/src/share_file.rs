//! A sink that writes shares into a file as they are made, and sums up what they save.

use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_engine::{Cause, CycleOutput, Sink};

use crate::savings::Savings;
use crate::schema;
use crate::share::Share;
use crate::text;

/// Seconds of an hour.
const HOUR_S: i64 = 3600;

/// What was committed so far; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Vec<(i64, Savings)>>>);

impl Tally {
    /// The savings of each hour in which shares were made, in the order of the hours, if times are seconds.
    pub fn by_hour(&self) -> Vec<(i64, Savings)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, shares: &[Share]) {
        let mut hours = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for share in shares {
            let hour = share.grouped.div_euclid(HOUR_S);
            let place = hours.partition_point(|(known, _)| *known < hour);
            if hours.get(place).is_none_or(|(known, _)| *known != hour) {
                hours.insert(place, (hour, Savings::default()));
            }
            hours[place].1.add(share);
        }
    }
}

/// Receives the [members](schema::members) of shares. The file, if there is one, has a line for each request, in an order
/// that does not depend on where cycles are cut.
#[derive(Debug)]
pub struct ShareFile {
    file: Option<(PathBuf, File)>,
    tally: Tally,
    /// Shares of cycles that are prepared and not committed.
    prepared: Vec<Share>,
    lines: Vec<u8>,
    committed_bytes: u64,
}

impl ShareFile {
    /// Only sums up.
    pub fn without_file(tally: Tally) -> Self {
        ShareFile { file: None, tally, prepared: Vec::new(), lines: Vec::new(), committed_bytes: 0 }
    }

    /// Creates the file, and replaces an earlier one.
    ///
    /// # Errors
    /// If it cannot be written; the text names it.
    pub fn create(path: &Path, tally: Tally) -> Result<Self, Cause> {
        let file = File::create(path).map_err(|error| cannot_write(path, error))?;
        let lines = format!("{}\n", text::SHARE_HEADER).into_bytes();
        Ok(ShareFile { file: Some((path.to_owned(), file)), lines, ..ShareFile::without_file(tally) })
    }

    fn write(&mut self) -> Result<(), Cause> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let written = file.write_all(&self.lines);
        if let Err(error) = written {
            // Whole cycles only. If even this fails, the error that is reported is still the first one.
            let _ = file.set_len(self.committed_bytes);
            return Err(cannot_write(path, error));
        }
        self.committed_bytes += self.lines.len() as u64;
        self.lines.clear();
        Ok(())
    }
}

impl Sink for ShareFile {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut shares: Vec<Share> = output.streams.iter().flatten().flat_map(schema::shares_of).collect();
        // They come group by group. A grouping cycle is never divided, but one cycle of the engine may hold several.
        shares.sort_by_key(|share| share.grouped);
        if self.file.is_some() {
            shares.iter().for_each(|share| text::write_share(share, &mut self.lines));
        }
        self.prepared.append(&mut shares);
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.write()?;
        self.tally.add(&self.prepared);
        self.prepared.clear();
        Ok(())
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Cause {
    let text = format!("cannot write {}: {error}; free some space or choose another file", path.display());
    Cause::operation(text).with_source(error)
}
