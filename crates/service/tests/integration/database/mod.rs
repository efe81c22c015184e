//! A database in a folder, whose durable sources a test feeds.
#![allow(dead_code)]

use std::path::Path;
use std::time::Duration;

use tidemill_engine::{DatabaseClock, StreamSettings};
use tidemill_service::{Error, FileCatalogLog, ReplacementOutcome, Runtime, Session};
use tidemill_sql::{DurableStream, Planner, parse};

use crate::fed::Fed;
use crate::gate::Gate;
use crate::statements::define;

/// A database in a folder, with the durable sources `s` and `t`.
pub struct Database {
    pub folder: tempfile::TempDir,
    pub sources: [Fed; 2],
    pub gate: Gate,
    pub workers: usize,
    pub ring_bytes_max: u64,
    pub stream: StreamSettings,
}

impl Database {
    pub fn new(workers: usize) -> Database {
        Database {
            folder: tempfile::tempdir().unwrap(),
            sources: Default::default(),
            gate: Gate::default(),
            workers,
            ring_bytes_max: 64 << 20,
            stream: StreamSettings::default(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn open(&self) -> (Runtime, Session) {
        let clock = DatabaseClock::journaled(&self.path().join("journal"), self.ring_bytes_max);
        self.open_under(clock.unwrap_or_else(|cause| panic!("{cause}")))
    }

    pub fn open_under(&self, clock: DatabaseClock) -> (Runtime, Session) {
        let mut planner = Planner::new();
        planner.settings_mut().workers = self.workers;
        planner.settings_mut().snapshot_every = Duration::from_millis(20);
        for (name, fed) in ["s", "t"].iter().zip(&self.sources) {
            let durable = DurableStream { stream: self.stream.clone(), ..DurableStream::default() };
            fed.register_with(&mut planner, name, Duration::ZERO, Some(durable));
        }
        self.gate.register(&mut planner);
        let log = FileCatalogLog::open(&self.path().join("log")).unwrap();
        let runtime =
            Runtime::open_under(planner, Box::new(log), clock).unwrap_or_else(|cause| panic!("{cause}"));
        let mut session = Session::new(&runtime);
        if runtime.catalog().version() == 0 {
            define(
                &mut session,
                "CREATE VIEW s AS SELECT * FROM s_rows(); CREATE VIEW t AS SELECT * FROM t_rows()",
            );
        }
        (runtime, session)
    }

    pub fn start(&self, session: &mut Session, name: &str, definition: &str) {
        define(session, definition);
        session.settings_mut().journal = Some(self.path().join(format!("journal/query-{name}")));
        let pipeline = session.pipeline_of(&[name]).unwrap_or_else(|error| panic!("{error}"));
        session.runtime().start(name, pipeline, false).unwrap_or_else(|cause| panic!("{cause}"));
    }

    /// Executes a statement that replaces a view or sink, as a server does.
    pub fn replace(&self, session: &mut Session, definition: &str) -> Result<ReplacementOutcome, Error> {
        let statement = parse(definition, "test.sql").unwrap_or_else(|error| panic!("{error}")).remove(0);
        assert!(session.replaces(&statement).is_some(), "nothing of that name runs: {definition}");
        session.replace(&statement)
    }

    pub fn sink(&self, name: &str) -> String {
        self.path().join(format!("{name}.csv")).to_str().unwrap().to_owned()
    }
}
