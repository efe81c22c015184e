//! A folder of files.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Fault, Guarantee, Sink};

use super::file_format::{FileFormat, SyncPolicy, content_text};
use super::manifest::{Committed, CommittedPart, Manifest, sync_folder_of};
use super::part::Part;
use super::part_name::{
    MANIFEST, PartName, complete_name, forget_manifest, parts, refuse_parts, refuse_unwritable, remove_parts,
};
use super::text_file::open_failed;
use crate::file::overwritten::Overwritten;
use crate::pending::PendingRows;

/// What files a folder gets. The first limit that is reached ends a file, at the end of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySinkSettings {
    /// The files' format.
    pub format: FileFormat,
    /// Whether files of an earlier query in the folder (only those with our names) are removed, at the first commit.
    pub overwrite: bool,
    /// When files are forced to disk: `EveryCommit` and `AtEnd` both mean before they get their final name.
    pub sync: SyncPolicy,
    /// A file ends after this many rows; 1: each commit that has rows is a file.
    pub rows_max: u64,
    /// A file ends after this many bytes.
    pub bytes_max: u64,
    /// A file ends at the first commit when it is this old.
    pub age_max: Duration,
    /// Whether to continue what an earlier run of the same query has left, with each row exactly once. Then `overwrite`
    /// applies only to a folder without a manifest, and each commit is forced to disk unless `sync` is `Never`.
    pub resume: bool,
}

impl DirectorySinkSettings {
    /// Files of this format with 1 M rows, 128 MiB or a minute each.
    pub fn new(format: FileFormat) -> Self {
        DirectorySinkSettings {
            format,
            overwrite: false,
            sync: SyncPolicy::default(),
            rows_max: 1_000_000,
            bytes_max: 128 << 20,
            age_max: Duration::from_secs(60),
            resume: false,
        }
    }
}

/// Writes rows to files of a folder, `part-<first cycle>-<last cycle>.<ending>`, numbers with 20 digits.
///
/// A file is written under a name that begins with a dot and renamed when it is complete. So under its final name a
/// file is never incomplete and holds whole cycles. The rows of a commit become visible when their file is full, which
/// is when a limit of [`DirectorySinkSettings`] is reached, or when the query ends; with `rows_max = 1` at the commit
/// itself. If the query fails elsewhere, the open file is completed with what was committed. If a write fails, a text
/// file is completed up to the last commit. A Parquet or Arrow IPC file cannot be completed, and the error names the
/// cycles that are lost with it. If the process dies, the open file keeps the name with the dot.
///
/// With [`resume`](DirectorySinkSettings::resume) a commit is durable when it returns, and a resumed run leaves the
/// same rows as one that was never interrupted. A text file grows by whole commits until it is full, and the folder's
/// manifest (`.manifest`) says how many of its bytes are valid. For Parquet and Arrow IPC, each commit that has rows is
/// a file. Complete files may be taken away: the manifest describes only the last one.
///
/// ```
/// use tidemill_connect::file::{DirectorySink, DirectorySinkSettings, FileFormat};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::{Cause, Sink};
///
/// let folder = tempfile::tempdir().unwrap();
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let settings = DirectorySinkSettings::new(FileFormat::Parquet);
/// let mut sink = DirectorySink::create(&folder.path().join("tolls"), &schema, &settings)?;
/// sink.finish()?; // No rows: no file.
/// assert_eq!(std::fs::read_dir(folder.path().join("tolls"))?.count(), 0);
/// # Ok::<(), Cause>(())
/// ```
pub struct DirectorySink {
    folder: PathBuf,
    schema: SchemaRef,
    settings: DirectorySinkSettings,
    pending: PendingRows,
    part: Option<Part>,
    /// With `resume`: what is valid.
    manifest: Option<Manifest>,
    /// What is there belongs to an earlier query, and is removed when this one has something to write in its place.
    old_parts: Option<Overwritten>,
    failed: Option<Cause>,
}

