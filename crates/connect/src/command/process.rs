//! One run of a program.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How much of what a program writes to standard error is shown.
const SHOWN_BYTES: usize = 300;
/// How often it is looked whether the program has ended, first and later.
const LOOK_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// How long standard error is waited for once the program has ended: something else may hold it open.
const ERRORS_WAIT: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Accepted,
    Failed(String),
    Stopped,
}

/// Runs a command by the shell, with this text as its standard input.
pub(super) fn run(
    command: &str,
    variables: &[(&str, &str)],
    input: &Arc<[u8]>,
    timeout: Duration,
    is_stopped: impl Fn() -> bool,
) -> std::io::Result<Ended> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).envs(variables.iter().copied());
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A group of its own, so that all that it has started can be ended.
    let mut child = shell.process_group(0).spawn()?;
    let stdin = child.stdin.take();
    let text = Arc::clone(input);
    let writing = move || {
        // A program that does not read everything may have seen enough.
        let _ = stdin.map(|mut stdin| stdin.write_all(&text));
    };
    thread::Builder::new().name("command input".into()).spawn(writing)?;
    let errors = read_errors(&mut child)?;
    let until = Instant::now() + timeout;
    let mut pause = LOOK_INTERVALS.0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status, &errors));
        }
        let is_late = Instant::now() >= until;
        if is_late || is_stopped() {
            kill(&mut child);
            return Ok(if is_late {
                Ended::Failed(format!("it did not end within {timeout:?} (timeout) and was killed"))
            } else {
                Ended::Stopped
            });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK_INTERVALS.1);
    }
}

/// Reads standard error to its end, on its own thread, and keeps the end of it.
fn read_errors(child: &mut Child) -> std::io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = channel();
    let stderr = child.stderr.take();
    let reading = move || {
        let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
        let Some(mut stderr) = stderr else { return };
        while let Ok(length @ 1..) = stderr.read(&mut piece) {
            kept.extend_from_slice(&piece[..length]);
            let surplus = kept.len().saturating_sub(SHOWN_BYTES);
            kept.drain(..surplus);
        }
        let _ = sender.send(kept);
    };
    thread::Builder::new().name("command errors".into()).spawn(reading)?;
    Ok(receiver)
}

fn ended(status: ExitStatus, errors: &Receiver<Vec<u8>>) -> Ended {
    if status.success() {
        return Ended::Accepted;
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it did not end cleanly".to_owned(),
    };
    let errors = errors.recv_timeout(ERRORS_WAIT).unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    let words: Vec<&str> = errors.split_whitespace().collect();
    if words.is_empty() { Ended::Failed(how) } else { Ended::Failed(format!("{how}: {}", words.join(" "))) }
}

/// Ends the program and all that it has started.
fn kill(child: &mut Child) {
    let group = format!("-{}", child.id());
    let killed = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    if !killed.is_ok_and(|status| status.success()) {
        let _ = child.kill();
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn ended(command: &str, timeout: Duration) -> Ended {
        let input = Arc::from(vec![b'x'; 1 << 20]);
        run(command, &[("NAME", "value")], &input, timeout, || false).unwrap()
    }

    #[test]
    fn how_a_program_ends_decides() {
        assert_eq!(ended("test $(wc -c) -eq 1048576 && test $NAME = value", LONG), Ended::Accepted);
        // It reads nothing of what is more than a pipe holds.
        assert_eq!(ended("exit 0", LONG), Ended::Accepted);
        let failed = Ended::Failed("it ended with status 3: no such place".to_owned());
        assert_eq!(ended("echo no such >&2; echo place >&2; exit 3", LONG), failed);
        assert_eq!(ended("kill -TERM $$", LONG), Ended::Failed("it was ended by signal 15".to_owned()));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let command = format!("sleep 1000 & echo $! >{}; wait", file.display());
        let Ended::Failed(text) = ended(&command, Duration::from_secs(1)) else { panic!("it ended") };
        assert!(text.contains("was killed"), "{text}");
        let pid = std::fs::read_to_string(&file).unwrap();
        let start = Instant::now();
        // Killed, or at least only waiting to be collected.
        let lives = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            status.is_ok_and(|status| !status.contains(") Z "))
        };
        while lives() {
            assert!(start.elapsed() < LONG, "it lives");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
