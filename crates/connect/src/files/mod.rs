//! Rows from files: one file, the files of a directory, or those that match a pattern; read once, or
//! followed.
//!
//! Text (CSV, NDJSON) may be compressed with zstd. Files of a pattern or a directory
//! are read in the order of their names; hidden files (`.name`, `_name`) of a directory are left out.

mod follow;
mod follow_text;
mod listing;
mod reading;
mod settings;

use std::collections::VecDeque;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled, Progress, Source};

use crate::infer;
pub(crate) use listing::failed;
pub(crate) use reading::TextInput;
pub use settings::FileSettings;

/// A source of the rows of files.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::files::{FileSettings, FileSource};
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
    ready: VecDeque<RecordBatch>,
    faults: Faults,
}

enum State {
    Once(reading::Files),
    Follow(follow::Follower),
}

impl FileSource {
    /// Finds the files and opens the first one; infers the columns from it if none are declared.
    ///
    /// # Errors [`Cause::User`] if there is no file, the format is not known, or a declared column is not in
    /// the first file. [`Cause::Operation`] if it cannot be read.
    pub fn open(mut settings: FileSettings) -> Result<FileSource, Cause> {
        settings.complete()?;
        let declared = match &settings.schema {
            Some(schema) => schema.clone(),
            None => infer::infer_files(&mut settings)?,
        };
        let state = match settings.follow {
            true => State::Follow(follow::Follower::open(settings, declared.clone())?),
            false => State::Once(reading::Files::open(settings, declared.clone())?),
        };
        Ok(FileSource { schema: declared, state, ready: VecDeque::new(), faults: Faults::default() })
    }

    /// The columns of the first file: its own (Parquet, Arrow IPC), or inferred from its first rows (at most
    /// [`infer::RECORDS_MAX`] or [`infer::SAMPLE_BYTES`]).
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn infer(settings: &FileSettings) -> Result<SchemaRef, Cause> {
        let mut settings = settings.clone();
        settings.complete()?;
        infer::infer_files(&mut settings)
    }

    /// Reads only these of the columns, in this order; to be called before the first poll. Values of the
    /// other columns are not looked at, so their faults are not found.
    ///
    /// # Errors
    /// [`Cause::Bug`] if there is no such column.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        let schema = match &mut self.state {
            State::Once(files) => files.set_projection(columns)?,
            State::Follow(follower) => follower.set_projection(columns)?,
        };
        self.schema = schema;
        Ok(())
    }
}

impl Source for FileSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Polled::Rows(batch));
        }
        let ended = match &mut self.state {
            State::Once(files) => files.read(wait, &mut self.ready, &mut self.faults)?,
            State::Follow(follower) => {
                follower.read(wait, &mut self.ready, &mut self.faults)?;
                false
            }
        };
        Ok(match self.ready.pop_front() {
            Some(batch) => Polled::Rows(batch),
            None if ended => Polled::Ended,
            None => Polled::Nothing,
        })
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    fn progress(&self) -> Progress {
        match &self.state {
            State::Once(files) => files.progress(),
            State::Follow(follower) => follower.progress(),
        }
    }

    fn is_finite(&self) -> bool {
        matches!(self.state, State::Once(_))
    }

    fn is_repeatable(&self) -> bool {
        self.is_finite()
    }
}

impl std::fmt::Debug for FileSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileSource").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The files of a path, at least one.
pub(crate) fn list_files(path: &str) -> Result<Vec<std::path::PathBuf>, Cause> {
    let files = listing::list(path)?;
    if files.is_empty() { Err(listing::nothing_found(path)) } else { Ok(files) }
}
