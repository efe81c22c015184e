//! Parts of the journal of a database that nothing needs any more: the folders of dropped queries, the rows of dropped sources
//! (decision 0068).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidemill_engine::{Cause, database, inspect, set_aside};
use tidemill_sql::Settings;
use tracing::{info, warn};

use crate::Runtime;
use crate::catalog_record::StartedQuery;

/// What the name of the folder of a query begins with.
const PREFIX: &str = "query-";

impl Runtime {
    /// The folder of a query of this name in the journal of the database; `None`: the database has no journal.
    ///
    /// ```
    /// use tidemill_service::{MemoryCatalogLog, Runtime};
    /// use tidemill_sql::Planner;
    /// let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::open_journaled(Planner::new(), Box::new(MemoryCatalogLog), folder.path())?;
    /// assert_eq!(runtime.query_folder("a/b"), Some(folder.path().join("query-a%2fb")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn query_folder(&self, query: &str) -> Option<PathBuf> {
        Some(self.clock().journal_folder()?.join(folder_name(query)))
    }

    /// Removes what a query that was dropped has kept.
    pub(crate) fn remove_folder(&self, query: &str) {
        let Some(folder) = self.query_folder(query) else { return };
        let removed = self.set_aside(query, &folder).and_then(|aside| match aside {
            Some(aside) => set_aside::remove(&aside),
            None => Ok(()),
        });
        tell(&folder, removed);
    }

    /// Removes the rows of sources that nobody reads, that no definition names, and that no query continues with.
    pub(crate) fn remove_streams(&self) {
        let Some(journal) = self.clock().journal_folder() else { return };
        tell(journal, self.try_remove_streams(journal));
    }

    fn try_remove_streams(&self, journal: &Path) -> Result<(), Cause> {
        let catalog = self.defined_catalog();
        if !catalog.failed_definitions().is_empty() {
            // What they name is not known.
            return Ok(());
        }
        let mut needed = catalog.stream_names();
        for folder in query_folders(journal)? {
            let description = inspect::query(&folder)?.unwrap_or_default();
            needed.extend(database::sources_of_query(&description).map(str::to_owned));
        }
        // What has no version, no statement has defined.
        let is_defined = |stream: &str| {
            let version = stream.rsplit_once('-').and_then(|(_, version)| version.parse::<u64>().ok());
            version.is_some_and(|version| version > 0)
        };
        let removed = self.clock().remove_sources(|stream| !is_defined(stream) || needed.contains(stream))?;
        for stream in removed {
            info!(stream, "the journal of a dropped source is removed");
        }
        Ok(())
    }

    /// Removes what a crash has left of queries and sources that were dropped. Nothing runs yet.
    pub(crate) fn remove_superfluous(&self, started: &[StartedQuery]) {
        let Some(journal) = self.clock().journal_folder() else { return };
        tell(journal, self.try_remove_superfluous(journal, started));
        self.remove_streams();
    }

    fn try_remove_superfluous(&self, journal: &Path, started: &[StartedQuery]) -> Result<(), Cause> {
        set_aside::remove_all(journal)?;
        let catalog = self.defined_catalog();
        if catalog.failed_definitions().iter().any(|failed| failed.defines.is_none()) {
            return Ok(());
        }
        let names = catalog.output_names().chain(started.iter().map(|query| query.name.as_str()));
        let mut named: BTreeSet<PathBuf> = names.map(|query| journal.join(folder_name(query))).collect();
        for query in started {
            // A program may have chosen another folder.
            named.extend(Settings::decode(&query.settings, self.defaults())?.journal);
        }
        for folder in query_folders(journal)?.into_iter().filter(|folder| !named.contains(folder)) {
            if let Some(aside) = set_aside::set_aside(&folder)? {
                info!(folder = %folder.display(), "the folder of a dropped query is removed");
                set_aside::remove(&aside)?;
            }
        }
        Ok(())
    }
}

/// What cannot be removed costs room, and nothing else. The next start tries it again.
fn tell(folder: &Path, removed: Result<(), Cause>) {
    if let Err(cause) = removed {
        let (folder, reason) = (folder.display(), cause);
        warn!(%folder, %reason, "what was dropped cannot be removed; the next start tries again");
    }
}

fn query_folders(journal: &Path) -> Result<Vec<PathBuf>, Cause> {
    let failed = |error: std::io::Error| {
        Cause::operation(format!("cannot list {}: {error}", journal.display())).with_source(error)
    };
    let mut folders = Vec::new();
    for entry in journal.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// The name of a query's folder: what could lead elsewhere, or be the same in a file system without case, is written in
/// hexadecimal digits.
pub(crate) fn folder_name(query: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    PREFIX.chars().map(String::from).chain(query.bytes().map(letter)).collect()
}
