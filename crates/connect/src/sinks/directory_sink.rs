//! A folder of files.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Sink};

use super::columnar_file::ColumnarFile;
use super::encode::TextEncoder;
use super::file_format::{FileFormat, SyncPolicy};
use super::pending::PendingRows;
use super::text_file::{TextFile, open_failed};

/// What files a folder gets. The first limit that is reached ends a file, at the end of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySinkSettings {
    /// The files' format.
    pub format: FileFormat,
    /// Whether files of an earlier query in the folder (those named as ours, no others) are removed first.
    pub overwrite: bool,
    /// When files are forced to the disk: `EveryCommit` and `AtEnd` both mean before they get their name.
    pub sync: SyncPolicy,
    /// A file ends after so many rows; 1: each commit that has rows is a file.
    pub rows_max: u64,
    /// A file ends after so many bytes.
    pub bytes_max: u64,
    /// A file ends at the first commit when it is so old.
    pub age_max: Duration,
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
        }
    }
}

/// Writes rows to files of a folder, `part-<first cycle>-<last cycle>.<ending>`, numbers with 12 digits.
///
/// A file is written under a name that begins with a dot and renamed when it is complete, so under its final
/// name a file is never incomplete and holds whole cycles. The rows of a commit are visible when their file
/// is full, which is when a limit of [`DirectorySinkSettings`] is reached, or when the query ends; with
/// `rows_max = 1` at the commit itself. If the query fails elsewhere, the open file is completed with what
/// was committed. If a write fails, a file of text is completed up to the last commit; one of Parquet or
/// Arrow IPC cannot be, and the error names the cycles that are lost with it. If the process dies, the open
/// file stays under the name with the dot.
///
/// ```
/// use tidemill_connect::sinks::{DirectorySink, DirectorySinkSettings, FileFormat};
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
    failed: Option<Cause>,
}

/// The file that is being written.
struct Part {
    path: PathBuf,
    content: Content,
    first_cycle: u64,
    last_cycle: u64,
    rows: u64,
    since: Instant,
}

enum Content {
    Text { file: TextFile, encoder: Box<dyn TextEncoder>, text: Vec<u8> },
    Columnar(Box<ColumnarFile>),
}

impl DirectorySink {
    /// Creates the folder, if it is not there.
    ///
    /// # Errors
    /// [`Cause::User`] if it cannot be created, is no folder, or holds files of an earlier query;
    /// [`Cause::Operation`] if it cannot be read.
    pub fn create(
        folder: &Path,
        schema: &SchemaRef,
        settings: &DirectorySinkSettings,
    ) -> Result<DirectorySink, Cause> {
        if folder.exists() && !folder.is_dir() {
            return Err(Cause::User(format!("'{}' is a file; name a folder", folder.display())));
        }
        std::fs::create_dir_all(folder).map_err(|error| open_failed(folder, &error))?;
        if let Some(format) = settings.format.text() {
            format.encoder(schema)?;
        }
        clear_parts(folder, settings.overwrite)?;
        refuse_unwritable(folder)?;
        let (folder, schema, settings) = (folder.to_owned(), schema.clone(), settings.clone());
        Ok(DirectorySink {
            folder,
            schema,
            settings,
            pending: PendingRows::default(),
            part: None,
            failed: None,
        })
    }

    fn write(&mut self, rows: &[RecordBatch], cycles: &RangeInclusive<u64>) -> Result<(), Cause> {
        let part = match &mut self.part {
            Some(part) => part,
            None => {
                self.part.insert(Part::create(&self.folder, &self.schema, &self.settings, *cycles.start())?)
            }
        };
        part.write(rows)?;
        part.rows += rows.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
        part.last_cycle = *cycles.end();
        Ok(())
    }

    fn is_part_full(&self) -> bool {
        self.part.as_ref().is_some_and(|part| {
            part.rows >= self.settings.rows_max
                || part.bytes() >= self.settings.bytes_max
                || part.since.elapsed() >= self.settings.age_max
        })
    }

