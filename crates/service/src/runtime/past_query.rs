//! A query of a database as its catalogue has it, for whoever looks at its past while a server may be running it.

use std::path::{Path, PathBuf};

use tidemill_engine::{Cause, inspect};
use tidemill_sql::{Catalog, Pipeline, Planner, Settings};

use crate::catalog::record::{CatalogRecord, StartedQuery};
use crate::runtime::query_folder::{folder_in, folder_name, is_query_folder};

/// The pipeline of a query of a database, and its folder in the journal of the database. Both folders are only read. The
/// planner has registered what the definitions call, and has none of its own. A query that was stopped is the one that
/// writes to the view or sink of its name.
///
/// # Errors
/// If there is no such query, or its definitions cannot be read or planned.
///
/// ```
/// use tidemill_sql::Planner;
/// # let folder = tempfile::tempdir()?;
/// let (catalogue, journal) = (folder.path().join("catalogue"), folder.path().join("journal"));
/// let error = tidemill_service::past_query(Planner::new(), (&catalogue, &journal), "totals").err().unwrap();
/// assert!(error.to_string().contains("has no catalogue"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn past_query(
    mut planner: Planner,
    (catalogue, journal): (&Path, &Path),
    query: &str,
) -> Result<(Pipeline, PathBuf), Cause> {
    let (mut definitions, mut started) = (Vec::new(), None);
    for (index, bytes) in inspect::definitions(catalogue)?.iter().enumerate() {
        match CatalogRecord::decode(bytes) {
            Some(CatalogRecord::Definition(definition)) => definitions.push(definition),
            // The last start counts, also of a query that was stopped: its folder is that of the last one.
            Some(CatalogRecord::Started(start)) if start.name == query => started = Some(start),
            Some(CatalogRecord::Replaced(definition, start)) => {
                definitions.push(definition);
                started = Some(start).filter(|start| start.name == query).or(started);
            }
            Some(_) => {}
            None => {
                return Err(Cause::operation(format!(
                    "this version of Tidemill cannot read record {} of the catalogue's log; use the version that \
                     wrote it",
                    index + 1
                )));
            }
        }
    }
    planner.replay(&definitions)?;
    let defaults = planner.settings().clone();
    past_of_started(planner.into_catalog(), &defaults, journal, query, started.as_ref())
}

/// Returns the pipeline of a query as it was started last, and its folder in the journal of the database.
pub(crate) fn past_of_started(
    catalog: Catalog,
    defaults: &Settings,
    journal: &Path,
    query: &str,
    started: Option<&StartedQuery>,
) -> Result<(Pipeline, PathBuf), Cause> {
    let defaults = Settings { journal: Some(journal.to_owned()), ..defaults.clone() };
    let (settings, outputs) = match started {
        Some(StartedQuery { settings, outputs, .. }) => {
            (Settings::decode(settings, &defaults)?, outputs.clone())
        }
        None => (defaults.clone(), vec![query.to_owned()]),
    };
    let folder = match &settings.journal {
        Some(folder) if is_query_folder(folder) => folder_in(journal, folder),
        _ => journal.join(folder_name(query)),
    };
    let settings = Settings { workers: defaults.workers, processes: 1, ..settings };
    let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let pipeline = Planner::at(catalog, settings).pipeline_of(&names)?;
    Ok((pipeline, folder))
}
