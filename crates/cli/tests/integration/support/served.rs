//! `tidemill serve` with psql as its client.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::child::signal;
use super::tidemill;

/// Whether psql is installed. Where it is not, the test says so and passes; in CI (`TIDEMILL_CLIENTS=required`) it fails.
pub fn has_psql() -> bool {
    let has_psql = Command::new("psql").arg("--version").output().is_ok();
    let is_required = std::env::var("TIDEMILL_CLIENTS").is_ok_and(|value| value == "required");
    assert!(has_psql || !is_required, "psql cannot be run");
    if !has_psql {
        eprintln!("skipped: psql cannot be run");
    }
    has_psql
}

/// What psql writes for a statement: rows without headers, then errors and notices.
pub fn psql(port: &str, statement: &str) -> String {
    let arguments =
        ["-X", "-A", "-t", "-h", "127.0.0.1", "-U", "me", "-d", "db", "-p", port, "-c", statement];
    let output = Command::new("psql").args(arguments).output().expect("psql can be run");
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

/// A server on a free port, which is killed at the latest when this is dropped.
pub struct Served {
    child: Child,
    pub port: String,
}

impl Served {
    /// Serves the database `tides` in a folder.
    pub fn start(folder: &Path) -> Served {
        Served::of(folder, "tides")
    }

    /// Serves a database from a folder.
    pub fn of(folder: &Path, data: &str) -> Served {
        let mut command =
            tidemill(folder, &["serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "off"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("accepts PostgreSQL clients") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the server ends");
            assert!(!line.contains("does not run"), "{line}");
        }
        // Nothing that it writes may hold it up.
        thread::spawn(move || {
            lines.lines().map_while(Result::ok).for_each(|line| eprintln!("server: {line}"));
        });
        let (_, rest) = line.split_once("127.0.0.1:").unwrap();
        Served { child, port: rest.split(';').next().unwrap().to_owned() }
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn psql(&self, statement: &str) -> String {
        psql(&self.port, statement)
    }

    pub fn kill(&mut self) {
        self.end("KILL", None);
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.end("TERM", Some(0));
    }

    /// Sends a signal, and waits for the end with this code.
    #[track_caller]
    pub fn end(&mut self, name: &str, code: Option<i32>) {
        signal(&self.child, name);
        assert_eq!(self.child.wait().unwrap().code(), code);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
