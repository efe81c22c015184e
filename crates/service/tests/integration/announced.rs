//! What a kill within a definition leaves: a view that is defined runs, and one that is dropped does not, even if the
//! process got no further than the log.

use std::path::Path;

use tidemill_service::{QueryState, Runtime, Session};

use crate::runtimes::{open_journaled, start};
use crate::statements::{define, execute};

/// A runtime with a session that runs what it defines.
fn open(folder: &Path) -> (Runtime, Session) {
    let (runtime, mut session) = open_journaled(folder);
    session.set_runs_definitions(true);
    (runtime, session)
}

const DEFINITIONS: [(&str, &str); 2] = [
    ("v", "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM sequence(rate => 100)"),
    (
        "s",
        "CREATE SINK s WITH (path = 'DIR/s.csv', overwrite = true) AS SELECT value FROM sequence(rate => 100)",
    ),
];

fn create(folder: &Path, session: &mut Session) {
    for (_, text) in DEFINITIONS {
        define(session, &text.replace("DIR", &folder.display().to_string()));
    }
}

#[test]
fn what_was_defined_and_not_started_yet_starts_with_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = open(folder.path());
    create(folder.path(), &mut session);
    // Here it is killed.
    drop((session, runtime));
    let (runtime, mut session) = open(folder.path());
    for (name, _) in DEFINITIONS {
        assert_eq!(runtime.state(name), Ok(QueryState::Running), "{name}");
    }
    define(&mut session, "DROP MATERIALIZED VIEW v; DROP SINK s");
    drop((session, runtime));
    let (runtime, mut session) = open(folder.path());
    for (name, _) in DEFINITIONS {
        assert!(runtime.state(name).is_err(), "{name}");
    }
    // The names are free.
    create(folder.path(), &mut session);
    for (name, _) in DEFINITIONS {
        start(&mut session, name);
    }
    drop((session, runtime));
    let (runtime, _session) = open(folder.path());
    assert_eq!(runtime.state("v"), Ok(QueryState::Running));
}

#[test]
fn what_cannot_be_started_or_is_of_others_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = open(folder.path());
    create(folder.path(), &mut session);
    DEFINITIONS.iter().for_each(|(name, _)| runtime.withdraw(name, "it is a test").unwrap());
    // Whoever starts by hand announces nothing.
    session.set_runs_definitions(false);
    define(&mut session, "CREATE MATERIALIZED VIEW later AS SELECT 1 AS n");
    session.set_runs_definitions(true);
    define(&mut session, "CREATE MATERIALIZED VIEW IF NOT EXISTS later AS SELECT 2 AS n");
    assert!(execute(&mut session, "CREATE MATERIALIZED VIEW later AS SELECT 3 AS n").is_err());
    drop((session, runtime));
    let (runtime, _session) = open(folder.path());
    for name in ["v", "s", "later"] {
        assert!(runtime.state(name).is_err(), "{name}");
    }
    assert_eq!(runtime.withdraw("nothing", "it is a test"), Ok(()));
}
