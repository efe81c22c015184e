//! A process that is killed again and again while it stops, starts and alters a sink: the sink is as it was answered, and has each
//! row once at the end. The process that is killed is this test's own executable.

use crate::fed;

use std::env;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tidemill_service::QueryState;

use crate::fed::until;
use crate::killed_process::KilledProcess;
use crate::runtimes::{open_journaled, start};
use crate::statements::define;

/// Tells the process that it is the one to be killed, and where its database is.
const FOLDER: &str = "TIDEMILL_TEST_DATABASE";

/// Carries out the statements that it reads, and answers each.
#[test]
fn child() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let (runtime, mut session) = open_journaled(Path::new(&folder));
    println!("\nstate {}", runtime.state("copied").unwrap().name());
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        define(&mut session, &line);
        println!("done");
    }
}

fn append(path: &Path, ids: std::ops::Range<u64>) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    ids.for_each(|id| writeln!(file, "{id}").unwrap());
}

#[test]
fn a_killed_process_has_stopped_what_it_said_and_loses_nothing() {
    // By hand: TIDEMILL_KILLS=100.
    let kills: u64 = env::var("TIDEMILL_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (source, target) = (folder.join("in.csv"), folder.join("out.csv"));
    fs::write(&source, "id\n").unwrap();
    {
        let (_runtime, mut session) = open_journaled(folder);
        let script = format!(
            "CREATE SOURCE rows (id BIGINT) WITH (path = '{}', follow = true, durable = true);
             CREATE SINK copied WITH (path = '{}') AS SELECT id FROM rows;
             CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM rows",
            source.display(),
            target.display()
        );
        define(&mut session, &script);
        ["copied", "total"].into_iter().for_each(|name| start(&mut session, name));
    }
    let mut random = Rng::with_seed(11);
    let (mut written, mut state) = (0, vec![QueryState::Running]);
    for kill in 0..kills {
        let mut killed = KilledProcess::start("killed_stops::child", FOLDER, folder);
        let found = killed.line_where(|line| line.starts_with("state "));
        let found = *state
            .iter()
            .find(|state| found == format!("state {}", state.name()))
            .unwrap_or_else(|| panic!("{found}, but it can only be one of {state:?}"));
        // The state after each answer.
        let (mut states, mut steps) = (vec![found], String::new());
        for _ in 0..8 {
            let (step, next) = match (states[states.len() - 1], random.u64(..3)) {
                (now, 0) => ("ALTER SINK copied SET (max_latency = '1 s')", now),
                (QueryState::Running, _) => ("STOP SINK copied", QueryState::Stopped),
                _ => ("START SINK copied", QueryState::Running),
            };
            steps += &format!("{step}\n");
            states.push(next);
        }
        killed.input.write_all(steps.as_bytes()).unwrap();
        let waited_for = usize::from(kill % 2 == 0);
        (0..waited_for).for_each(|_| killed.wait_for("done"));
        for _ in 0..4 {
            append(&source, written..written + 5);
            written += 5;
            thread::sleep(Duration::from_micros(random.u64(..40_000)));
        }
        let done = waited_for + killed.kill();
        state = states[done..states.len().min(done + 2)].to_vec();
    }
    let (runtime, mut session) = open_journaled(folder);
    define(&mut session, "START SINK copied");
    let rows = || -> Vec<u64> {
        let text = fs::read_to_string(&target).unwrap_or_default();
        text.lines().skip(1).map(|id| id.parse().unwrap()).collect()
    };
    until("every row is there", || rows().len() as u64 >= written);
    assert_eq!(rows(), (0..written).collect::<Vec<_>>());
    assert!(runtime.close(fed::PATIENCE).is_empty());
}
