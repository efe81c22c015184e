//! Runtimes whose definitions stay in a folder, and the queries that they start.
#![allow(dead_code)]

use std::path::Path;
use std::time::Duration;

use tidemill_service::{FileCatalogLog, Runtime, Session};
use tidemill_sql::Planner;

/// A planner with one worker.
pub fn planner() -> Planner {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    planner
}

/// The log of definitions in a folder.
pub fn log(catalogue: &Path) -> Box<FileCatalogLog> {
    Box::new(FileCatalogLog::open(catalogue).unwrap_or_else(|cause| panic!("{cause}")))
}

/// A runtime over the definitions in a folder.
pub fn open(planner: Planner, catalogue: &Path) -> Runtime {
    Runtime::open(planner, log(catalogue)).unwrap_or_else(|cause| panic!("{cause}"))
}

/// The same, and a session of it.
pub fn open_session(planner: Planner, catalogue: &Path) -> (Runtime, Session) {
    let runtime = open(planner, catalogue);
    let session = Session::new(&runtime);
    (runtime, session)
}

/// A runtime over a folder with definitions and a journal, whose queries take snapshots often.
pub fn open_journaled(folder: &Path) -> (Runtime, Session) {
    let mut planner = planner();
    planner.settings_mut().snapshot_every = Duration::from_millis(5);
    let runtime = Runtime::open_journaled(planner, log(&folder.join("catalogue")), &folder.join("journal"));
    let runtime = runtime.unwrap_or_else(|cause| panic!("{cause}"));
    let session = Session::new(&runtime);
    (runtime, session)
}

/// Starts the query of a view or a sink under its name.
pub fn start(session: &mut Session, name: &str) {
    if let Some(folder) = session.runtime().query_folder(name) {
        session.settings_mut().journal = Some(folder);
    }
    let pipeline = session.pipeline_of(&[name]).unwrap_or_else(|error| panic!("{error}"));
    session.runtime().start(name, pipeline, false).unwrap_or_else(|cause| panic!("{cause}"));
}
