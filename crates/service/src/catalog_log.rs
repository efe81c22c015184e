//! Keeps the definitions of a catalogue.

use std::path::Path;
use std::sync::Arc;

use tidemill_engine::{CatalogJournal, Cause, Disk};
use tidemill_sql::Definition;

/// Keeps the definitions of a catalogue, in order.
pub trait CatalogLog: Send {
    /// The definitions that it has, in order.
    ///
    /// # Errors
    /// If they cannot be read, or one of them is none.
    fn read(&mut self) -> Result<Vec<Arc<Definition>>, Cause>;

    /// Adds a definition. When this returns, it is as durable as the log promises.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn append(&mut self, definition: &Definition) -> Result<(), Cause>;
}

/// Keeps definitions as long as the process runs: the catalogue itself has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryCatalogLog;

impl CatalogLog for MemoryCatalogLog {
    fn read(&mut self) -> Result<Vec<Arc<Definition>>, Cause> {
        Ok(Vec::new())
    }

    fn append(&mut self, _definition: &Definition) -> Result<(), Cause> {
        Ok(())
    }
}

/// Keeps definitions in a folder: each is synced before its statement is answered. The process may be killed at any point;
/// what it left of an incomplete definition is cut off. A folder that the log creates is readable by its owner only,
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
    /// If another process has it, a definition is damaged, or the disk fails.
    pub fn open(folder: &Path) -> Result<FileCatalogLog, Cause> {
        create_private(folder)?;
        Ok(FileCatalogLog { journal: CatalogJournal::open(Arc::new(Disk), folder)? })
    }

    /// How many bytes of an incompletely written definition were cut off when the log was opened.
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
        let message = format!("the folder '{}' for the catalogue cannot be made: {error}", folder.display());
        Cause::operation(message).with_source(error)
    })
}

impl CatalogLog for FileCatalogLog {
    fn read(&mut self) -> Result<Vec<Arc<Definition>>, Cause> {
        let decode = |(index, bytes): (usize, Vec<u8>)| {
            Definition::decode(&bytes).map(Arc::new).ok_or_else(|| {
                let number = index + 1;
                Cause::operation(format!(
                    "definition {number} of the catalogue's log is none that this version of Tidemill knows; use the \
                     version that wrote it"
                ))
            })
        };
        self.journal.read()?.into_iter().enumerate().map(decode).collect()
    }

    fn append(&mut self, definition: &Definition) -> Result<(), Cause> {
        self.journal.append(&definition.encode())
    }
}
