//! The durable log of a catalogue's definitions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::error::Cause;

use crate::failure::failed;
use crate::layout;
use crate::lengths::catalog_length;
use crate::log_reader::LogReader;
use crate::medium::Medium;
use crate::record_log::{LogSettings, NewRecord, RecordLog};
use crate::recovery;
use crate::segment::Content;

/// The size of a segment. Definitions are short, and each is synced.
const SEGMENT_BYTES: u64 = 1 << 20;
/// The largest a log may become.
const BYTES_MAX: u64 = 1 << 30;

/// The durable log of a catalogue's definitions, each as bytes, in its own folder. Only one process at a time can have
/// it open.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_journal::{CatalogJournal, Disk};
/// # let folder = std::env::temp_dir().join(format!("tidemill-catalog-{}", std::process::id()));
/// let mut log = CatalogJournal::open(Arc::new(Disk), &folder).unwrap();
/// log.append(b"CREATE ...").unwrap();
/// drop(log);
/// let log = CatalogJournal::open(Arc::new(Disk), &folder).unwrap();
/// assert_eq!(log.read().unwrap(), [b"CREATE ..."]);
/// # drop(log);
/// # std::fs::remove_dir_all(folder).unwrap();
/// ```
pub struct CatalogJournal {
    log: RecordLog,
    folder: PathBuf,
}

impl CatalogJournal {
    /// Opens the log in a folder, or creates it. What a crash left of an incomplete definition is cut off.
    ///
    /// # Errors
    /// If another process has it, a definition is damaged that was synced, definitions are missing at its end, or the disk fails.
    pub fn open(medium: Arc<dyn Medium>, folder: &Path) -> Result<CatalogJournal, Cause> {
        medium.create_folder(folder).map_err(|error| failed("create the folder", folder, error))?;
        let path = layout::lock(folder);
        let lock = medium.lock(&path).map_err(|error| failed("lock", &path, error))?;
        let Some(lock) = lock else {
            return Err(Cause::user(format!(
                "another process is using the catalogue in '{}'; end it first, or use another folder",
                folder.display()
            )));
        };
        let settings = LogSettings {
            folder: folder.join("definitions"),
            content: Content::Definitions,
            identity: Arc::default(),
            segment_bytes: SEGMENT_BYTES,
            bytes_max: BYTES_MAX,
            retain_bytes: u64::MAX,
            clients_max: 1,
        };
        let log = recovery::open(Arc::clone(&medium), settings, lock)?;
        catalog_length::check(&*medium, folder, log.end())?;
        log.note_opening()?;
        Ok(CatalogJournal { log, folder: folder.to_owned() })
    }

    /// All definitions, in order.
    ///
    /// # Errors
    /// If one of them is damaged, or the disk fails.
    pub fn read(&self) -> Result<Vec<Vec<u8>>, Cause> {
        let mut reader = LogReader::new(Arc::clone(&self.log.shared));
        let read = |number| {
            let found = reader.read(number)?;
            Ok(found.map(|found| found.bytes[found.head.content()].to_vec()))
        };
        (0..self.log.end()).map(read).filter_map(Result::transpose).collect()
    }

    /// Appends a definition durably. After an error it may or may not be there when the log is opened again.
    ///
    /// # Errors
    /// If the disk fails; the log then accepts nothing more.
    pub fn append(&mut self, definition: &[u8]) -> Result<(), Cause> {
        let record = NewRecord { count: 1, arrived_ns: 0, request: None, offsets: &[], stretches: &[] };
        self.log.append(record, &[definition])?;
        if let Some(pending) = self.log.begin_sync()? {
            let result = pending.run();
            self.log.end_sync(&pending, result)?;
        }
        let path = catalog_length::path(&self.folder);
        catalog_length::write(&*self.log.shared.medium, &path, self.log.end())
    }

    /// How many bytes of an incompletely written definition were cut off when the log was opened.
    pub fn torn_bytes(&self) -> u64 {
        self.log.torn_bytes
    }
}
