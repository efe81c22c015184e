//! Rows from files: one file, the files of a directory, or those that match a pattern; read once, or followed.
//!
//! A file of another machine (`https://`, `s3://`) is fetched and then read. Text (CSV, NDJSON) may be compressed
//! with zstd or gzip. Files of a pattern or a directory are read in the order of their names; hidden files (`.name`,
//! `_name`) of a directory are left out. A pipe is read as a stream, and what was read of it cannot be read again.

mod attention;
mod copies;
mod entry;
mod failure;
mod folders;
mod follow;
mod follow_columns;
mod follow_text;
mod infer;
mod listing;
mod offset;
mod parts;
mod pipe;
mod reading;
mod remote;
mod settings;
mod text_input;
mod text_progress;
mod unfollowed_files;
mod watch;

use std::collections::VecDeque;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled, Progress, Source, SourceOffset, SourceOffsets};

use super::overwritten;
use crate::formats::DecoderSettings;
pub(crate) use pipe::is_pipe;
pub use settings::{FileSettings, Inferred, first_file};
use text_progress::RowsRead;

/// A source that reads rows from files.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::file::{FileSettings, FileSource};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::{Polled, Source};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("prices.csv");
/// std::fs::write(&path, "day,price\n2026-01-01,9.5\n2026-01-02,oops\n2026-01-03,10\n")?;
/// let mut settings = FileSettings::new(path.display().to_string());
/// settings.csv.header = Some(true);
/// let columns = vec![Field::new("price", DataType::Float64, true)];
/// settings.schema = Some(Arc::new(Schema::new(columns)));
/// let mut source = FileSource::open(settings)?;
/// let Polled::Rows(rows) = source.poll(Duration::from_secs(1))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 2);
/// assert!(source.faults().samples[0].ends_with("line 3: column 'price': 'oops' is not a DOUBLE"));
/// assert!(matches!(source.poll(Duration::ZERO)?, Polled::Ended));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileSource {
    schema: SchemaRef,
    state: State,
    given: VecDeque<RowsRead>,
    /// The offsets of the rows that were polled since offsets were last asked for.
    offsets: Vec<SourceOffset>,
    faults: Faults,
}

enum State {
    Once(Box<reading::Files>),
    Remote(Box<remote::RemoteFiles>),
    Follow(Box<follow::Follower>),
    Pipe(Box<pipe::Pipe>),
}

impl FileSource {
    /// Finds the files and opens the first one; infers the columns from it if none are declared.
    ///
    /// # Errors [`Cause::user`] if there is no file, the format is not known, or a declared column is not in
    /// the first file. [`Cause::operation`] if it cannot be read.
    pub fn open(mut settings: FileSettings) -> Result<FileSource, Cause> {
        settings.complete()?;
        let declared = match &settings.schema {
            Some(schema) => schema.clone(),
            None => infer::infer_files(&mut settings)?,
        };
        let notes = settings.inferred.iter().flat_map(|inferred| inferred.notes.clone());
        let mut faults = Faults::default();
        notes.for_each(|note| faults.notice(note));
        let state = match settings.follow {
            _ if settings.is_remote() => {
                let Some(place) = settings.location()? else {
                    return Err(Cause::bug("a path without a place"));
                };
                State::Remote(Box::new(remote::RemoteFiles::open(settings, &place, declared.clone())?))
            }
            _ if settings.is_pipe() => {
                let FileSettings { path, follow, csv, batch_rows, .. } = &settings;
                let (schema, csv) = (declared.clone(), csv.clone());
                let decoder = DecoderSettings { schema, csv, batch_rows: *batch_rows };
                State::Pipe(Box::new(pipe::Pipe::open(path, settings.known_format()?, *follow, decoder)?))
            }
            is_followed => {
                overwritten::refuse(|| listing::list(&settings.path))?;
                if is_followed {
                    State::Follow(Box::new(follow::Follower::open(settings, declared.clone())?))
                } else {
                    State::Once(Box::new(reading::Files::open(settings, declared.clone())?))
                }
            }
        };
        Ok(FileSource { schema: declared, state, given: VecDeque::new(), offsets: Vec::new(), faults })
    }

