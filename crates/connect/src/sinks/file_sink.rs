//! One file.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Sink};

use super::columnar_file::ColumnarFile;
use super::file_format::{FileFormat, SyncPolicy};
use super::pending::{PendingRows, PendingText};
use super::text_file::{TextFile, open_failed, refuse_directory, refuse_existing};

/// What to do with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSinkSettings {
    /// The file's format.
    pub format: FileFormat,
    /// Whether a file that is there already may be replaced.
    pub overwrite: bool,
    /// When it is forced to the disk.
    pub sync: SyncPolicy,
}

impl FileSinkSettings {
    /// A new file of this format, forced to the disk at the end of the query.
    pub fn new(format: FileFormat) -> Self {
        FileSinkSettings { format, overwrite: false, sync: SyncPolicy::default() }
    }
}

/// Writes rows to one file.
///
/// **CSV and NDJSON** grow by one write per commit. If a write fails, the file is cut back to the last commit
/// and the query stops. Who reads the file while a write is under way may see a part of it, and so may who
/// reads it after the process or the machine died in the middle of one: read whole lines, or use
/// [`DirectorySink`](super::DirectorySink). A device or a pipe is written to as it is, and cannot be cut
/// back.
///
/// **Parquet and Arrow IPC** can be read only as a whole, so they get their name when the query ends in
/// order; until then they are called `<path>.partial`. If the query fails elsewhere, the committed cycles are
/// closed under that name and can be read; if writing fails, nothing is left. For results that can be read
/// before the end, use a folder.
///
/// ```
/// use tidemill_connect::sinks::{FileFormat, FileSink, FileSinkSettings};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::{Cause, Sink};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("tolls.csv");
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let mut sink = FileSink::create(&path, &schema, &FileSinkSettings::new(FileFormat::csv()))?;
/// sink.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "vid\n");
/// let again = FileSink::create(&path, &schema, &FileSinkSettings::new(FileFormat::csv()));
/// assert!(matches!(again.err(), Some(Cause::User(text)) if text.contains("overwrite = true")));
/// # Ok::<(), Cause>(())
/// ```
pub struct FileSink(Kind);

enum Kind {
    Text { pending: PendingText, file: TextFile },
    Columnar(PartialFile),
}

impl FileSink {
    /// Creates the file.
    ///
    /// # Errors
    /// [`Cause::User`] if the path is a folder, a file is there already, the folder is not, or it may not be
    /// written; [`Cause::Operation`] if creating it fails otherwise.
    pub fn create(path: &Path, schema: &SchemaRef, settings: &FileSinkSettings) -> Result<FileSink, Cause> {
        let Some(format) = settings.format.text() else {
            return Ok(FileSink(Kind::Columnar(PartialFile::create(path, schema, settings)?)));
        };
        let pending = PendingText::new(schema, format.encoder(schema)?);
        let mut file = TextFile::create(path, settings.overwrite, settings.sync)?;
        file.append(&pending.header())?;
        Ok(FileSink(Kind::Text { pending, file }))
    }
}

impl Sink for FileSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        match &mut self.0 {
            Kind::Text { pending, .. } => pending.push(output),
            Kind::Columnar(file) => file.pending.push(output, &file.schema),
        }
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        match &mut self.0 {
            Kind::Text { pending, file } => pending.take(*cycles.end(), |text, _| file.append(text)),
            Kind::Columnar(file) => file.commit(*cycles.end()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        match &mut self.0 {
            Kind::Text { file, .. } => file.finish(),
            Kind::Columnar(file) => file.finish(),
        }
    }
}

/// A file that gets its name at the end.
struct PartialFile {
    path: PathBuf,
    partial_path: PathBuf,
    schema: SchemaRef,
    settings: FileSinkSettings,
    pending: PendingRows,
    file: Option<ColumnarFile>,
    failed: Option<Cause>,
}

impl PartialFile {
    fn create(path: &Path, schema: &SchemaRef, settings: &FileSinkSettings) -> Result<PartialFile, Cause> {
        let mut partial_path = path.as_os_str().to_owned();
        partial_path.push(".partial");
        let partial_path = PathBuf::from(partial_path);
        refuse_directory(path)?;
        refuse_directory(&partial_path)?;
        if !settings.overwrite {
            refuse_existing(path)?;
            refuse_existing(&partial_path)?;
        }
        let file = Some(ColumnarFile::create(&partial_path, &settings.format, schema)?);
        let (path, schema, settings) = (path.to_owned(), schema.clone(), settings.clone());
        Ok(PartialFile {
            path,
            partial_path,
            schema,
            settings,
            pending: PendingRows::default(),
            file,
            failed: None,
        })
    }

    fn commit(&mut self, last_cycle: u64) -> Result<(), Cause> {
        let rows = self.pending.take(last_cycle);
        let written = self.open_file()?.write(&rows);
        written.map_err(|cause| self.fail(cause))
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.open_file()?;
        let closed = self.file.take().map_or(Ok(()), |file| file.finish(self.settings.sync));
        closed.map_err(|cause| self.fail(cause))?;
        if !self.settings.overwrite {
            refuse_existing(&self.path)?;
        }
        std::fs::rename(&self.partial_path, &self.path).map_err(|error| open_failed(&self.path, &error))
    }

    fn open_file(&mut self) -> Result<&mut ColumnarFile, Cause> {
        match (&mut self.file, &self.failed) {
            (Some(file), None) => Ok(file),
            (_, Some(cause)) => Err(cause.clone()),
            (None, None) => Err(Cause::Bug(format!("'{}' is finished already", self.path.display()))),
        }
    }

    /// Removes what cannot be completed.
    fn fail(&mut self, cause: Cause) -> Cause {
        self.file = None;
        let kept = std::fs::remove_file(&self.partial_path).err();
        let kept =
            kept.map_or(String::new(), |error| format!(" ('{}': {error})", self.partial_path.display()));
        let cause = match cause {
            Cause::Operation(text) => Cause::Operation(format!("{text}; no part of the file is kept{kept}")),
            other => other,
        };
        self.failed.insert(cause).clone()
    }
}

impl Drop for PartialFile {
    /// The query failed elsewhere: what was committed is closed, so that it can be read.
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && file.finish(self.settings.sync).is_err()
        {
            // There is no one left to tell, and half a file would be of no use.
            let _ = std::fs::remove_file(&self.partial_path);
        }
    }
}
