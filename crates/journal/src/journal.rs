//! The folder of one query: its streams, cuts, snapshots and commits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::fields::PutFields;

use crate::commits::CommitFile;
use crate::current_query;
use crate::cut_journal::CutJournal;
use crate::disk::Disk;
use crate::epochs::{self, Epoch};
use crate::failure::{damaged, failed};
use crate::file_reader::FileReader;
use crate::layout;
use crate::log_reader::LogReader;
use crate::medium::{LockGuard, Medium};
use crate::query::{self, beginning, identity};
use crate::record_log::LogSettings;
use crate::recovery;
use crate::replace::{remove_unfinished, replace};
use crate::rows::{RowDecoder, RowEncoder, decode_schema, encode_schema};
use crate::segment::{Content, read_head, segment_name, segment_positions};
use crate::skips::{self, Skips};
use crate::snapshots::SnapshotFolder;
use crate::stored_chunks::StoredChunks;
use crate::stored_rows::StoredRowsFile;
use crate::stream::{OpenStream, StreamReader, StreamSettings, StreamWriter};

const MAGIC: [u8; 8] = *b"TIDEJRNL";
/// Since a query may have replaced another.
pub(crate) const VERSION: u32 = 4;
/// Of a folder whose query never was replaced, but whose cuts may name rows that are lost.
const VERSION_WITH_LOST_ROWS: u32 = 3;
/// Of a folder that never had any, but positions that are left out, so that older programs can continue with it.
const VERSION_WITH_SKIPS: u32 = 2;
/// Of a folder that never had either.
const VERSION_AT_FIRST: u32 = 1;
const CUTS_SEGMENT_BYTES: u64 = 8 << 20;

/// The folder of one query. Only one process can have it open at a time. Parts taken from it keep the lock too.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_journal::{Journal, StreamSettings};
///
/// let column = Arc::new(Int64Array::from(vec![7, 8])) as _;
/// let rows = RecordBatch::try_from_iter([("value", column)])?;
/// let folder = tempfile::tempdir()?;
/// let journal = Journal::open(folder.path())?;
/// let (mut writer, mut reader) = journal.stream("numbers", rows.schema(), &StreamSettings::default())?;
/// assert_eq!(writer.append(&rows, 0, None)?, 2);
/// writer.sync()?;
/// assert_eq!(reader.read(1)?.unwrap().rows, rows);
/// assert_eq!(reader.read(2)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Journal {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) folder: PathBuf,
    /// Where the parts of the query are.
    pub(crate) own: PathBuf,
    /// The number of the query among those that the folder has had.
    pub(crate) number: u64,
    pub(crate) is_replacement: bool,
    pub(crate) lock: LockGuard,
    pub(crate) streams: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) cuts: Mutex<Option<CutJournal>>,
}

impl Journal {
    /// Opens the folder, or creates it.
    ///
    /// # Errors
    /// If another process has it open, another program wrote it, or the disk fails.
    pub fn open(folder: &Path) -> Result<Journal, Cause> {
        Journal::open_on(Arc::new(Disk), folder)
    }

