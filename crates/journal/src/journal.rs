//! The folder of one query: its streams, cuts, snapshots and commits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::fields::PutFields;

use crate::commits::CommitFile;
use crate::cut_journal::CutJournal;
use crate::disk::Disk;
use crate::failure::failed;
use crate::file_reader::FileReader;
use crate::layout;
use crate::log_reader::LogReader;
use crate::medium::{LockGuard, Medium};
use crate::query;
use crate::record_log::LogSettings;
use crate::recovery;
use crate::replace::{remove_unfinished, replace};
use crate::rows::{RowDecoder, RowEncoder, decode_schema, encode_schema};
use crate::segment::Content;
use crate::skips::{self, Skips};
use crate::snapshots::SnapshotFolder;
use crate::stream::{StreamReader, StreamSettings, StreamWriter};

const MAGIC: [u8; 8] = *b"TIDEJRNL";
/// Since there may be positions that are left out.
const VERSION: u32 = 2;
/// Of a folder that never had any, so that older programs can go on with it.
const VERSION_WITHOUT_SKIPS: u32 = 1;
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
    medium: Arc<dyn Medium>,
    folder: PathBuf,
    lock: LockGuard,
    streams: Mutex<BTreeSet<String>>,
    cuts: Mutex<Option<CutJournal>>,
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
        let snapshots = layout::snapshots(folder);
        medium.create_folder(&snapshots).map_err(|error| failed("make the folder", &snapshots, error))?;
        let lock = lock(&*medium, folder)?;
        // What an earlier run had begun to write when it ended. It has no name yet, so nobody reads it.
        remove_unfinished(&*medium, folder)?;
        remove_unfinished(&*medium, &snapshots)?;
        match FileReader::open_any(&*medium, &layout::manifest(folder), MAGIC, VERSION)? {
            Some((reader, _)) => reader.finish()?,
            None => write_manifest(&*medium, folder, VERSION_WITHOUT_SKIPS)?,
        }
        let folder = folder.to_owned();
        Ok(Journal { medium, folder, lock, streams: Mutex::default(), cuts: Mutex::default() })
    }

    /// Opens the journal of a stream, or creates it. Each stream can be opened once.
    ///
    /// # Errors
    /// If its rows had different columns, a segment is missing or damaged, or the disk fails.
    pub fn stream(
        &self,
        name: &str,
        schema: SchemaRef,
        settings: &StreamSettings,
    ) -> Result<(StreamWriter, StreamReader), Cause> {
        let folder = layout::stream_name(name)
            .ok_or_else(|| Cause::user(format!("the stream's name '{name}' is too long; shorten it")))?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.contains(name) {
            return Err(Cause::bug(format!("the journal of stream '{name}' is opened twice")));
        }
        let identity = encode_schema(&schema);
        let written = decode_schema(&identity).map_err(Cause::bug)?;
        let encoder = RowEncoder::new(schema.clone())?;
        let log = recovery::open(
            self.medium.clone(),
            LogSettings {
                folder: layout::streams(&self.folder).join(folder),
                content: Content::Rows,
                identity,
                segment_bytes: settings.segment_bytes,
                bytes_max: settings.bytes_max,
                retain_bytes: settings.retain_bytes,
                clients_max: settings.clients_max,
            },
            self.lock.clone(),
        )?;
        streams.insert(name.to_owned());
        let reader =
            StreamReader::new(LogReader::new(log.shared.clone()), RowDecoder::new(schema, written.into()));
        Ok((StreamWriter::new(log, encoder), reader))
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
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cuts) = &*cuts {
            return Ok(cuts.clone());
        }
        let settings = LogSettings {
            folder: layout::cuts(&self.folder),
            content: Content::Cuts,
            identity: Vec::new(),
            segment_bytes,
            bytes_max: u64::MAX,
            retain_bytes: 0,
            clients_max: 1,
        };
        let log = recovery::open(self.medium.clone(), settings, self.lock.clone())?;
        Ok(cuts.insert(CutJournal::new(log)).clone())
    }

    /// The folder of snapshots.
    pub fn snapshots(&self) -> SnapshotFolder {
        SnapshotFolder::new(self.medium.clone(), layout::snapshots(&self.folder))
    }

    /// The description of the query that the folder belongs to; `None` if it has none yet.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn query(&self) -> Result<Option<String>, Cause> {
        query::read(&*self.medium, &layout::query(&self.folder))
    }

    /// Durably records which query the folder belongs to.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn set_query(&self, text: &str) -> Result<(), Cause> {
        query::write(&*self.medium, &layout::query(&self.folder), text)
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
        write_manifest(&*self.medium, &self.folder, VERSION)?;
        skips::write(&*self.medium, &layout::skips(&self.folder), skips)
    }

    /// The file of commits.
    pub fn commits(&self) -> CommitFile {
        CommitFile::new(self.medium.clone(), layout::commits(&self.folder))
    }
}

fn lock(medium: &dyn Medium, folder: &Path) -> Result<LockGuard, Cause> {
    let path = layout::lock(folder);
    let guard = medium.lock(&path).map_err(|error| failed("lock", &path, error))?;
    guard.ok_or_else(|| {
        let text = "another process is running this query; stop it, or name another folder";
        Cause::user(format!("{}: {text}", path.display()))
    })
}

fn write_manifest(medium: &dyn Medium, folder: &Path, version: u32) -> Result<(), Cause> {
    replace(medium, &layout::manifest(folder), |file| {
        file.put(&MAGIC);
        file.put_u32(version);
    })
}