    /// Completes the open file and gives it its name.
    fn close_part(&mut self) -> Result<(), Cause> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let name = format!(
            "part-{:012}-{:012}.{}",
            part.first_cycle,
            part.last_cycle,
            self.settings.format.ending()
        );
        let path = self.folder.join(name);
        let (first, last, is_text) = (part.first_cycle, part.last_cycle, part.is_text());
        let closed = part.finish(&path, &self.settings);
        closed.map_err(|cause| if is_text { cause } else { with_lost_cycles(cause, first, last) })
    }

    /// Keeps of the open file what can be kept.
    fn fail(&mut self, cause: Cause) -> Cause {
        let cause = match self.part.take() {
            Some(part) if part.rows == 0 || !part.is_text() => {
                // If it cannot be removed it is of no use either, and its name says that it is not complete.
                let _ = std::fs::remove_file(&part.path);
                if part.rows == 0 {
                    cause
                } else {
                    with_lost_cycles(cause, part.first_cycle, part.last_cycle)
                }
            }
            part => {
                self.part = part;
                match self.close_part() {
                    Ok(()) => cause,
                    Err(second) => Cause::Operation(format!("{cause}; then {second}")),
                }
            }
        };
        self.failed.insert(cause).clone()
    }
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
        if !rows.is_empty() {
            self.write(&rows, &cycles).map_err(|cause| self.fail(cause))?;
        }
        match self.is_part_full() {
            true => self.close_part().inspect_err(|cause| self.failed = Some(cause.clone())),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        match &self.failed {
            Some(cause) => Err(cause.clone()),
            None => self.close_part().inspect_err(|cause| self.failed = Some(cause.clone())),
        }
    }
}

impl Drop for DirectorySink {
    /// The query failed elsewhere: what was committed is kept. There is no one to tell if that fails too.
    fn drop(&mut self) {
        let _ = self.close_part();
    }
}

impl Part {
    fn create(
        folder: &Path,
        schema: &SchemaRef,
        settings: &DirectorySinkSettings,
        first_cycle: u64,
    ) -> Result<Part, Cause> {
        let path = folder.join(format!(".part-{first_cycle:012}.{}", settings.format.ending()));
        let content = match settings.format.text() {
            Some(format) => {
                let encoder = format.encoder(schema)?;
                let mut text = Vec::new();
                encoder.header(&mut text);
                // Synchronised when it is complete, not before.
                let file = TextFile::create(&path, false, SyncPolicy::AtEnd)?;
                Content::Text { file, encoder, text }
            }
            None => Content::Columnar(Box::new(ColumnarFile::create(&path, &settings.format, schema)?)),
        };
        Ok(Part { path, content, first_cycle, last_cycle: first_cycle, rows: 0, since: Instant::now() })
    }

    fn write(&mut self, batches: &[RecordBatch]) -> Result<(), Cause> {
        match &mut self.content {
            Content::Columnar(file) => file.write(batches),
            Content::Text { file, encoder, text } => {
                batches.iter().try_for_each(|rows| encoder.rows(rows, text))?;
                file.append(text)?;
                text.clear();
                Ok(())
            }
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.content, Content::Text { .. })
    }

    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Columnar(file) => file.bytes(),
            Content::Text { file, .. } => file.length(),
        }
    }

    fn finish(self, path: &Path, settings: &DirectorySinkSettings) -> Result<(), Cause> {
        match self.content {
            Content::Columnar(file) => file.finish(settings.sync).inspect_err(|_| {
                // It cannot be read. If it stays, its name says so.
                let _ = std::fs::remove_file(&self.path);
            })?,
            // After a failed write the file holds what was committed, which is worth its name.
            Content::Text { file, .. } if file.has_failed() => {}
            Content::Text { mut file, .. } if settings.sync != SyncPolicy::Never => file.finish()?,
            Content::Text { .. } => {}
        }
        std::fs::rename(&self.path, path).map_err(|error| open_failed(path, &error))
    }
}

/// Says what was committed and is not there any more.
fn with_lost_cycles(cause: Cause, first: u64, last: u64) -> Cause {
    match cause {
        Cause::Operation(text) => {
            Cause::Operation(format!("{text}; cycles {first} to {last} are lost with the file that was open"))
        }
        other => other,
    }
}

/// Whether a file is one of ours, complete or not.
fn is_part(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let endings = [".csv", ".tsv", ".ndjson", ".parquet", ".arrow"];
    let Some(numbers) = name.strip_prefix("part-") else { return false };
    let Some(ending) = endings.iter().find_map(|ending| numbers.strip_suffix(ending)) else { return false };
    !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn clear_parts(folder: &Path, overwrite: bool) -> Result<(), Cause> {
    let failed = |error| Cause::Operation(format!("folder '{}' cannot be read: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.file_name().and_then(|name| name.to_str()).is_some_and(is_part) {
            continue;
        }
        if !overwrite {
            return Err(Cause::User(format!(
                "folder '{}' holds results of an earlier query; name another folder, or allow to remove \
                 them with overwrite = true",
                folder.display()
            )));
        }
        std::fs::remove_file(&path).map_err(|error| open_failed(&path, &error))?;
    }
    Ok(())
}

/// Says at once, not at the first commit, if files cannot be created.
fn refuse_unwritable(folder: &Path) -> Result<(), Cause> {
    let path = folder.join(".part-probe");
    File::create(&path).map_err(|error| open_failed(folder, &error))?;
    std::fs::remove_file(&path).map_err(|error| open_failed(&path, &error))
}
