//! The server as a program in Python sees it with psycopg 3. `TIDEMILL_PSYCOPG_PYTHON` names an interpreter that has it;
//! without the variable, this test says so and passes.

use std::process::Command;

use crate::support::serve;

#[test]
fn a_program_in_python_reads_values_gives_parameters_and_streams() {
    let Some(interpreter) = std::env::var_os("TIDEMILL_PSYCOPG_PYTHON") else {
        eprintln!(
            "skipped: TIDEMILL_PSYCOPG_PYTHON names no interpreter with psycopg (.ci/run installs one)"
        );
        return;
    };
    let server = serve();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/psycopg/session.py");
    let port = server.address().port().to_string();
    let output = Command::new(interpreter).args([program, &port]).output().expect("Python can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told, "done\n", "{wrong}");
}
