//! A pipeline that runs while the test does something else.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::child::{interrupt, wait_until};
use super::{rows_of, tidemill};

/// `tidemill run p.sql` in a folder, where its messages go to the file `log`. It does not outlive the test.
pub struct Run {
    child: Child,
    folder: PathBuf,
}

/// What all runs in a folder have said.
pub fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Starts what is in a folder now, whose journal belongs to another query: that is refused.
#[track_caller]
pub fn expect_other_query(folder: &Path) {
    let before = log(folder).len();
    let refused = Run::begin(folder).ended();
    let told = log(folder)[before..].to_owned();
    assert!(refused == Some(2) && told.contains("belongs to a different query"), "{refused:?} {told}");
}

/// Runs `p.sql` four times, each time with 300 more lines of `orders.csv`, and waits until `out.csv` has the rows
/// that are expected of all ids so far. The runs are killed and ended in order by turns. Returns how many ids there
/// are.
#[track_caller]
pub fn answer_in_four_runs(folder: &Path, expected: impl Fn(u64) -> Vec<String>) -> u64 {
    let mut due = 0;
    for round in 0..4 {
        append_orders(folder, due..due + 300);
        due += 300;
        let mut run = Run::begin(folder);
        run.wait_until("its rows are there", || rows_of(&folder.join("out.csv")) == expected(due));
        match round % 2 {
            0 => run.kill(),
            _ => run.interrupt(),
        }
    }
    due
}

fn append_orders(folder: &Path, ids: Range<u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("orders.csv")).unwrap();
    let lines: String = ids.map(|id| format!("{id},{}\n", id % 100)).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

impl Run {
    /// Starts it.
    pub fn begin(folder: &Path) -> Run {
        let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = tidemill(folder, &["run", "p.sql"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Run { child, folder: folder.to_owned() }
    }

    /// Fails if it has ended.
    #[track_caller]
    pub fn expect_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("it ended by itself ({status}):\n{}", log(&self.folder));
        }
    }

    /// Waits until a condition is met; fails if it ends before.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        wait_until(what, || {
            self.expect_running();
            condition()
        });
    }

    /// Ends it in order.
    #[track_caller]
    pub fn interrupt(mut self) {
        self.expect_running();
        interrupt(&self.child);
        let code = self.child.wait().unwrap().code();
        assert_eq!(code, Some(130), "{}", log(&self.folder));
    }

    /// Ends it as hard as can be: nothing is written or closed any more.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself; its exit code.
    #[track_caller]
    pub fn ended(mut self) -> Option<i32> {
        wait_until("it ends by itself", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
