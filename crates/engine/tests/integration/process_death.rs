//! However a process of a run ends, the whole run ends, the failure says what happened, and no process is left.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::processes::{assert_none_left, kill, living, plan, processes, token};
use crate::fixture::sink::Remember;
use crate::fixture::{chunk, eventually, numbered, watched};
use tidemill_engine::{Cause, CyclePolicy, Engine, Failure, FlowError, Gateway, Running};
use tidemill_testing::random::Random;

fn start(count: usize, name: &str, token: &str, sink: &Remember) -> (Running, Gateway) {
    let engine = Engine::new().processes(processes(count, name, token)).cycles(CyclePolicy::fixed(100));
    let mut running = engine.run(plan(name), sink.boxed()).unwrap();
    let gateway = running.gateway(0).unwrap();
    (running, gateway)
}

/// Pushes until the query has stopped, or until all rows are pushed.
fn push_rows(gateway: &Gateway, rows: u32) {
    for number in 0..rows / 100 {
        if gateway.push(chunk(&numbered(number * 100..number * 100 + 100))).is_err() {
            return;
        }
    }
}

/// Pushes the rows before those at which an operator hangs, then those rows.
fn push_until_it_hangs(gateway: &Gateway, sink: &Remember) {
    push_rows(gateway, 200);
    eventually("the rows before", || sink.committed() == 2);
    gateway.push(chunk(&numbered(200..300))).unwrap();
    std::thread::sleep(Duration::from_millis(100));
}

/// The failure of a run that ends by itself while rows are pushed.
fn failure(count: usize, name: &'static str) -> Failure {
    watched(name, move || {
        let token = token();
        let sink = Remember::default();
        let (running, gateway) = start(count, name, &token, &sink);
        push_rows(&gateway, 3000);
        drop(gateway);
        let Err(FlowError::Failed(failure)) = running.join() else { panic!("{name}: it does not fail") };
        assert!(living(&token).is_empty(), "all have ended when the failure is told");
        failure
    })
}

#[test]
fn an_operator_that_fails_in_another_process_is_named_with_it() {
    // Partition 0 lives in process 0, partition 5 in process 1.
    let mut processes = Vec::new();
    for (name, partition) in [("at 2023 fail", 2023 % 7), ("at 2028 fail", 2028 % 7)] {
        let Failure::Operator(error) = failure(2, name) else { panic!("another failure") };
        assert_eq!((error.operator.as_str(), error.partition, error.cycle), ("forward", partition, 20));
        processes.push(error.cause);
    }
    let own = Cause::user("it is full");
    assert_eq!(processes, [own, Cause::user("in process 1: it is full")]);
}

#[test]
fn an_operator_that_panics_in_another_process_is_named_with_it() {
    let Failure::Operator(error) = failure(3, "at 2025 panic") else { panic!("another failure") };
    assert_eq!(error.cause, Cause::bug("in process 2: on purpose"));
    assert_eq!((error.operator.as_str(), error.cycle), ("forward", 20));
}

#[test]
fn a_process_that_ends_in_any_way_is_named_with_its_end() {
    let ends = [
        (
            "at 2028 exit",
            "process 1: it ended before the query (exit status: 3); its standard error says why",
        ),
        (
            "at 2028 abort",
            "process 1: it was killed by signal 6 before the end of the query; start the query again",
        ),
    ];
    for (name, text) in ends {
        assert_eq!(failure(2, name).to_string(), text);
    }
}

#[test]
fn a_process_that_is_killed_ends_the_run_and_the_others() {
    for count in [2, 3, 4] {
        watched("a killed process", move || {
            let (token, sink) = (token(), Remember::default());
            let (running, gateway) = start(count, "forward", &token, &sink);
            push_rows(&gateway, 1000);
            eventually("some cycles", || sink.committed() > 3);
            let pids = living(&token);
            assert_eq!(pids.len(), count - 1);
            kill(pids[0]);
            let start = Instant::now();
            eventually("the failure", || running.has_failed());
            println!("known after {:?}", start.elapsed());
            let Err(FlowError::Failed(failure)) = running.join() else { panic!("it does not fail") };
            println!("all ended after {:?}", start.elapsed());
            let text = failure.to_string();
            assert!(text.starts_with("process ") && text.contains(": it was killed by signal 9"), "{text}");
            assert!(living(&token).is_empty());
            assert!(gateway.push(chunk(&numbered(0..1))).is_err());
        });
    }
}

