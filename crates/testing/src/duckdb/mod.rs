//! DuckDB, in a process of its own that answers one script after another.

mod compare;
mod value;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub use compare::difference;
use value::unescaped;
pub use value::{Row, Value};

/// A Python with the package `duckdb`. Where it is set, DuckDB must be there.
const INTERPRETER: &str = "TIDEMILL_DUCKDB_PYTHON";

/// See the module. It ends when it is dropped, for its input then ends.
pub struct DuckDb {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Starts it, or says why the test is skipped.
    pub fn start() -> Option<DuckDb> {
        let Some(interpreter) = interpreter() else {
            println!(
                "skipped: there is no DuckDB; .ci/run installs it beside the build, or set {INTERPRETER} to a Python \
                 that has the package duckdb"
            );
            return None;
        };
        // Tests of other packages start it, too.
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let script = Path::new(&package).join("../testing/src/duckdb/server.py");
        let mut process = Command::new(&interpreter)
            .arg("-u")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", interpreter.display()));
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut ready = String::new();
        output.read_line(&mut ready).expect("it can be read");
        assert!(ready.starts_with("ready "), "{} has no DuckDB", interpreter.display());
        Some(DuckDb { process, input, output })
    }

    /// The rows of the script's last statement, or the message of its error.
    pub fn answer(&mut self, script: &str) -> Result<Vec<Row>, String> {
        let input = self.input.as_mut().expect("it is taken at the end only");
        write!(input, "{}\n{script}", script.len())
            .and_then(|()| input.flush())
            .expect("DuckDB takes scripts");
        let head = self.line();
        if let Some(message) = head.strip_prefix("error ") {
            return Err(unescaped(message));
        }
        let count = head.strip_prefix("rows ").and_then(|count| count.parse::<usize>().ok());
        let count = count.unwrap_or_else(|| panic!("DuckDB answered '{head}' to {script}"));
        Ok((0..count).map(|_| self.line().split('\t').map(Value::parse).collect()).collect())
    }

    /// As [`answer`](Self::answer), of a script that is right.
    pub fn run(&mut self, script: &str) -> Vec<Row> {
        self.answer(script).unwrap_or_else(|message| panic!("{message}\n{script}"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("DuckDB writes UTF-8");
        assert!(line.ends_with('\n'), "DuckDB has ended: {line}");
        line.pop();
        line
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.output.read_to_string(&mut String::new());
        let _ = self.process.wait();
    }
}

/// The one that is named, or the one that `.ci/run` installs beside the build.
fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(INTERPRETER) {
        return Some(PathBuf::from(named));
    }
    let test = std::env::current_exe().ok()?;
    test.ancestors().map(|folder| folder.join("tools/duckdb/bin/python3")).find(|path| path.exists())
}