    /// The columns of the first file: its own (Parquet, Arrow IPC), or inferred from the rows of all files; from its first
    /// [`SAMPLE_BYTES`] if they are followed, of another machine, or not to be [scanned](FileSettings::scan). Sets the delimiter,
    /// header and titles of `csv` if they were left open, because the rows must be read as the columns were inferred.
    ///
    /// [`SAMPLE_BYTES`]: crate::formats::infer::SAMPLE_BYTES
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn infer(settings: &mut FileSettings) -> Result<SchemaRef, Cause> {
        settings.complete()?;
        infer::infer_files(settings)
    }

    /// Reads only these columns, in this order. Call it before the first poll. Values of the other columns are not
    /// examined, so their faults are not found.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        let schema = match &mut self.state {
            State::Once(files) => files.set_projection(columns)?,
            State::Remote(files) => files.set_projection(columns)?,
            State::Follow(follower) => follower.set_projection(columns)?,
            State::Pipe(pipe) => pipe.set_projection(columns)?,
        };
        self.schema = schema;
        Ok(())
    }
}

impl FileSource {
    /// The next rows that are ready.
    fn take_given(&mut self) -> Option<RecordBatch> {
        let RowsRead { rows, offset } = self.given.pop_front()?;
        self.offsets.extend(offset);
        Some(rows)
    }

    fn take_begun(&mut self) -> Vec<SourceOffset> {
        match &mut self.state {
            State::Follow(follower) => follower.take_begun(),
            State::Once(_) | State::Remote(_) | State::Pipe(_) => Vec::new(),
        }
    }

    fn take_changed(&mut self) -> Vec<SourceOffset> {
        match &mut self.state {
            State::Once(files) => files.take_changed(),
            State::Remote(files) => files.take_changed(),
            State::Follow(follower) => follower.take_changed(),
            State::Pipe(_) => Vec::new(),
        }
    }
}

impl Source for FileSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        if !self.offsets.is_empty() {
            // Nobody asks for them.
            self.offsets.clear();
            drop((self.take_begun(), self.take_changed()));
        }
        if let Some(rows) = self.take_given() {
            return Ok(Polled::Rows(rows));
        }
        let ended = match &mut self.state {
            State::Once(files) => files.read(wait, &mut self.given, &mut self.faults)?,
            State::Remote(files) => files.read(wait, &mut self.given, &mut self.faults)?,
            State::Follow(follower) => {
                follower.read(wait, &mut self.given, &mut self.faults)?;
                false
            }
            State::Pipe(pipe) => pipe.read(wait, &mut self.given, &mut self.faults)?,
        };
        Ok(match self.take_given() {
            Some(rows) => Polled::Rows(rows),
            None if ended => Polled::Ended,
            None => Polled::Nothing,
        })
    }

    fn offsets(&mut self) -> Vec<SourceOffset> {
        let mut offsets = self.take_begun();
        offsets.append(&mut self.offsets);
        if self.given.is_empty() {
            // Offsets that changed without rows changed after all rows.
            offsets.extend(self.take_changed());
        }
        offsets
    }

    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        match &mut self.state {
            State::Once(files) => files.resume(offsets),
            State::Remote(files) => files.resume(offsets),
            State::Follow(follower) => follower.resume(offsets),
            State::Pipe(_) => Ok(()),
        }
    }

    fn keep_bad_records(&mut self) {
        // Files that know their own columns report here without a decoder.
        self.faults.keep_records();
        match &mut self.state {
            State::Once(files) => files.keep_bad_records(),
            State::Remote(files) => files.keep_bad_records(),
            State::Follow(follower) => follower.keep_bad_records(),
            State::Pipe(pipe) => pipe.keep_bad_records(),
        }
    }

    fn faults(&mut self) -> Faults {
        self.faults.take()
    }

    fn progress(&self) -> Progress {
        match &self.state {
            State::Once(files) => files.progress(),
            State::Remote(files) => files.progress(),
            State::Follow(follower) => follower.progress(),
            State::Pipe(pipe) => pipe.progress(),
        }
    }

    fn is_finite(&self) -> bool {
        match &self.state {
            State::Once(_) | State::Remote(_) => true,
            State::Follow(_) => false,
            State::Pipe(pipe) => !pipe.follows(),
        }
    }

    fn is_repeatable(&self) -> bool {
        matches!(self.state, State::Once(_) | State::Remote(_))
    }
}

impl std::fmt::Debug for FileSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileSource").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The files of a path, at least one.
fn list_files(path: &str) -> Result<Vec<std::path::PathBuf>, Cause> {
    let files = listing::list(path)?;
    if files.is_empty() { Err(failure::nothing_found(path)) } else { Ok(files) }
}