impl DirectorySink {
    /// Creates the folder if it does not exist; continues an existing one if `resume` is set.
    ///
    /// # Errors
    /// [`Cause::user`] if it cannot be created, is not a folder, holds files of an earlier query or of one with
    /// different columns, or is being written by another run; [`Cause::operation`] if it cannot be read or lacks what
    /// is committed.
    pub fn create(
        folder: &Path,
        schema: &SchemaRef,
        settings: &DirectorySinkSettings,
    ) -> Result<DirectorySink, Cause> {
        if folder.exists() && !folder.is_dir() {
            return Err(Cause::user(format!("'{}' is a file; choose a folder", folder.display())));
        }
        settings.format.check(schema)?;
        std::fs::create_dir_all(folder).map_err(|error| open_failed(folder, error))?;
        if let Some(format) = settings.format.text() {
            format.encoder(schema)?;
        }
        let mut settings = settings.clone();
        if settings.resume {
            settings.sync = settings.sync.of_resumed();
        }
        let mut sink = DirectorySink {
            folder: folder.to_owned(),
            schema: schema.clone(),
            settings,
            pending: PendingRows::default(),
            part: None,
            manifest: None,
            old_parts: None,
            failed: None,
        };
        sink.open_manifest()?;
        Ok(sink)
    }

    fn open_manifest(&mut self) -> Result<(), Cause> {
        let (path, settings) = (self.folder.join(MANIFEST), &self.settings);
        let (content, must_sync) =
            (content_text(&settings.format, &self.schema), settings.sync.is_every_commit());
        if settings.resume
            && let Some(manifest) = Manifest::open(&path, &content, must_sync)?
        {
            refuse_unwritable(&self.folder)?;
            match manifest.committed() {
                Some(committed) => self.recover(committed)?,
                None => self.old_parts = Some(self.find_old_parts()?),
            }
            self.manifest = Some(manifest);
            return Ok(());
        }
        if settings.overwrite {
            self.old_parts = Some(self.find_old_parts()?)
        } else {
            refuse_parts(&self.folder, settings.format.ending())?
        }
        refuse_unwritable(&self.folder)?;
        if settings.resume {
            self.manifest = Some(Manifest::create(&path, &content, must_sync)?);
        }
        Ok(())
    }

    fn find_old_parts(&self) -> Result<Overwritten, Cause> {
        let parts = parts(&self.folder, self.settings.format.ending())?;
        Ok(Overwritten::new(parts.iter().map(|(path, _)| path)))
    }

    /// A query that cannot start must not take the result of the one before.
    fn remove_old_parts(&mut self) -> Result<(), Cause> {
        if self.old_parts.take().is_none() {
            return Ok(());
        }
        if self.manifest.is_none() {
            forget_manifest(&self.folder)?;
        }
        remove_parts(&self.folder, self.settings.format.ending())
    }

    /// Brings the folder to the committed state: removes what is not committed, and gives a complete file its name.
    fn recover(&mut self, committed: Committed) -> Result<(), Cause> {
        let last_part = committed.part;
        for (path, name) in parts(&self.folder, self.settings.format.ending())? {
            let is_committed = match name {
                PartName::Open { first_cycle } => {
                    last_part.is_some_and(|part| part.first_cycle == first_cycle)
                }
                PartName::Complete { last_cycle } => last_cycle <= committed.cycle,
            };
            let complete = last_part.filter(|part| part.is_complete);
            match (name, complete) {
                _ if !is_committed => {
                    std::fs::remove_file(&path).map_err(|error| open_failed(&path, error))?;
                }
                (PartName::Open { .. }, Some(part)) => self.complete_recovered(&path, &part)?,
                (PartName::Complete { last_cycle }, Some(part)) if last_cycle == part.last_cycle => {
                    check_length(&path, &part)?;
                }
                // The manifest knows the length of the last file only.
                (PartName::Complete { .. }, _) => check_end(&path, &self.settings.format)?,
                _ => {}
            }
        }
        let Some(part) = last_part.filter(|part| !part.is_complete) else { return Ok(()) };
        let DirectorySinkSettings { format, sync, .. } = &self.settings;
        self.part = Some(Part::reopen(&self.folder, &self.schema, format, *sync, &part)?);
        Ok(())
    }

