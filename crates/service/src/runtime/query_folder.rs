//! The folders that queries have in the journal of a database.

use std::path::{Path, PathBuf};

use tidemill_engine::Cause;

use crate::Runtime;

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

    /// The folder of a query that is to take the place of the one of this name; `None`: the database has no journal.
    pub(crate) fn replacement_folder(&self, query: &str) -> Option<PathBuf> {
        // No other definition has this version, so no other folder has this name.
        let version = self.defined_catalog().version() + 1;
        Some(self.clock().journal_folder()?.join(format!("{}-{version}", folder_name(query))))
    }
}

/// The folders of queries in the journal of a database.
pub(crate) fn query_folders(journal: &Path) -> Result<Vec<PathBuf>, Cause> {
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

/// Whether a folder has the name of a query's folder.
pub(crate) fn is_query_folder(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Whether a folder is one that a query of this name has, or had before it was replaced.
pub(crate) fn is_folder_of(folder: &Path, query: &str) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.strip_prefix(&folder_name(query)) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|version| version.parse::<u64>().is_ok()),
        None => false,
    }
}

/// The version of the catalogue that the query of a folder has made, if it has replaced another one.
pub(crate) fn version_of(folder: &Path) -> Option<u64> {
    let name = folder.file_name()?.to_str()?;
    // What belongs to the name of the query is written in another way.
    name.strip_prefix(PREFIX)?.rsplit_once('-')?.1.parse().ok()
}

/// Where a folder is now that was kept as this: the journal of the database may have been moved since.
pub(crate) fn folder_in(journal: &Path, kept: &Path) -> PathBuf {
    match kept.file_name() {
        Some(name) if is_query_folder(kept) && journal.join(name).is_dir() => journal.join(name),
        _ => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_its_folder_and_those_of_its_replacements() {
        let is_of = |folder: &str, query| is_folder_of(&Path::new("journal").join(folder), query);
        assert!(is_of("query-v", "v") && is_of("query-v-12", "v") && is_of("query-v%2d12", "v-12"));
        assert!(!is_of("query-v-12", "v-12") && !is_of("query-vw", "v") && !is_of("query-v-x", "v"));
    }

    #[test]
    fn a_folder_is_found_where_the_journal_is_now() {
        let journal = tempfile::tempdir().unwrap();
        std::fs::create_dir(journal.path().join("query-v")).unwrap();
        let found = |kept: &str| folder_in(journal.path(), Path::new(kept));
        assert_eq!(found("/elsewhere/journal/query-v"), journal.path().join("query-v"));
        assert_eq!(found("/elsewhere/journal/query-w"), Path::new("/elsewhere/journal/query-w"));
        assert_eq!(found("/elsewhere/own"), Path::new("/elsewhere/own"));
    }
}
