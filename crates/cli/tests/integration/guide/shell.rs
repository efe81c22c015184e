//! Running the commands of a page.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than any command of the guide takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub success: bool,
    /// Standard output and standard error, as they came.
    pub printed: String,
}

/// Runs a command in a folder. Once `interrupted_at` has rows, it gets a Ctrl-C.
pub fn run(folder: &Path, command: &str, interrupted_at: Option<&str>) -> Ended {
    let printed = folder.join(".printed");
    let output = File::create(&printed).expect("a file for what is printed");
    let tools = Path::new(env!("CARGO_BIN_EXE_tidemill")).parent().expect("a folder of the command");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("XDG_CACHE_HOME", folder.join(".cache"))
        // A run warns of bad rows after some seconds: on a slow machine only.
        .env("TIDEMILL_LOG", "off")
        .stdin(Stdio::null())
        // Of its own, so that all that the command has started can be ended.
        .process_group(0)
        .stdout(output.try_clone().expect("the file once more"))
        .stderr(output)
        .spawn()
        .expect("a shell");
    let start = Instant::now();
    let mut interrupt = interrupted_at.map(|name| folder.join(name));
    let success = loop {
        if let Some(status) = child.try_wait().expect("its state can be asked for") {
            // An interrupted command says so with its exit code; the shell around it may end by the signal itself.
            let is_interrupted = status.code() == Some(130) || status.signal() == Some(2);
            break status.success() || (interrupted_at.is_some() && interrupt.is_none() && is_interrupted);
        }
        if interrupt.as_ref().is_some_and(|path| has_rows(path)) {
            interrupt = None;
            signal("INT", child.id());
        }
        if start.elapsed() > PATIENCE {
            signal("KILL", child.id());
            child.wait().expect("its end");
            return Ended { success: false, printed: format!("{}(it did not end)\n", read(&printed)) };
        }
        thread::sleep(Duration::from_millis(10));
    };
    Ended { success, printed: read(&printed) }
}

/// Sends a signal to all processes of a group.
fn signal(name: &str, group: u32) {
    let kill = format!("kill -{name} -{group}");
    assert!(Command::new("sh").arg("-c").arg(kill).status().expect("a shell").success());
}

/// Whether there is something behind the header.
fn has_rows(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 1)
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