    /// The previous run died between recording that a file is complete and renaming it.
    fn complete_recovered(&self, path: &Path, part: &CommittedPart) -> Result<(), Cause> {
        check_length(path, part)?;
        self.rename(path, part)
    }

    fn write(&mut self, rows: &[RecordBatch], cycles: &RangeInclusive<u64>) -> Result<(), Cause> {
        let part = match &mut self.part {
            Some(part) => part,
            None => {
                let DirectorySinkSettings { format, sync, .. } = &self.settings;
                // Without a manifest a file is forced to the disk when it is complete, not before.
                let sync = if self.manifest.is_some() { *sync } else { SyncPolicy::AtEnd };
                let part = Part::create(&self.folder, &self.schema, format, sync, *cycles.start())?;
                if sync.is_every_commit() {
                    sync_folder_of(&part.path)?;
                }
                self.part.insert(part)
            }
        };
        part.write(rows, *cycles.end())
    }

    fn is_part_full(&self) -> bool {
        self.part.as_ref().is_some_and(|part| {
            part.rows >= self.settings.rows_max
                || part.bytes() >= self.settings.bytes_max
                || part.since.elapsed() >= self.settings.age_max
                // What is not complete could not be read after a crash.
                || (self.manifest.is_some() && !part.is_text())
        })
    }

    /// Completes the file if it is full, and records the cycles as committed in the manifest, if there is one.
    fn mark_committed(&mut self, cycle: u64, has_rows: bool) -> Result<(), Cause> {
        if self.is_part_full() {
            return self.close_part(cycle);
        }
        match (&mut self.manifest, &self.part) {
            (None, _) => Ok(()),
            (Some(manifest), Some(part)) if has_rows => {
                manifest.commit(Committed { cycle, part: Some(part.committed()) })
            }
            (Some(manifest), _) => manifest.commit_without_rows(cycle),
        }
    }

    /// Completes the open file and renames it; `cycle` is the last committed one.
    fn close_part(&mut self, cycle: u64) -> Result<(), Cause> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let (open_path, is_text, mut committed) = (part.path.clone(), part.is_text(), part.committed());
        let closed = part.close(self.settings.sync);
        let Some(manifest) = &mut self.manifest else {
            let closed = closed.and_then(|()| self.rename(&open_path, &committed));
            let (first, last) = (committed.first_cycle, committed.last_cycle);
            return closed
                .map_err(|cause| if is_text { cause } else { with_lost_cycles(cause, first, last) });
        };
        closed?;
        let found = std::fs::metadata(&open_path).map_err(|error| open_failed(&open_path, error))?;
        (committed.bytes, committed.is_complete) = (found.len(), true);
        // Before it gets its name, so that a file with that name never contains anything invalid.
        manifest.commit(Committed { cycle, part: Some(committed) })?;
        self.rename(&open_path, &committed)
    }

    fn rename(&self, open_path: &Path, part: &CommittedPart) -> Result<(), Cause> {
        let name = complete_name(part.first_cycle, part.last_cycle, self.settings.format.ending());
        let path = self.folder.join(name);
        std::fs::rename(open_path, &path).map_err(|error| open_failed(&path, error))
    }

    /// Keeps as much of the open file as possible.
    fn fail(&mut self, cause: Cause) -> Cause {
        let cause = match self.part.take() {
            Some(part) if self.manifest.is_some() => {
                if !part.is_text() {
                    // Not committed, and it takes room. If it stays, the next run removes it.
                    let _ = std::fs::remove_file(&part.path);
                }
                cause
            }
            Some(part) if part.rows == 0 || !part.is_text() => {
                // If it cannot be removed it is still harmless: its name says that it is not complete.
                let _ = std::fs::remove_file(&part.path);
                if part.rows == 0 {
                    cause
                } else {
                    with_lost_cycles(cause, part.first_cycle, part.last_cycle)
                }
            }
            part => {
                self.part = part;
                match self.close_part(0) {
                    Ok(()) => cause,
                    Err(second) => Cause::operation(format!("{cause}; then {second}")),
                }
            }
        };
        self.failed.insert(cause).clone()
    }

    fn close_all(&mut self) -> Result<(), Cause> {
        self.remove_old_parts()?;
        let mut cycle = 0;
        if let Some(manifest) = &mut self.manifest {
            manifest.finish()?;
            cycle = manifest.committed().map_or(0, |committed| committed.cycle);
        }
        self.close_part(cycle)
    }
}

