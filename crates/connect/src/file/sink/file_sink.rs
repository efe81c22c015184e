//! One file.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Fault, Guarantee, Sink};

use super::columnar_file::ColumnarFile;
use super::file_format::{FileFormat, SyncPolicy, content_text};
use super::manifest::{Committed, CommittedPart, Manifest, sync_folder_of};
use super::text_file::{TextFile, is_special, open_failed, refuse_directory, refuse_existing};
use crate::pending::{PendingRows, PendingText};

/// What to do with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSinkSettings {
    /// The file's format.
    pub format: FileFormat,
    /// Whether an existing file may be replaced. It stays as it is until the first commit.
    pub overwrite: bool,
    /// When it is forced to disk.
    pub sync: SyncPolicy,
    /// Whether to continue what an earlier run of the same query has written, with each row exactly once. Text formats
    /// only. Then `overwrite` applies only to a file without a manifest, and each commit is forced to disk unless
    /// `sync` is `Never`.
    pub resume: bool,
}

impl FileSinkSettings {
    /// A new file of this format, forced to disk at the end of the query.
    pub fn new(format: FileFormat) -> Self {
        FileSinkSettings { format, overwrite: false, sync: SyncPolicy::default(), resume: false }
    }
}

/// Writes rows to one file.
///
/// **CSV and NDJSON** grow by one write per commit. If a write fails, the file is cut back to the last commit and the
/// query stops. A program that reads the file during a write may see part of it, and so may one that reads it after the
/// process or the machine died during a write: read whole lines, or use [`DirectorySink`](super::DirectorySink). A
/// device or a pipe is written to as it is, and cannot be cut back.
///
/// With [`resume`](FileSinkSettings::resume), the file `<path>.manifest` says how many bytes are committed and by which
/// cycle; a resumed run cuts off the rest. So the file has each row once, whatever died when.
///
/// **Parquet and Arrow IPC** can be read only as a whole, so they get their name when the query ends normally; until
/// then they are called `<path>.partial`. If the query fails elsewhere, the file is closed with the committed cycles
/// under that name and can be read. If writing fails, nothing is left. For results that can be read before the end, use
/// a folder.
///
/// ```
/// use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings};
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
/// assert!(again.err().unwrap().message.contains("overwrite = true"));
/// # Ok::<(), Cause>(())
/// ```
pub struct FileSink(Kind);

enum Kind {
    Text { pending: PendingText, file: TextFile, manifest: Option<Manifest>, is_unused: bool },
    Columnar(PartialFile),
}

impl FileSink {
    /// Creates the file.
    ///
    /// # Errors
    /// [`Cause::user`] if the path is a folder, a file exists already, the folder does not exist, or it must not be
    /// written; [`Cause::operation`] if creating it fails otherwise.
    pub fn create(path: &Path, schema: &SchemaRef, settings: &FileSinkSettings) -> Result<FileSink, Cause> {
        settings.format.check(schema)?;
        let Some(format) = settings.format.text() else {
            return Ok(FileSink(Kind::Columnar(PartialFile::create(path, schema, settings)?)));
        };
        let pending = PendingText::new(schema, format.encoder(schema)?);
        if settings.resume {
            return FileSink::resume(path, schema, settings, pending);
        }
        if !is_special(path) && !settings.overwrite {
            refuse_existing(&manifest_path(path))?;
        }
        let mut file = TextFile::create(path, settings.overwrite, settings.sync)?;
        if !file.has_old_content() {
            file.append(&pending.header())?;
        }
        // One that may be overwritten may be another query's.
        let is_unused = !settings.overwrite && !is_special(path);
        Ok(FileSink(Kind::Text { pending, file, manifest: None, is_unused }))
    }

    /// Continues a file, or starts one that can be resumed.
    fn resume(
        path: &Path,
        schema: &SchemaRef,
        settings: &FileSinkSettings,
        pending: PendingText,
    ) -> Result<FileSink, Cause> {
        if is_special(path) {
            return Err(Cause::user(format!(
                "'{}' is a device or a pipe, so a durable query cannot resume writing to it; choose a file",
                path.display()
            )));
        }
        let sync = settings.sync.of_resumed();
        let (manifest_path, content) = (manifest_path(path), content_text(&settings.format, schema));
        let manifest = match Manifest::open(&manifest_path, &content, sync.is_every_commit())? {
            Some(manifest) => manifest,
            None => {
                refuse_directory(path)?;
                if !settings.overwrite {
                    refuse_existing(path)?;
                }
                Manifest::create(&manifest_path, &content, sync.is_every_commit())?
            }
        };
        let file = match manifest.committed().and_then(|committed| committed.part) {
            Some(part) => TextFile::reopen(path, part.bytes, sync)?,
            None => {
                let mut file = TextFile::create(path, true, sync)?;
                if !file.has_old_content() {
                    file.append(&pending.header())?;
                }
                sync_folder_of(path)?;
                file
            }
        };
        Ok(FileSink(Kind::Text { pending, file, manifest: Some(manifest), is_unused: false }))
    }
}

fn manifest_path(path: &Path) -> PathBuf {
    let mut manifest_path = path.as_os_str().to_owned();
    manifest_path.push(".manifest");
    PathBuf::from(manifest_path)
}

