//! Running the command, and reading what it wrote.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod child;
pub mod replayed;
pub mod run;
pub mod served;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The types of answers with the index of Emit in their lines.
pub const EMIT_FIELDS: [usize; 4] = [3, 2, 2, 2];
/// The same for Time.
pub const TIME_FIELDS: [usize; 4] = [2, 1, 1, 1];

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).expect("the command writes UTF-8");
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ended {
    /// Fails unless the command ended with this code, and never lets a panic pass.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Fails unless standard error has all of these words.
    #[track_caller]
    pub fn tells(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
        self
    }

    /// Fails unless standard output has all of these words.
    #[track_caller]
    pub fn shows(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.stdout.contains(word), "`{word}` is not in:\n{}", self.stdout);
        }
        self
    }
}

/// `tidemill linear-road` with these arguments, separated by blanks, in a folder.
pub fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    command.current_dir(folder).arg("linear-road").args(arguments.split_whitespace());
    command
}

/// Runs it to its end.
pub fn linear_road(folder: &Path, arguments: &str) -> Ended {
    command(folder, arguments).output().expect("the command starts").into()
}

/// `tidemill` with these arguments in a folder.
pub fn tidemill(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    // What is measured here is not kept for the user.
    command.current_dir(folder).args(arguments).env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Runs it to its end.
pub fn ended(folder: &Path, arguments: &[&str]) -> Ended {
    tidemill(folder, arguments).stdin(Stdio::null()).output().expect("the command starts").into()
}

/// Runs it to its end with a text on standard input.
pub fn ended_with_input(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut child = child::start(tidemill(folder, arguments));
    // A command that ends before it has read everything is not a failure here.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child::end(child)
}

/// A folder with these files.
pub fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// The lines of a file below its first one; none if it does not exist yet. A line that is just being written does not count.
pub fn rows_of(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().skip(1).map(str::to_owned).collect()
}

/// Four clicks, one of them after the window of the others.
pub const CLICKS: &str = "ts,campaign,user_id\n\
    2026-01-01T00:00:01,a,1\n\
    2026-01-01T00:00:02,b,2\n\
    2026-01-01T00:00:03,a,1\n\
    2026-01-01T00:00:14,a,3\n";

/// A folder with traffic in `traffic/`: one expressway over two minutes.
pub fn folder_with_traffic() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    linear_road(folder.path(), "generate --expressways 1 --minutes 2 --peak 300 --out traffic").expect(0);
    folder
}

/// The shared data set, or a word that the test is skipped.
pub fn shared_data() -> Option<PathBuf> {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../../shared/data/linear-road");
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: the shared data set is not here ({})", folder.display());
    None
}

/// The lines of `type<kind>.csv` without Emit, in their order. Fails unless all are whole.
pub fn answers(folder: &Path, kind: usize) -> Vec<String> {
    let path = folder.join(format!("type{kind}.csv"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends within a line", path.display());
    text.lines().map(|line| without_emit(line, kind)).collect()
}

/// The answers of all types.
pub fn all_answers(folder: &Path) -> [Vec<String>; 4] {
    [0, 1, 2, 3].map(|kind| answers(folder, kind))
}

fn without_emit(line: &str, kind: usize) -> String {
    let mut fields: Vec<&str> = line.split(',').collect();
    assert_eq!(fields.len(), [6, 5, 6, 5][kind], "type {kind}: `{line}`");
    fields.remove(EMIT_FIELDS[kind]);
    fields.join(",")
}

/// Second of the input line that an answer without Emit belongs to.
pub fn second_of(answer: &str, kind: usize) -> u32 {
    answer.split(',').nth(TIME_FIELDS[kind]).and_then(|time| time.parse().ok()).expect("a second")
}