/// Refuses a complete file that does not have what was committed. One that somebody has taken away is not ours any more.
fn check_length(path: &Path, part: &CommittedPart) -> Result<(), Cause> {
    let found = std::fs::metadata(path).map_err(|error| open_failed(path, error))?.len();
    if found == part.bytes {
        return Ok(());
    }
    Err(Cause::operation(format!(
        "'{}' has {found} bytes, but {} were committed. Either someone changed it, or the machine lost power \
         before sync = 'never' had forced it to disk. Restore it, or start the query from scratch with another \
         folder and another journal",
        path.display(),
        part.bytes
    )))
}

/// Refuses an older complete file that does not end as files of its format do: it was cut off, or the machine lost its
/// content.
fn check_end(path: &Path, format: &FileFormat) -> Result<(), Cause> {
    let end = format.last_bytes();
    let file = File::open(path).map_err(|error| open_failed(path, error))?;
    let length = file.metadata().map_err(|error| open_failed(path, error))?.len();
    let mut found = vec![0; end.len()];
    let read = length.checked_sub(end.len() as u64).map(|place| file.read_exact_at(&mut found, place));
    if matches!(read, Some(Ok(()))) && found == end {
        return Ok(());
    }
    Err(Cause::operation(format!(
        "'{}' is cut off. Either someone changed it, or the machine lost power before sync = 'never' had forced it to \
         disk. Restore it, or move it away if its rows are not needed",
        path.display()
    )))
}

impl Sink for DirectorySink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        let rows = self.pending.take(*cycles.end());
        self.remove_old_parts().inspect_err(|cause| self.failed = Some(cause.clone()))?;
        if !rows.is_empty() {
            self.write(&rows, &cycles).map_err(|cause| self.fail(cause))?;
        }
        let marked = self.mark_committed(*cycles.end(), !rows.is_empty());
        marked.inspect_err(|cause| self.failed = Some(cause.clone()))
    }

    fn guarantee(&self) -> Guarantee {
        match self.manifest {
            Some(_) => Guarantee::ExactlyOnce,
            None => Guarantee::AtLeastOnce,
        }
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        let committed = self.manifest.as_ref().and_then(Manifest::committed);
        Ok(committed.map(|committed| committed.cycle))
    }

    fn unrecorded(&self) -> Option<u64> {
        self.manifest.as_ref().and_then(Manifest::unrecorded)
    }

    fn record(&mut self) -> Result<(), Cause> {
        let recorded = self.manifest.as_mut().map_or(Ok(()), Manifest::finish);
        recorded.inspect_err(|cause| self.failed = Some(cause.clone()))
    }

    fn finish(&mut self) -> Result<(), Cause> {
        match &self.failed {
            Some(cause) => Err(cause.clone()),
            None => self.close_all().inspect_err(|cause| self.failed = Some(cause.clone())),
        }
    }
}

impl Drop for DirectorySink {
    /// The query failed elsewhere: what was committed is kept. If that fails too, there is nobody to tell. With a
    /// manifest the file is kept as it is, for the resumed run; if nothing was committed, neither stays.
    fn drop(&mut self) {
        match &self.manifest {
            None => {
                let _ = self.close_part(0);
            }
            Some(manifest) if manifest.remove_unused() => {
                if let Some(part) = self.part.take() {
                    let _ = std::fs::remove_file(&part.path);
                }
            }
            Some(_) => {}
        }
    }
}

/// Reports what was committed and does not exist any more.
fn with_lost_cycles(cause: Cause, first: u64, last: u64) -> Cause {
    match cause.fault {
        Fault::Operation => {
            cause.map_message(|text| format!("{text}; cycles {first} to {last} are lost with the open file"))
        }
        _ => cause,
    }
}