#[test]
fn one_that_is_stopped_does_not_keep_the_others_from_ending() {
    watched("a stopped process", || {
        let (token, sink) = (token(), Remember::default());
        let (running, gateway) = start(3, "forward", &token, &sink);
        push_rows(&gateway, 500);
        let pids = living(&token);
        let status = Command::new("kill").args(["-STOP", &pids[0].to_string()]).status().unwrap();
        assert!(status.success());
        running.abort();
        assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Aborted))));
        assert!(living(&token).is_empty());
    });
}

#[test]
fn one_that_hangs_in_an_operator_does_not_keep_the_others_from_ending() {
    watched("a hanging operator", || {
        let (token, sink) = (token(), Remember::default());
        let (running, gateway) = start(2, "at 227 hang", &token, &sink);
        // 227 is of partition 3, which lives in process 1.
        push_until_it_hangs(&gateway, &sink);
        running.abort();
        assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Aborted))));
        assert!(living(&token).is_empty());
    });
}

/// Process 0 of an endless run, as a process that can be killed.
#[test]
fn leader() {
    let Ok(run) = std::env::var("TIDEMILL_TEST_LEADER") else { return };
    let (name, token) = run.split_once('/').unwrap();
    let sink = Remember::default();
    let (_running, gateway) = start(3, name, token, &sink);
    push_until_it_hangs(&gateway, &sink);
    println!("it runs");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn no_process_survives_the_first_one() {
    // Idle ones, and one that hangs in an operator: 228 is of partition 4, which lives in process 1 of 3.
    for name in ["forward", "at 228 hang"] {
        watched("a killed parent", move || {
            let token = token();
            let mut leader = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "process_death::leader", "--nocapture"])
                .env("TIDEMILL_TEST_LEADER", format!("{name}/{token}"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let output = std::io::BufReader::new(leader.stdout.take().unwrap());
            let mut lines = std::io::BufRead::lines(output).map_while(Result::ok);
            assert!(lines.any(|line| line.ends_with("it runs")));
            assert_eq!(living(&token).len(), 2);
            leader.kill().unwrap();
            leader.wait().unwrap();
            let start = Instant::now();
            assert_none_left(&token);
            println!("none left after {:?}", start.elapsed());
        });
    }
}

#[test]
fn whenever_a_process_is_killed_the_run_ends_and_what_was_committed_is_right() {
    assert_right_when_killed(100, 20_000, 12);
}

/// The process whose rows travel beside Timely's messages.
#[test]
fn whenever_a_process_is_killed_that_gets_long_parcels_the_run_ends_and_what_was_committed_is_right() {
    assert_right_when_killed(10_000, 600_000, 12);
}

/// Kills one of three processes at some moment of a run with this many rows, and cycles and chunks of this size; repeatedly.
fn assert_right_when_killed(cycle: u32, rows: u32, times: u32) {
    let mut random = Random::new(3);
    let push = move |gateway: &Gateway| {
        let chunks = (0..rows / cycle).map(|number| numbered(number * cycle..(number + 1) * cycle));
        // Until the query has stopped.
        chunks.map(|rows| gateway.push(chunk(&rows))).take_while(Result::is_ok).for_each(drop);
    };
    let whole = {
        let sink = Remember::default();
        let mut running =
            Engine::new().cycles(CyclePolicy::fixed(cycle)).run(plan("forward"), sink.boxed()).unwrap();
        push(&running.gateway(0).unwrap());
        running.join().unwrap();
        sink.given()
    };
    for _ in 0..times {
        let (delay_us, victim, whole) = (random.below(60_000), random.below(2) as usize, whole.clone());
        watched("a kill at some moment", move || {
            let (token, sink) = (token(), Remember::default());
            let engine = Engine::new().processes(processes(3, "forward", &token));
            let mut running =
                engine.cycles(CyclePolicy::fixed(cycle)).run(plan("forward"), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            let pid = living(&token)[victim];
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(delay_us));
                // It may have come to its end.
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
            });
            push(&gateway);
            drop(gateway);
            let result = running.join();
            killer.join().unwrap();
            assert!(living(&token).is_empty());
            match result {
                Ok(_) => assert!(sink.given() == whole),
                Err(error) => {
                    assert!(error.to_string().contains("it was killed by signal 9"), "{error}");
                    assert!(whole.starts_with(&sink.given()), "what was given is a part of the whole");
                }
            }
        });
    }
}
