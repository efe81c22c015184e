//! The journal of a database, which has no script: its queries are those of its catalogue.

use std::path::{Path, PathBuf};

use tidemill_engine::{Epoch, database, inspect};

use crate::sql::{CATALOGUE, JOURNAL, user_error};

/// Refuses a command that needs the script of a pipeline for the journal of a database, or the folder of one of its
/// queries, and says what to do instead.
pub(super) fn refuse(folder: &Path, instead: &str) -> anyhow::Result<()> {
    let Ok(Some(description)) = inspect::query(folder) else { return Ok(()) };
    let what = if database::sources(&description).is_some() {
        "the journal of a database"
    } else if database::sources_of_query(&description).next().is_some() {
        "the folder of a query of a database, whose rows are in the journal above it"
    } else {
        return Ok(());
    };
    Err(user_error(format!(
        "'{}' is {what}: `tidemill serve` runs it, and no script does. {instead}",
        folder.display()
    )))
}

/// A part of a database beside the rows and cuts of its journal.
pub(super) enum Part {
    /// The folder of a query.
    Query(PathBuf),
    Catalogue(PathBuf),
}

/// The folder of the journal, if this is the folder of a database.
pub(super) fn journal_in(folder: &Path) -> PathBuf {
    let (journal, catalogue) = (folder.join(JOURNAL), folder.join(CATALOGUE));
    if journal.is_dir() && catalogue.is_dir() { journal } else { folder.to_owned() }
}

/// Returns the parts of a database beside its journal; none if the journal is not that of a database.
pub(super) fn parts(journal: &Path) -> anyhow::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in journal.read_dir()? {
        let path = entry?.path();
        let is_query = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("query-"));
        if is_query && path.is_dir() {
            parts.push(Part::Query(path));
        }
    }
    let is_database = !parts.is_empty() || matches!(sources(journal), Ok(Some(_)) | Err(_));
    let above = journal.canonicalize()?;
    if let Some(above) = above.parent().filter(|_| is_database && above.ends_with(JOURNAL)) {
        parts.push(Part::Catalogue(above.join(CATALOGUE)));
    }
    Ok(parts)
}

/// The sources of the journal of a database, in the order of its cuts; `None` if it is another journal.
pub(super) fn sources(folder: &Path) -> anyhow::Result<Option<Vec<String>>> {
    let description = inspect::query(folder)?.unwrap_or_default();
    Ok(database::sources(&description).map(|names| names.into_iter().map(str::to_owned).collect()))
}

/// Which rows of the sources were lost, a line for each loss.
pub(super) fn losses(epochs: &[Epoch], sources: &[String]) -> Vec<String> {
    let losses = epochs.iter().filter_map(|epoch| match epoch {
        Epoch::Lost(lost) => {
            let source = sources.get(lost.source).map_or("?", String::as_str);
            let (first, last) = (lost.cycles.start(), lost.cycles.end());
            Some(format!(
                "a crash of the machine has taken rows of {source} that cycles {first} to {last} name: these have \
                 its rows up to position {} only",
                lost.position
            ))
        }
        Epoch::Opened { .. } => None,
    });
    losses.collect()
}
