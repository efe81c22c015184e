//! The console's page of gateways, in a real browser: those that answer, and one whose process is stopped.

use std::process::Command;

use super::fleet::Fleet;
use crate::support::child::wait_until;
use crate::support::folder_with;
use tidemill_testing::ports::free_port;

#[test]
fn a_person_sees_which_gateways_answer() {
    let Some(interpreter) = std::env::var_os("TIDEMILL_CONSOLE_PYTHON") else {
        eprintln!(
            "skipped: TIDEMILL_CONSOLE_PYTHON names no interpreter with Playwright (.ci/run installs one)"
        );
        return;
    };
    let folder = folder_with(&[]);
    let address = format!("127.0.0.1:{}", free_port());
    // Options of a server live as long as the program.
    let options: &'static [&'static str] = Vec::leak(vec!["--http", String::leak(address.clone())]);
    let mut fleet = Fleet::start_with(folder.path(), 2, 5, options);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
    let program =
        format!("{}/tests/integration/gateways/console.py", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let pictures = match std::env::var_os("TIDEMILL_CONSOLE_PICTURES") {
        Some(folder) => folder.into(),
        None => folder.path().to_owned(),
    };
    let stopped = fleet.process_of(1);
    let output = Command::new(interpreter)
        .args([&program, &address, &stopped])
        .arg(pictures)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("Python can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told, "done\n", "{wrong}");
}