    /// Opens a folder on another medium.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_on(medium: Arc<dyn Medium>, folder: &Path) -> Result<Journal, Cause> {
        medium.create_folder(folder).map_err(|error| failed("create the folder", folder, error))?;
        let lock = lock(&*medium, folder)?;
        let number = current_query::number(&*medium, folder)?;
        let own = layout::query_folder(folder, number);
        let snapshots = layout::snapshots(&own);
        medium.create_folder(&snapshots).map_err(|error| failed("create the folder", &snapshots, error))?;
        // What an earlier run had begun to write when it ended. It has no name yet, so nobody reads it.
        for begun in [folder, &own, &snapshots] {
            remove_unfinished(&*medium, begun)?;
        }
        match FileReader::open_any(&*medium, &layout::manifest(folder), MAGIC, VERSION)? {
            Some((reader, _)) => reader.finish()?,
            None => write_manifest(&*medium, folder, VERSION_AT_FIRST)?,
        }
        current_query::remove_replaced(&*medium, folder, number)?;
        Ok(Journal {
            medium,
            folder: folder.to_owned(),
            own,
            number,
            is_replacement: false,
            lock,
            streams: Arc::default(),
            cuts: Mutex::default(),
        })
    }

    /// Opens the journal of a stream, or creates it. Each stream has one writer at a time. The stream may have more columns than
    /// when older rows were written: in these rows, the new columns are NULL.
    ///
    /// # Errors
    /// If its rows had other columns, a segment is missing or damaged, or the disk fails.
    pub fn stream(
        &self,
        name: &str,
        schema: SchemaRef,
        settings: &StreamSettings,
    ) -> Result<(StreamWriter, StreamReader), Cause> {
        let folder = layout::stream_name(name)
            .ok_or_else(|| Cause::user(format!("the stream's name '{name}' is too long; shorten it")))?;
        if !self.streams.lock().insert(name.to_owned()) {
            return Err(Cause::bug(format!("the journal of stream '{name}' is already open")));
        }
        let open = OpenStream { name: name.to_owned(), open: self.streams.clone() };
        let identity: Arc<[u8]> = encode_schema(&schema).into();
        let written = decode_schema(&identity).map_err(Cause::bug)?;
        let encoder = RowEncoder::new(schema.clone())?;
        let log = recovery::open(
            self.medium.clone(),
            LogSettings {
                folder: layout::streams(&self.folder).join(folder),
                content: Content::Rows,
                identity: identity.clone(),
                segment_bytes: settings.segment_bytes,
                bytes_max: settings.bytes_max,
                retain_bytes: settings.retain_bytes,
                clients_max: settings.clients_max,
            },
            self.lock.clone(),
        )?;
        let decoder = RowDecoder::new(schema, written.into()).map_err(Cause::bug)?;
        let reader = StreamReader::new(LogReader::new(log.shared.clone()), (identity, decoder));
        Ok((StreamWriter::new(log, encoder, open), reader))
    }

    /// The log of cuts; the same one at each call.
    ///
    /// # Errors
    /// If a segment is missing or damaged, or the disk fails.
    pub fn cuts(&self) -> Result<CutJournal, Cause> {
        self.cuts_in_segments(CUTS_SEGMENT_BYTES)
    }

    /// The log of cuts, with segments of this many bytes if it is not open yet.
    ///
    /// # Errors
    /// As [`Journal::cuts`].
    pub fn cuts_in_segments(&self, segment_bytes: u64) -> Result<CutJournal, Cause> {
        self.open_cuts(segment_bytes, 0)
    }

    /// The log of cuts, of which this many bytes are kept although they are no longer needed, if it is not open yet.
    ///
    /// # Errors
    /// As [`Journal::cuts`].
    pub fn cuts_retained(&self, retain_bytes: u64) -> Result<CutJournal, Cause> {
        self.open_cuts(CUTS_SEGMENT_BYTES, retain_bytes)
    }

    fn open_cuts(&self, segment_bytes: u64, retain_bytes: u64) -> Result<CutJournal, Cause> {
        let mut cuts = self.cuts.lock();
        if let Some(cuts) = &*cuts {
            return Ok(cuts.clone());
        }
        let settings = LogSettings {
            folder: layout::cuts(&self.own),
            content: Content::Cuts,
            identity: Arc::default(),
            segment_bytes,
            bytes_max: u64::MAX,
            retain_bytes,
            clients_max: 1,
        };
        let log = recovery::open(self.medium.clone(), settings, self.lock.clone())?;
        log.note_opening()?;
        Ok(cuts.insert(CutJournal::new(log)).clone())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of snapshots.
    pub fn snapshots(&self) -> SnapshotFolder {
        SnapshotFolder::new(self.medium.clone(), layout::snapshots(&self.own))
    }

    /// The description of the query that the folder belongs to; `None` if it has none yet.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn query(&self) -> Result<Option<String>, Cause> {
        query::read(&*self.medium, &layout::query(&self.own))
    }

    /// Durably records which query the folder belongs to.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn set_query(&self, text: &str) -> Result<(), Cause> {
        query::write(&*self.medium, &layout::query(&self.own), text)
    }

    /// The positions that are left out.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn skips(&self) -> Result<Skips, Cause> {
        skips::read(&*self.medium, &layout::skips(&self.folder))
    }

    /// Says, durably, which positions are left out. From the first time on, programs that know of none refuse the folder:
    /// they would take the rows in.
    ///
    /// # Errors
    /// If the disk is full or fails; then the positions are those before or these.
    pub fn set_skips(&self, skips: &Skips) -> Result<(), Cause> {
        self.raise_version(VERSION_WITH_SKIPS)?;
        skips::write(&*self.medium, &layout::skips(&self.folder), skips)
    }

    /// What has happened to the journal of a database, in order.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn epochs(&self) -> Result<Vec<Epoch>, Cause> {
        epochs::read(&*self.medium, &layout::epochs(&self.folder))
    }

    /// Durably records what has happened to the journal of a database. Once rows were lost, programs that do not know of
    /// that refuse the folder: they would take other rows for those.
    ///
    /// # Errors
    /// If the disk is full or fails; then the epochs are those before or these.
    pub fn set_epochs(&self, epochs: &[Epoch]) -> Result<(), Cause> {
        if epochs.iter().any(|epoch| matches!(epoch, Epoch::Lost(_))) {
            self.raise_version(VERSION_WITH_LOST_ROWS)?;
        }
        epochs::write(&*self.medium, &layout::epochs(&self.folder), epochs)
    }

    /// How many epochs of its database the query of the folder has seen.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn seen_epochs(&self) -> Result<usize, Cause> {
        epochs::read_seen(&*self.medium, &layout::seen_epochs(&self.folder))
    }

    /// Durably records how many epochs of its database the query of the folder has seen: it has kept nothing that does not
    /// hold after them.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn set_seen_epochs(&self, seen: usize) -> Result<(), Cause> {
        epochs::write_seen(&*self.medium, &layout::seen_epochs(&self.folder), seen)
    }

    /// Whether the folder has a journal of this stream.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn has_stream(&self, name: &str) -> Result<bool, Cause> {
        let Some(name) = layout::stream_name(name) else { return Ok(false) };
        let folder = layout::streams(&self.folder).join(name);
        let names = self.medium.names(&folder).map_err(|error| failed("list", &folder, error))?;
        Ok(!segment_positions(&names).is_empty())
    }

    /// The columns that the newest rows of a stream have; `None`: the folder has no journal of it.
    ///
    /// # Errors
    /// If the disk fails, or the segment is damaged.
    pub fn columns_of(&self, name: &str) -> Result<Option<SchemaRef>, Cause> {
        let Some(name) = layout::stream_name(name) else { return Ok(None) };
        let folder = layout::streams(&self.folder).join(name);
        let names = self.medium.names(&folder).map_err(|error| failed("list", &folder, error))?;
        let Some(newest) = segment_positions(&names).last().copied() else { return Ok(None) };
        let path = folder.join(segment_name(newest));
        let file = self.medium.open(&path, false).map_err(|error| failed("open", &path, error))?;
        let head = read_head(&path, &*file, usize::MAX)?;
        let schema = decode_schema(&head.identity).map_err(|reason| damaged(&path, 0, reason))?;
        Ok(Some(Arc::new(schema)))
    }

    /// The streams that the folder has journals of.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn streams(&self) -> Result<Vec<String>, Cause> {
        let folder = layout::streams(&self.folder);
        let names = self.medium.names(&folder).map_err(|error| failed("list", &folder, error))?;
        Ok(names.iter().filter_map(|name| layout::stream_of(name)).collect())
    }

    /// Removes the journal of a stream; false if it is open.
    ///
    /// # Errors
    /// If the disk fails. A part of it may then be left.
    pub fn remove_stream(&self, name: &str) -> Result<bool, Cause> {
        let open = self.streams.lock();
        let Some(folder) = layout::stream_name(name).filter(|_| !open.contains(name)) else {
            return Ok(false);
        };
        let streams = layout::streams(&self.folder);
        let removed = self.medium.remove_folder(&streams.join(folder));
        let removed = removed.and_then(|()| self.medium.sync_folder(&streams));
        removed.map(|()| true).map_err(|error| failed("remove", &streams, error))
    }

    /// From here on, programs that know only lower versions refuse the folder.
    pub(crate) fn raise_version(&self, version: u32) -> Result<(), Cause> {
        let known = FileReader::open_any(&*self.medium, &layout::manifest(&self.folder), MAGIC, VERSION)?;
        match known {
            Some((_, known)) if known >= version => Ok(()),
            _ => write_manifest(&*self.medium, &self.folder, version),
        }
    }

    /// A random number that tells the query of the folder from all others, also from one with the same description in another
    /// folder. It stays as long as the query's folder; the first call makes it, durably.
    ///
    /// # Errors
    /// If the file is damaged, or the disk fails.
    ///
    /// ```
    /// # use tidemill_journal::Journal;
    /// let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// let identity = Journal::open(one.path())?.identity()?;
    /// assert_eq!(Journal::open(one.path())?.identity()?, identity);
    /// assert_ne!(Journal::open(other.path())?.identity()?, identity);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity(&self) -> Result<u64, Cause> {
        identity::read_or_make(&*self.medium, &layout::identity(&self.own))
    }

    /// Removes what an earlier query has left in the folder, except for its streams and cuts: snapshots, commits, rows of
    /// views. The description goes first, so that a folder which has one has all the rest.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn clear(&self) -> Result<(), Cause> {
        let remove = |path: PathBuf| match self.medium.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", &path, error)),
            _ => Ok(()),
        };
        let sync = |folder: &Path| {
            self.medium.sync_folder(folder).map_err(|error| failed("sync the folder", folder, error))
        };
        remove(layout::query(&self.own))?;
        sync(&self.own)?;
        remove(layout::identity(&self.own))?;
        remove(layout::commits(&self.own))?;
        remove(layout::seen_epochs(&self.folder))?;
        remove(layout::away(&self.own))?;
        remove(layout::begun(&self.own))?;
        remove(layout::beginning(&self.own))?;
        self.snapshots().remove_after(None)?;
        let views = layout::views(&self.own);
        self.medium.remove_folder(&views).map_err(|error| failed("remove", &views, error))?;
        sync(&self.own)
    }

    /// The file in which a sink of this name keeps its rows.
    ///
    /// # Errors
    /// If the name is too long, or the disk fails.
    pub fn stored_rows(&self, sink: &str) -> Result<StoredRowsFile, Cause> {
        let views = layout::views(&self.own);
        let path = views.join(layout::rows_of_view(sink)?);
        self.medium.create_folder(&views).map_err(|error| failed("create the folder", &views, error))?;
        remove_unfinished(&*self.medium, &views)?;
        Ok(StoredRowsFile::new(self.medium.clone(), path))
    }

    /// The files in which a sink of this name keeps what its [rows file](Journal::stored_rows) names.
    ///
    /// # Errors
    /// If the name is too long, or the disk fails.
    pub fn stored_chunks(&self, sink: &str) -> Result<StoredChunks, Cause> {
        let folder = layout::views(&self.own).join(layout::chunks_of_view(sink)?);
        self.medium.create_folder(&folder).map_err(|error| failed("create the folder", &folder, error))?;
        StoredChunks::open(self.medium.clone(), folder)
    }

    /// Removes what sinks of other names than these have kept of their rows.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_rows_of_others(&self, sinks: &[String]) -> Result<(), Cause> {
        let views = layout::views(&self.own);
        let known = |name: &dyn Fn(&str) -> Result<String, Cause>| {
            sinks.iter().filter_map(|sink| name(sink).ok()).collect::<Vec<String>>()
        };
        let (rows, chunks) = (known(&layout::rows_of_view), known(&layout::chunks_of_view));
        let names = match self.medium.names(&views) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(|error| failed("list", &views, error))?,
        };
        let others = |ending: &str, known: &[String]| {
            let is_other = |name: &&String| name.ends_with(ending) && !known.contains(name);
            names.iter().filter(is_other).map(|name| views.join(name)).collect::<Vec<_>>()
        };
        let sync =
            || self.medium.sync_folder(&views).map_err(|error| failed("sync the folder", &views, error));
        // What names chunks goes first.
        let (rows, chunks) = (others(".rows", &rows), others(".chunks", &chunks));
        for path in &rows {
            self.medium.remove(path).map_err(|error| failed("remove", path, error))?;
        }
        if !rows.is_empty() {
            sync()?;
        }
        for folder in &chunks {
            self.medium.remove_folder(folder).map_err(|error| failed("remove", folder, error))?;
        }
        if chunks.is_empty() { Ok(()) } else { sync() }
    }

    /// The file of the sinks that were added to a query which had begun: each has the cycle with whose state it began. No
    /// run begins with an older state.
    pub fn begun(&self) -> CommitFile {
        CommitFile::new(self.medium.clone(), layout::begun(&self.own))
    }

    /// Notes after which cut the query began, durably; `None`: with the first cycle that there ever was.
    ///
    /// # Errors
    /// If the disk is full or fails.
    ///
    /// ```
    /// # use tidemill_journal::{BeganAt, Journal, inspect};
    /// let folder = tempfile::tempdir()?;
    /// let journal = Journal::open(folder.path())?;
    /// assert_eq!(inspect::beginning(folder.path())?, None);
    /// journal.set_beginning(None)?;
    /// assert_eq!(inspect::beginning(folder.path())?, Some(BeganAt::First));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_beginning(&self, after: Option<&Cut>) -> Result<(), Cause> {
        beginning::write(&*self.medium, &layout::beginning(&self.own), after)
    }

    /// The file of commits.
    pub fn commits(&self) -> CommitFile {
        CommitFile::new(self.medium.clone(), layout::commits(&self.own))
    }

    /// The file of the sinks that were away when a run began and have not arrived since. For each it has the first cycle
    /// that the journal did not have then: the sink cannot have that one, and if it says so, the journal has lost its end.
    pub fn away(&self) -> CommitFile {
        CommitFile::new(self.medium.clone(), layout::away(&self.own))
    }
}

fn lock(medium: &dyn Medium, folder: &Path) -> Result<LockGuard, Cause> {
    let path = layout::lock(folder);
    let guard = medium.lock(&path).map_err(|error| failed("lock", &path, error))?;
    guard.ok_or_else(|| {
        let text = "another process is running this query; stop it, or choose another folder";
        Cause::user(format!("{}: {text}", path.display()))
    })
}

/// Reads the file that says which version wrote a journal.
pub(crate) fn check_manifest(medium: &dyn Medium, folder: &Path) -> Result<(), Cause> {
    let path = layout::manifest(folder);
    match FileReader::open_any(medium, &path, MAGIC, VERSION)? {
        Some((reader, _)) => reader.finish(),
        None => Err(Cause::operation(format!("{}: the file is missing", path.display()))),
    }
}

fn write_manifest(medium: &dyn Medium, folder: &Path, version: u32) -> Result<(), Cause> {
    replace(medium, &layout::manifest(folder), |file| {
        file.put(&MAGIC);
        file.put_u32(version);
    })
}
