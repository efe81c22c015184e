//! Following files: what is appended to them, and new files of a directory or a pattern.
//!
//! A file of text that was replaced (its inode changed) is first read to its end, and then the new one from
//! its start; one that was truncated is read from its start. Both are reported as faults, since something may
//! have been lost. Parquet and Arrow IPC files are read once each, as soon as they are complete.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Progress};

use super::follow_text::FollowedText;
use super::listing::{is_single, list};
use super::reading::{BLOCK_BYTES, Columns};
use super::settings::FileSettings;
use crate::formats::{DecoderSettings, Format, RecordDecoder, arrow_ipc, parquet, project, text_decoder};

/// How long it waits before it looks again.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a file that cannot be opened may stay unchanged before that is a fault.
const PATIENCE: Duration = Duration::from_secs(10);
/// Files that are held open at their ends. Of more, what is written right before a replacement may be lost.
const OPEN_MAX: usize = 256;

/// The files of a source that does not end.
pub(super) struct Follower {
    settings: FileSettings,
    format: Format,
    declared: SchemaRef,
    projection: Vec<usize>,
    files: Vec<Followed>,
    known: HashSet<PathBuf>,
    /// The file to read next: each is read to its end before the next one's turn comes.
    turn: usize,
    next_scan: Instant,
    block: Vec<u8>,
    done_bytes: u64,
}

enum Followed {
    Text(FollowedText),
    Waiting { path: PathBuf, size_bytes: u64, since: Instant, reported: bool },
    Reading(Columns),
    Done,
}

impl Follower {
    pub(super) fn open(settings: FileSettings, declared: SchemaRef) -> Result<Follower, Cause> {
        let format = settings.known_format()?;
        if !format.is_text() && is_single(&settings.path) {
            return Err(Cause::User(format!(
                "{}: a {format:?} file cannot be followed, for it is complete; follow its directory",
                settings.path
            )));
        }
        let projection = (0..declared.fields().len()).collect();
        let follower = Follower {
            settings,
            format,
            declared,
            projection,
            files: Vec::new(),
            known: HashSet::new(),
            turn: 0,
            next_scan: Instant::now(),
            block: Vec::new(),
            done_bytes: 0,
        };
        if format.is_text() {
            follower.decoder()?;
        }
        Ok(follower)
    }

    fn decoder(&self) -> Result<Box<dyn RecordDecoder>, Cause> {
        let settings = DecoderSettings {
            schema: self.declared.clone(),
            csv: self.settings.csv.clone(),
            batch_rows: self.settings.batch_rows,
        };
        let mut decoder = text_decoder(self.format, settings)?;
        decoder.set_projection(&self.projection)?;
        Ok(decoder)
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<SchemaRef, Cause> {
        self.projection = columns.to_vec();
        project(&self.declared, columns)
    }

    /// Reads until there are rows, or the time is over.
    pub(super) fn read(
        &mut self,
        wait: Duration,
        ready: &mut VecDeque<RecordBatch>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        let start = Instant::now();
        loop {
            self.scan()?;
            let has_read = self.round(ready, faults)?;
            let left = wait.saturating_sub(start.elapsed());
            if !ready.is_empty() || left.is_zero() {
                return Ok(());
            }
            if !has_read {
                std::thread::sleep(PAUSE.min(left));
            }
        }
    }

    /// Looks for new files, if it is time for that.
    fn scan(&mut self) -> Result<(), Cause> {
        let start = Instant::now();
        if start < self.next_scan {
            return Ok(());
        }
        let mut paths = match is_single(&self.settings.path) {
            true => vec![PathBuf::from(&self.settings.path)],
            false => list(&self.settings.path)?,
        };
        self.forget_all_but(&paths);
        paths.retain(|path| !self.known.contains(path));
        for path in paths {
            self.known.insert(path.clone());
            let followed = match self.format.is_text() {
                true => Followed::Text(FollowedText::new(path, self.decoder()?)),
                false => Followed::Waiting { path, size_bytes: 0, since: start, reported: false },
            };
            self.files.push(followed);
        }
        // Looking through a huge directory may not take more than a twentieth of the time.
        self.next_scan = Instant::now() + (start.elapsed() * 20).max(PAUSE * 5);
        Ok(())
    }

    /// Forgets files that are not there any more, but not before they are read to their ends.
    fn forget_all_but(&mut self, paths: &[PathBuf]) {
        let present: HashSet<&PathBuf> = paths.iter().collect();
        self.known.retain(|path| present.contains(path));
        for file in &mut self.files {
            match file {
                Followed::Text(text) => text.is_gone |= !present.contains(&text.path),
                Followed::Waiting { path, .. } if !present.contains(path) => *file = Followed::Done,
                _ => {}
            }
        }
        let before = self.files.len();
        self.files.retain(|file| !matches!(file, Followed::Done));
        if self.files.len() < before {
            self.turn = 0;
        }
    }

    /// Gives each file its turn, until one has rows. True if something was read.
    fn round(&mut self, ready: &mut VecDeque<RecordBatch>, faults: &mut Faults) -> Result<bool, Cause> {
        let mut has_read = false;
        for _ in 0..self.files.len() {
            let keep_open = self.files.len() <= OPEN_MAX;
            let at = self.turn;
            let mut is_at_end = true;
            match &mut self.files[at] {
                Followed::Text(text) => {
                    self.block.resize(BLOCK_BYTES, 0);
                    let count = text.read(&mut self.block, keep_open, ready, faults)?;
                    self.done_bytes += count as u64;
                    is_at_end = count == 0;
                    if is_at_end && text.is_gone {
                        text.finish(ready, faults)?;
                        self.files[at] = Followed::Done;
                    }
                }
                Followed::Reading(columns) => {
                    let batch = columns.next(faults)?;
                    is_at_end = batch.is_none();
                    ready.extend(batch.filter(|batch| batch.num_rows() > 0));
                    if is_at_end {
                        self.files[at] = Followed::Done;
                    }
                }
                Followed::Waiting { .. } => is_at_end = !self.try_open(at, faults)?,
                Followed::Done => {}
            }
            has_read |= !is_at_end;
            if is_at_end {
                self.turn = (at + 1) % self.files.len();
            }
            if !ready.is_empty() {
                break;
            }
        }
        Ok(has_read)
    }

    /// Opens a file of columns if it is complete; one that is being written has no end yet.
    fn try_open(&mut self, at: usize, faults: &mut Faults) -> Result<bool, Cause> {
        let Followed::Waiting { path, size_bytes, since, reported } = &mut self.files[at] else {
            return Ok(false);
        };
        let Ok(metadata) = path.metadata() else { return Ok(false) };
        let has_grown = metadata.len() != *size_bytes;
        if has_grown {
            (*size_bytes, *since, *reported) = (metadata.len(), Instant::now(), false);
        } else if *reported {
            return Ok(false);
        }
        let place = path.display().to_string();
        let Ok(file) = std::fs::File::open(&*path) else { return Ok(false) };
        let own = if self.format == Format::Parquet { parquet::schema } else { arrow_ipc::schema };
        if let Err(cause) = own(&place, file) {
            if since.elapsed() >= PATIENCE {
                *reported = true;
                faults.add(cause.to_string());
            }
            return Ok(false);
        }
        self.done_bytes += metadata.len();
        let batch_rows = self.settings.batch_rows;
        let columns = Columns::open(self.format, path, &self.declared, &self.projection, batch_rows)?;
        self.files[at] = Followed::Reading(columns);
        Ok(true)
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done_bytes, total: None }
    }
}
