//! Parts of the journal of a database that nothing needs any more: the folders of dropped queries, the rows of dropped sources
//! (decision 0068).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidemill_engine::{Cause, database, inspect, set_aside};
use tidemill_sql::{Definition, StatementKind, parse};
use tracing::{info, warn};

use crate::Runtime;
use crate::catalog::record::StartedQuery;
use crate::runtime::query_folder::{folder_name, is_folder_of, is_query_folder, query_folders, version_of};

impl Runtime {
    /// Removes what a query that was dropped has kept.
    pub(crate) fn remove_folder(&self, query: &str) {
        let Some(journal) = self.clock().journal_folder() else { return };
        let removed = query_folders(journal).and_then(|folders| {
            folders.iter().filter(|folder| is_folder_of(folder, query)).try_for_each(|folder| {
                match self.set_aside(query, folder)? {
                    Some(aside) => set_aside::remove(&aside),
                    None => Ok(()),
                }
            })
        });
        tell(journal, removed);
    }

    /// Removes the folder of a query whose place another one has taken, or that has not taken it.
    pub(crate) fn remove_replaced(&self, folder: &Path) {
        if self.clock().journal_folder().is_some_and(|journal| folder.parent() == Some(journal)) {
            let removed = set_aside::set_aside(folder);
            tell(folder, removed.and_then(|aside| aside.as_deref().map_or(Ok(()), set_aside::remove)));
        }
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

    /// Refuses a journal that has what the catalogue has never named: the catalogue's log is gone or shorter, or is another one's.
    /// What it does not name would be removed.
    pub(crate) fn check_known(&self, ever: &BTreeSet<String>) -> Result<(), Cause> {
        let Some(journal) = self.clock().journal_folder() else { return Ok(()) };
        let catalog = self.defined_catalog();
        let definitions = catalog.definitions();
        let named = |defines: &Definition| parse(&defines.statement, "the log of the catalogue").ok();
        let names_stream = |source: &str, version: u64| {
            let index = usize::try_from(version).ok().and_then(|version| version.checked_sub(1));
            let Some(definition) = index.and_then(|index| definitions.get(index)) else { return false };
            // One that cannot be read any more may be it.
            named(definition).is_none_or(|statements| {
                statements.iter().any(|statement| match &statement.kind {
                    StatementKind::CreateSource(create) | StatementKind::CreateTable(create) => {
                        create.name.as_str() == source
                    }
                    _ => false,
                })
            })
        };
        let mut unknown: Vec<String> = Vec::new();
        for stream in self.clock().journaled_sources()? {
            // What has no version, no statement has defined.
            let Some((source, version)) = stream.rsplit_once('-') else { continue };
            let Some(version) = version.parse::<u64>().ok().filter(|version| *version > 0) else { continue };
            if !names_stream(source, version) {
                unknown.push(format!("the rows of source '{source}'"));
            }
        }
        let folders = query_folders(journal)?;
        let mut unnamed: Vec<&PathBuf> =
            folders.iter().filter(|folder| !ever.iter().any(|query| is_folder_of(folder, query))).collect();
        if !unnamed.is_empty() {
            let outputs = definitions.iter().filter_map(|definition| named(definition)).flatten();
            let outputs: Vec<String> = outputs.filter_map(|statement| output_of(&statement.kind)).collect();
            unnamed.retain(|folder| !outputs.iter().any(|query| is_folder_of(folder, query)));
        }
        // One of a later version than the next definition makes belongs to a definition that is lost.
        let is_later =
            |folder: &&PathBuf| version_of(folder).is_some_and(|version| version > catalog.version() + 1);
        let later = folders.iter().filter(is_later);
        unknown.extend(unnamed.into_iter().chain(later).map(|folder| format!("'{}'", folder.display())));
        unknown.dedup();
        if unknown.is_empty() { Ok(()) } else { Err(not_of_catalogue(journal, &unknown)) }
    }

    /// Removes what a crash has left of queries and sources that were dropped. Nothing runs yet.
    pub(crate) fn remove_garbage(&self, started: &[StartedQuery]) {
        let Some(journal) = self.clock().journal_folder() else { return };
        tell(journal, self.try_remove_garbage(journal, started));
        self.remove_streams();
    }

    fn try_remove_garbage(&self, journal: &Path, started: &[StartedQuery]) -> Result<(), Cause> {
        set_aside::remove_all(journal)?;
        let catalog = self.defined_catalog();
        if catalog.failed_definitions().iter().any(|failed| failed.defines.is_none()) {
            return Ok(());
        }
        // A query that was started has one folder; what else has its name was to replace it, or was replaced.
        let mut needed = BTreeSet::new();
        for query in started {
            let folder = self.settings_of(query)?.journal.filter(|folder| is_query_folder(folder));
            needed.insert(folder.unwrap_or_else(|| journal.join(folder_name(&query.name))));
        }
        let is_started = |output: &&str| started.iter().any(|query| query.name == **output);
        let stopped: Vec<&str> = catalog.output_names().filter(|output| !is_started(output)).collect();
        let is_needed = |folder: &PathBuf| {
            needed.contains(folder) || stopped.iter().any(|query| is_folder_of(folder, query))
        };
        for folder in query_folders(journal)?.into_iter().filter(|folder| !is_needed(folder)) {
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

/// What a definition writes to.
fn output_of(kind: &StatementKind) -> Option<String> {
    match kind {
        StatementKind::CreateMaterializedView(create) => Some(create.name.as_str().to_owned()),
        StatementKind::CreateSink(create) => Some(create.name.as_str().to_owned()),
        StatementKind::InsertInto { sink, .. } => Some(sink.as_str().to_owned()),
        _ => None,
    }
}

fn not_of_catalogue(journal: &Path, unknown: &[String]) -> Cause {
    Cause::operation(format!(
        "the catalogue has never named {}, which '{}' has: its log is gone or shorter than it was, or belongs to \
         another database. Nothing was removed. Restore the folders of the catalogue and of the journal from the same \
         backup; or move these out of the journal's folder to continue without them",
        unknown.join(", "),
        journal.display()
    ))
}
