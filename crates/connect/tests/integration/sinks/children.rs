//! Children that write and are killed: this test program once more, with one test.

use std::env;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts children, which `set` tells their test and their sink, and kills each until one has printed "all written".
/// Returns how many were killed.
pub fn killed_until_done(set: impl Fn(&mut Command) -> &mut Command) -> u64 {
    for attempt in 0.. {
        let mut command = Command::new(env::current_exe().unwrap());
        let command = set(&mut command).arg("--nocapture").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Somewhere between its start and its end; later the more often that was too early.
        std::thread::sleep(Duration::from_millis(3 + (attempt * 7) % 31 + attempt));
        child.kill().unwrap();
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        child.wait().unwrap();
        assert!(!printed.contains("panicked"), "{printed}");
        if printed.contains("all written") {
            return attempt;
        }
    }
    unreachable!("attempts do not end")
}