/// A file that may be overwritten keeps what it has until the query has something to write in its place: a query that cannot
/// start must not take the result of the one before.
fn replace_old_content(
    pending: &PendingText,
    file: &mut TextFile,
    manifest: Option<&Manifest>,
) -> Result<(), Cause> {
    if !file.has_old_content() {
        return Ok(());
    }
    if manifest.is_none() {
        forget_manifest(file.path())?;
    }
    file.empty()?;
    file.append(&pending.header())
}

/// A manifest must not outlive the file that it describes.
fn forget_manifest(path: &Path) -> Result<(), Cause> {
    let path = manifest_path(path);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(open_failed(&path, error)),
        _ => Ok(()),
    }
}

/// Appends the text of a range of cycles and, if there is a manifest, records it as valid.
fn commit_text(
    pending: &mut PendingText,
    file: &mut TextFile,
    manifest: &mut Option<Manifest>,
    cycle: u64,
) -> Result<(), Cause> {
    let mut written_rows = 0;
    replace_old_content(pending, file, manifest.as_ref())?;
    if manifest.is_none() {
        file.take_over_changes(&pending.header())?;
    }
    pending.take(cycle, |text, rows| {
        written_rows = rows;
        file.append(text)
    })?;
    let Some(manifest) = manifest else { return Ok(()) };
    if written_rows == 0 {
        return manifest.commit_without_rows(cycle);
    }
    let before = manifest.committed().and_then(|committed| committed.part);
    let (first_cycle, rows) = before.map_or((cycle, 0), |part| (part.first_cycle, part.rows));
    let (bytes, rows) = (file.length(), rows + written_rows);
    let part = CommittedPart { first_cycle, last_cycle: cycle, bytes, rows, is_complete: false };
    // The next run cuts off what is not counted; this one must not count it later.
    manifest.commit(Committed { cycle, part: Some(part) }).inspect_err(|cause| file.fail_with(cause.clone()))
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
            Kind::Text { pending, file, manifest, is_unused } => {
                *is_unused = false;
                commit_text(pending, file, manifest, *cycles.end())
            }
            Kind::Columnar(file) => file.commit(*cycles.end()),
        }
    }

    fn guarantee(&self) -> Guarantee {
        match &self.0 {
            Kind::Text { manifest: Some(_), .. } => Guarantee::ExactlyOnce,
            _ => Guarantee::AtLeastOnce,
        }
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        match &self.0 {
            Kind::Text { manifest: Some(manifest), .. } => {
                Ok(manifest.committed().map(|committed| committed.cycle))
            }
            _ => Ok(None),
        }
    }

    fn unrecorded(&self) -> Option<u64> {
        match &self.0 {
            Kind::Text { manifest, .. } => manifest.as_ref().and_then(Manifest::unrecorded),
            Kind::Columnar(_) => None,
        }
    }

    fn record(&mut self) -> Result<(), Cause> {
        match &mut self.0 {
            Kind::Text { manifest: Some(manifest), .. } => manifest.finish(),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        match &mut self.0 {
            Kind::Text { pending, file, manifest, is_unused } => {
                *is_unused = false;
                replace_old_content(pending, file, manifest.as_ref())?;
                file.finish()?;
                manifest.as_mut().map_or(Ok(()), Manifest::finish)
            }
            Kind::Columnar(file) => file.finish(),
        }
    }
}

impl Drop for FileSink {
    /// A file in which nothing was committed does not stay if the query ends otherwise than in order.
    fn drop(&mut self) {
        let Kind::Text { file, manifest, is_unused, .. } = &self.0 else { return };
        let is_unused = match manifest {
            Some(manifest) => manifest.remove_unused() && !file.has_old_content(),
            // A query that could not start would otherwise find its own file at the next attempt.
            None => *is_unused && file.is_as_left(),
        };
        if is_unused {
            // What stays has a header at most.
            let _ = std::fs::remove_file(file.path());
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
        if settings.resume {
            return Err(Cause::user(format!(
                "a durable query could not resume writing to '{}' after a crash, because a file of {} is \
                 readable only as a whole; use the connector directory, or the format CSV or NDJSON",
                path.display(),
                settings.format.ending()
            )));
        }
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
        std::fs::rename(&self.partial_path, &self.path).map_err(|error| open_failed(&self.path, error))
    }

    fn open_file(&mut self) -> Result<&mut ColumnarFile, Cause> {
        match (&mut self.file, &self.failed) {
            (Some(file), None) => Ok(file),
            (_, Some(cause)) => Err(cause.clone()),
            (None, None) => Err(Cause::bug(format!("'{}' is already finished", self.path.display()))),
        }
    }

    /// Removes what cannot be completed.
    fn fail(&mut self, cause: Cause) -> Cause {
        self.file = None;
        let kept = std::fs::remove_file(&self.partial_path).err();
        let kept =
            kept.map_or(String::new(), |error| format!(" ('{}': {error})", self.partial_path.display()));
        let cause = match cause.fault {
            Fault::Operation => {
                cause.map_message(|text| format!("{text}; no part of the file is kept{kept}"))
            }
            _ => cause,
        };
        self.failed.insert(cause).clone()
    }
}

impl Drop for PartialFile {
    /// The query failed elsewhere: the file is closed with what was committed, so that it can be read.
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && file.finish(self.settings.sync).is_err()
        {
            // Nobody is left to tell, and half a file would be useless.
            let _ = std::fs::remove_file(&self.partial_path);
        }
    }
}
