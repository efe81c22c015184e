//! A runtime that is killed again and again has, after each restart, what was answered: each definition, each query that
//! runs, and no query that was stopped. The process that is killed is this test's own executable.

use std::collections::BTreeMap;
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
use crate::runtimes::{open, open_session, planner, start};
use crate::statements::define;

/// Tells the process that it is the one to be killed, and where its catalogue is.
const FOLDER: &str = "TIDEMILL_TEST_CATALOGUE";
const NAMES: [&str; 3] = ["one", "two", "three"];
const RUNS: u64 = 25;
const STEPS: usize = 12;

/// Carries out the steps that it reads, and answers each.
#[test]
fn child() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let (runtime, mut session) = open_session(planner(), Path::new(&folder));
    // The harness has written the test's name.
    println!();
    for name in NAMES {
        let is_defined = runtime.catalog().has_output(name);
        let is_running = runtime.state(name) == Ok(QueryState::Running);
        println!("{name} {is_defined} {is_running}");
    }
    println!("ready");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (step, name) = line.split_once(' ').unwrap();
        match step {
            "create" => define(
                &mut session,
                &format!(
                    "CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM sequence(rate => 100)"
                ),
            ),
            "drop" => define(&mut session, &format!("DROP MATERIALIZED VIEW {name}")),
            "start" => start(&mut session, name),
            "stop" => {
                runtime.stop(name).unwrap();
                runtime.wait(name).unwrap();
            }
            _ => panic!("{line}"),
        }
        println!("done");
    }
}

/// Whether each name is defined, and whether its query runs.
type State = BTreeMap<String, (bool, bool)>;

/// The state after its start.
fn state_of(killed: &mut KilledProcess) -> State {
    let mut state = State::new();
    loop {
        let line = killed.line_where(|_| true);
        if line == "ready" {
            return state;
        }
        if let [name, is_defined, is_running] = line.split(' ').collect::<Vec<_>>()[..]
            && NAMES.contains(&name)
        {
            state.insert(name.to_owned(), (is_defined == "true", is_running == "true"));
        }
        assert!(!line.starts_with("test result"), "the child has ended");
    }
}

/// A step that is possible, and the state after it.
fn step(state: &State, random: &mut Rng) -> (String, State) {
    let name = NAMES[random.usize(..NAMES.len())];
    let (step, after) = match (state[name], random.u64(..2)) {
        ((false, _), _) => ("create", (true, false)),
        ((true, true), 0) => ("stop", (true, false)),
        ((true, false), 0) => ("start", (true, true)),
        ((true, _), _) => ("drop", (false, false)),
    };
    let mut next = state.clone();
    next.insert(name.to_owned(), after);
    (format!("{step} {name}"), next)
}

#[test]
fn a_killed_runtime_has_everything_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let mut random = Rng::with_seed(7);
    let mut possible = vec![NAMES.iter().map(|name| ((*name).to_owned(), (false, false))).collect::<State>()];
    let mut steps_done = 0;
    for run in 0..RUNS {
        let mut killed = KilledProcess::start("killed::child", FOLDER, &path);
        let state = state_of(&mut killed);
        assert!(possible.contains(&state), "run {run}: {state:?} is none of {possible:?}");
        let mut states = vec![state];
        let mut steps = String::new();
        for _ in 0..STEPS {
            let (line, next) = step(&states[states.len() - 1], &mut random);
            steps += &format!("{line}\n");
            states.push(next);
        }
        killed.input.write_all(steps.as_bytes()).unwrap();
        // On a loaded machine, none may come before a random moment.
        let waited_for = usize::from(run % 5 == 0);
        (0..waited_for).for_each(|_| killed.wait_for("done"));
        thread::sleep(Duration::from_micros(random.u64(..30_000)));
        let done = waited_for + killed.kill();
        steps_done += done;
        // The step that was not answered may be done, or half of it: a query ends before its view is dropped.
        possible = states[done..states.len().min(done + 2)].to_vec();
        if let [before, after] = &possible[..] {
            let mut half = before.clone();
            for (name, state) in half.iter_mut().filter(|(name, _)| before[*name] != after[*name]) {
                *state = if after[name].0 { *state } else { (state.0, false) };
            }
            possible.push(half);
        }
    }
    assert!(steps_done > 0, "every process was killed before its first answer");
}

/// A durable query continues where the killed process left it: each row of a followed file is written once.
#[test]
fn a_durable_query_goes_on_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("in.csv"), "id\n").unwrap();
    {
        let (_runtime, mut session) = open_session(planner(), Path::new(&at("catalogue")));
        let script = format!(
            "SET journal = '{}'; SET snapshot_every = '20 ms';
             CREATE SOURCE rows (id BIGINT) WITH (path = '{}', follow = true, durable = true);
             CREATE SINK copied WITH (path = '{}') AS SELECT id FROM rows",
            at("journal"),
            at("in.csv"),
            at("out.csv")
        );
        define(&mut session, &script);
        start(&mut session, "copied");
    }
    let mut random = Rng::with_seed(11);
    let mut written = 0;
    for _ in 0..6 {
        let mut killed = KilledProcess::start("killed::child", FOLDER, Path::new(&at("catalogue")));
        state_of(&mut killed);
        for _ in 0..3 {
            let mut file = fs::OpenOptions::new().append(true).open(at("in.csv")).unwrap();
            for _ in 0..5 {
                writeln!(file, "{written}").unwrap();
                written += 1;
            }
            thread::sleep(Duration::from_micros(random.u64(..60_000)));
        }
        killed.kill();
    }
    let runtime = open(planner(), Path::new(&at("catalogue")));
    assert!(runtime.recovered("copied").unwrap().is_some());
    let expected: Vec<String> = (0..written).map(|id| id.to_string()).collect();
    until("every row is there", || {
        let text = fs::read_to_string(at("out.csv")).unwrap_or_default();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert!(rows.len() <= expected.len(), "{rows:?}");
        rows == expected
    });
    runtime.stop("copied").unwrap();
    runtime.wait("copied").unwrap();
}
