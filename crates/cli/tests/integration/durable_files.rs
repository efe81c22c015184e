//! Durable pipelines over files: the command is killed again and again while files grow, are rotated and renamed, and each
//! line is in the sink once.
#![cfg(feature = "sql")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::run::{Run, log};
use crate::support::*;

/// Ends it: in order, or as hard as can be.
fn end(mut run: Run, in_order: bool) {
    run.expect_running();
    if in_order { run.interrupt() } else { run.kill() }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The ids in the sink, in its order.
fn ids(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("out.csv")).unwrap_or_default();
    // The last line may be being written.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().skip(1).map(|line| line.trim_matches('"').parse().unwrap()).collect()
}

fn script(source: &str, id: &str) -> String {
    format!(
        "CREATE SOURCE f {source};\nSET snapshot_every = '20 ms';\n\
         CREATE SINK out AS SELECT {id} AS id FROM f WITH (connector = 'file', path = 'out.csv');\n"
    )
}

/// Runs the pipeline through `rounds`, each of which writes some lines; ends it at another point of each.
fn survive(source: &str, id: &str, rounds: u64, mut write: impl FnMut(&Path, u64) -> u64) {
    let folder = folder_with(&[("p.sql", &script(source, id))]);
    fs::create_dir(folder.path().join("in")).unwrap();
    let (path, mut due) = (folder.path(), 0);
    for round in 0..rounds {
        let run = Run::begin(path);
        due += write(path, round);
        match round % 3 {
            // At any moment: while it starts, reads, or commits.
            0 => std::thread::sleep(Duration::from_millis(round * 37 % 400)),
            1 => wait_until("some rows are there", || ids(path).len() as u64 > due / 2),
            _ => wait_until("all rows are there", || ids(path).len() as u64 >= due),
        }
        // What is written while it is down is found, too.
        end(run, round % 6 == 5);
        due += write(path, round + 1000);
    }
    let run = Run::begin(path);
    wait_until("all rows are there", || ids(path).len() as u64 >= due);
    end(run, true);
    let mut found = ids(path);
    found.sort_unstable();
    assert_eq!(found, (0..due).collect::<Vec<_>>(), "{}", log(path));
}

/// Appends this many lines, with consecutive numbers.
fn append_lines(path: &Path, next: &mut u64, count: u64, line: impl Fn(u64) -> String) -> u64 {
    let text: String = (*next..*next + count).map(|id| line(id) + "\n").collect();
    *next += count;
    append(path, &text);
    count
}

#[test]
fn a_followed_file_that_is_rotated_counts_each_line_once() {
    let source = "(id BIGINT) WITH (path = 'in/f.json', follow = true, durable = true)";
    let (mut next, mut first) = (0, 0);
    survive(source, "id", 12, |folder, round| {
        let path = folder.join("in/f.json");
        let line = |id| format!("{{\"id\": {id}}}");
        let mut written = append_lines(&path, &mut next, 300 + round % 7, line);
        // A file that is rotated before the source has begun to read it is not known by anything.
        if ids(folder).into_iter().any(|id| id >= first) {
            fs::rename(&path, folder.join(format!("in/f.json.{round}"))).unwrap();
            first = next;
            written += append_lines(&path, &mut next, 11, line);
        }
        written
    });
}

#[test]
fn a_followed_folder_counts_each_line_once() {
    let source = "(id BIGINT, name VARCHAR) WITH (path = 'in/*.csv', follow = true, durable = true)";
    let mut next = 0;
    survive(source, "id", 12, |folder, round| {
        // A new file that sorts first, a file that grows, and one that gets another name.
        let named = |name: String| folder.join("in").join(name);
        let add = |path: PathBuf, next: &mut u64, count: u64| {
            if !path.exists() {
                append(&path, "name,id\n");
            }
            append_lines(&path, next, count, |id| format!("\"line\n{id}\",{id}"))
        };
        let mut written = add(named(format!("a{:04}.csv", 9999 - round)), &mut next, 20);
        written += add(named("m.csv".into()), &mut next, 100);
        if round % 5 == 4 {
            fs::rename(named("m.csv".into()), named(format!("z{round}.csv"))).unwrap();
        }
        written
    });
}

#[test]
fn followed_lines_are_numbered_on() {
    let source = "WITH (path = 'in/f.log', format = 'lines', follow = true, durable = true)";
    let mut next = 0;
    survive(source, "CAST(line AS BIGINT) + line_number - CAST(line AS BIGINT) - 1", 6, |folder, _| {
        append_lines(&folder.join("in/f.log"), &mut next, 500, |id| id.to_string())
    });
}

#[test]
fn a_folder_that_ends_is_gone_on_with_file_by_file() {
    let script = script("(id BIGINT) WITH (path = 'in/', format = 'csv', durable = true)", "id");
    let folder = folder_with(&[("p.sql", &script)]);
    let file = |name: &str| folder.path().join("in").join(name);
    fs::create_dir(folder.path().join("in")).unwrap();
    fs::write(file("m.csv"), "id\n0\n1\n").unwrap();
    fs::write(file("n.csv"), "id\n2\n").unwrap();
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    // One that sorts first, one that grew, one that has another name, one that was moved away.
    fs::write(file("a.csv"), "id\n3\n").unwrap();
    append(&file("m.csv"), "4\n");
    fs::rename(file("n.csv"), file("b.csv")).unwrap();
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    assert_eq!(ids(folder.path()), [0, 1, 2, 3, 4]);
    fs::remove_file(file("a.csv")).unwrap();
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    assert_eq!(ids(folder.path()), [0, 1, 2, 3, 4]);

    fs::write(file("m.csv"), "id\n0\n7\n4\n5\n").unwrap();
    let refused = ended(folder.path(), &["run", "p.sql"]).expect(2);
    refused.tells(&["m.csv", "has changed since its rows were journaled"]);
    assert_eq!(ids(folder.path()), [0, 1, 2, 3, 4]);
}

/// The number of the query in the keys that the pipeline has handed to its command, once there are as many as `keys`.
fn identity(folder: &Path, keys: usize) -> String {
    let found = || fs::read_to_string(folder.join("keys.txt")).unwrap_or_default();
    let run = Run::begin(folder);
    wait_until("the command has had its rows", || found().lines().count() >= keys);
    end(run, true);
    let text = found();
    let mut identities: Vec<&str> = text.lines().map(|key| key.split('-').nth(1).unwrap()).collect();
    identities.dedup();
    assert_eq!(identities.len(), 1, "{text}");
    identities[0].to_owned()
}

#[test]
fn keys_tell_two_pipelines_with_one_script_apart() {
    let script = "CREATE SOURCE f (id BIGINT) WITH (path = 'in.csv', follow = true, durable = true);\n\
                  CREATE SINK alerts FROM f WITH (connector = 'command', command = 'cat > /dev/null; \
                  echo $TIDEMILL_KEY >> keys.txt');\n";
    let folders = [(); 2].map(|()| folder_with(&[("p.sql", script), ("in.csv", "id\n1\n")]));
    let first = folders.each_ref().map(|folder| identity(folder.path(), 1));
    assert_ne!(first[0], first[1]);
    append(&folders[0].path().join("in.csv"), "2\n");
    assert_eq!(identity(folders[0].path(), 2), first[0], "after a restart, too");
}
