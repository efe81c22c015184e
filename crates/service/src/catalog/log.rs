//! Keeps the definitions of a catalogue, and which queries run.

use std::path::Path;
use std::sync::Arc;

use tidemill_engine::{CatalogJournal, Cause, Disk};

use crate::catalog::record::CatalogRecord;

/// Keeps the definitions of a catalogue and which queries run, in order.
pub trait CatalogLog: Send {
    /// The records that it has, in order.
    ///
    /// # Errors
    /// If they cannot be read, or one of them is none.
    fn read(&mut self) -> Result<Vec<CatalogRecord>, Cause>;

    /// Adds a record. When this returns, it is as durable as the log promises.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn append(&mut self, record: &CatalogRecord) -> Result<(), Cause>;
}

/// Keeps nothing: the runtime has everything as long as the process runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryCatalogLog;

impl CatalogLog for MemoryCatalogLog {
    fn read(&mut self) -> Result<Vec<CatalogRecord>, Cause> {
        Ok(Vec::new())
    }

    fn append(&mut self, _record: &CatalogRecord) -> Result<(), Cause> {
        Ok(())
    }
}

/// Keeps records in a folder: each is synced before its statement is answered. The process may be killed at any point;
/// what it left of an incomplete record is cut off. A folder that the log creates is readable by its owner only,
/// because statements may contain passwords.
///
/// ```
/// use tidemill_service::{FileCatalogLog, Runtime, Session};
/// use tidemill_sql::{Planner, parse};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("catalogue");
/// let log = FileCatalogLog::open(&path).unwrap();
/// let runtime = Runtime::open(Planner::new(), Box::new(log)).unwrap();
/// let statement = parse("CREATE VIEW one AS SELECT 1 AS n", "example").unwrap().remove(0);
/// Session::new(&runtime).execute(&statement).unwrap();
/// drop(runtime);
///
/// let again = Runtime::open(Planner::new(), Box::new(FileCatalogLog::open(&path).unwrap())).unwrap();
/// assert_eq!(again.catalog().version(), 1);
/// ```
pub struct FileCatalogLog {
    journal: CatalogJournal,
}

impl FileCatalogLog {
    /// Opens the log in a folder, or creates it.
    ///
    /// # Errors
    /// If another process has it, a record is damaged, or the disk fails.
    pub fn open(folder: &Path) -> Result<FileCatalogLog, Cause> {
        create_private(folder)?;
        Ok(FileCatalogLog { journal: CatalogJournal::open(Arc::new(Disk), folder)? })
    }

    /// How many bytes of an incompletely written record were cut off when the log was opened.
    pub fn torn_bytes(&self) -> u64 {
        self.journal.torn_bytes()
    }
}

/// Creates a folder that only its owner can read, if it does not exist.
fn create_private(folder: &Path) -> Result<(), Cause> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let created = builder.create(folder);
    created.map_err(|error| {
        let message = format!("cannot create the folder '{}' for the catalogue: {error}", folder.display());
        Cause::operation(message).with_source(error)
    })
}

impl CatalogLog for FileCatalogLog {
    fn read(&mut self) -> Result<Vec<CatalogRecord>, Cause> {
        let decode = |(index, bytes): (usize, Vec<u8>)| {
            CatalogRecord::decode(&bytes).ok_or_else(|| {
                let number = index + 1;
                Cause::operation(format!(
                    "this version of Tidemill cannot read record {number} of the catalogue's log; use the \
                     version that wrote it"
                ))
            })
        };
        self.journal.read()?.into_iter().enumerate().map(decode).collect()
    }

    fn append(&mut self, record: &CatalogRecord) -> Result<(), Cause> {
        self.journal.append(&record.encode())
    }
}
