//! Commands that run while the test does something else.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Ended;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a command with pipes to the test.
pub fn start(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Ctrl-C, as soon as the process does something about it: right after its start it would end at once.
pub fn interrupt(child: &Child) {
    wait_until("Ctrl-C is expected", || expects_interrupt(child).unwrap_or(true));
    signal(child, "INT");
}

/// Whether a process has a handler for Ctrl-C, or has ended; `None`: the system does not tell.
fn expects_interrupt(child: &Child) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let caught = u64::from_str_radix(value("SigCgt:")?, 16).ok()?;
    // SIGINT is number 2.
    Some(caught & 0b10 != 0 || value("State:")?.starts_with('Z'))
}

/// Sends the signal of this name.
pub fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").arg("-c").arg(kill).status().expect("a shell").success());
}

/// The signal of a terminal that is closed. Where the tests themselves were started to outlive their terminal (`nohup`),
/// what they start ignores that signal as well; the request to end then takes its place, and the test says so.
pub fn hang_up() -> &'static str {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & 1 == 0 {
        return "HUP";
    }
    println!("skipped: SIGHUP is ignored here, so SIGTERM is sent instead");
    "TERM"
}

/// Waits until a condition is met.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end, which is to come soon. What was not read of the output must fit into a pipe.
#[track_caller]
pub fn end(mut child: Child) -> Ended {
    let start = Instant::now();
    while child.try_wait().expect("its state can be asked for").is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().expect("it can be ended");
            panic!(
                "it did not end by itself: {:?}",
                Ended::from(child.wait_with_output().expect("its output"))
            );
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("its output").into()
}
