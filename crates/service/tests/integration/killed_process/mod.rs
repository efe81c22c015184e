//! A test's own executable as a second process, which carries out the steps that it reads until it is killed. A test named
//! `child` in the module of the caller is what runs there.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct KilledProcess {
    child: Child,
    /// The steps go here.
    pub input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl KilledProcess {
    /// Starts the test of this name. The variable tells it where its files are.
    pub fn start(test: &str, variable: &str, folder: &Path) -> KilledProcess {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(variable, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        KilledProcess { child, input, output: BufReader::new(output) }
    }

    /// The next line that is wanted.
    pub fn line_where(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child has ended");
            if is_wanted(line.trim_end()) {
                return line.trim_end().to_owned();
            }
        }
    }

    pub fn wait_for(&mut self, expected: &str) {
        self.line_where(|line| line == expected);
    }

    /// Kills it; returns how many answers it has given that were not waited for.
    pub fn kill(mut self) -> usize {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.output.lines().map_while(Result::ok).filter(|line| line == "done").count()
    }
}
