//! `--database FOLDER`: definitions that are kept between calls.

use std::path::{Path, PathBuf};

use tidemill_service::{FileCatalogLog, Runtime};
use tidemill_sql::Planner;

use super::background::BACKGROUND_QUERY;
use super::user_error;
use crate::terminal;

/// The folder of the catalogue's log in that of a database.
pub(crate) const CATALOGUE: &str = "catalogue";
/// The folder of journals in that of a database.
pub(crate) const JOURNAL: &str = "journal";
/// What queries with measured costs have cost, in the folder of a database.
pub(super) const COSTS: &str = "cost-profiles";
/// The journal of what the command runs. The queries of a server have theirs beside it.
const PIPELINE: &str = "pipeline";

/// Where definitions are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseOption {
    /// Keep definitions in this folder, for the next call; it is created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    pub database: Option<PathBuf>,
}

impl DatabaseOption {
    /// A runtime for one session: with the definitions of the database, if there is one.
    pub fn runtime(&self, planner: Planner) -> anyhow::Result<Runtime> {
        match &self.database {
            Some(folder) => open(folder, planner),
            None => Ok(Runtime::new(planner)),
        }
    }
}

/// A runtime with the definitions of a database, which must be there.
pub(super) fn open_existing(folder: &Path, planner: Planner) -> anyhow::Result<Runtime> {
    if folder.join(CATALOGUE).is_dir() {
        open(folder, planner)
    } else {
        let folder = folder.display();
        Err(user_error(format!(
            "there is no database in '{folder}'; is the path right? tidemill sql --database {folder} creates it"
        )))
    }
}

fn open(folder: &Path, mut planner: Planner) -> anyhow::Result<Runtime> {
    planner.settings_mut().journal = Some(folder.join(JOURNAL).join(PIPELINE));
    let log = FileCatalogLog::open(&folder.join(CATALOGUE))?;
    let runtime = Runtime::open_idle(planner, Box::new(log))?;
    // A prompt that was killed while it ran in the background.
    if runtime.state(BACKGROUND_QUERY).is_ok() {
        runtime.forget(BACKGROUND_QUERY)?;
    }
    for failed in runtime.catalog().failed_definitions() {
        let version = failed.definition.version;
        let name = failed.defines.as_ref().map_or(format!("definition {version}"), |(kind, name)| {
            format!("{} '{name}'", kind.keyword().to_lowercase())
        });
        terminal::tell(&format!("warning: {name} of the database cannot be used now: {}", failed.reason));
    }
    Ok(runtime)
}
