//! A process whose program was replaced or removed starts the program that it runs.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use tidemill_engine::own_program;

/// What becomes of the program of a process of this test, or `nothing`.
const FATE: &str = "TIDEMILL_TEST_FATE";

fn start(program: &Path, fate: &str) -> bool {
    let mut command = Command::new(program);
    command.args(["--exact", "own_program::a_replaced_program_starts_itself"]).env(FATE, fate);
    command.status().is_ok_and(|status| status.success())
}

/// The program of this process goes, and it starts the next one.
fn lose_program(fate: &str) {
    let path = env::current_exe().unwrap();
    assert_eq!(own_program().unwrap(), path, "nothing has happened yet");
    fs::remove_file(&path).unwrap();
    if fate == "replaced" {
        fs::write(&path, "another program").unwrap();
    }
    assert!(!start(&path, "nothing"), "this is not the program");
    assert!(start(&own_program().unwrap(), "nothing"), "the program could not be started");
}

#[test]
fn a_replaced_program_starts_itself() {
    match env::var(FATE).as_deref() {
        Ok("nothing") => return,
        Ok(fate) => return lose_program(fate),
        Err(_) => {}
    }
    for fate in ["replaced", "removed"] {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(env::current_exe().unwrap(), &copy).unwrap();
        assert!(start(&copy, fate), "{fate}");
    }
}
