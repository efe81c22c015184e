//! Connectors and formats of a program's own, in SQL: options that they do not know, restarts, and every place where
//! text is taken.

#![allow(dead_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_sql::{Opened, Planner, Reply, parse};

fn planner() -> Planner {
    let mut planner = Planner::new();
    planner.register_source("meter", Arc::new(crate::own_source::MeterConnector));
    planner.register_sink("total", Arc::new(crate::own_sink::TotalConnector));
    planner.register_format("logfmt", Arc::new(crate::own_format::LogfmtFormat));
    planner
}

fn execute(planner: &mut Planner, script: &str) -> Result<(), String> {
    for statement in parse(script, "own.sql").map_err(|error| error.to_string())? {
        planner.execute(&statement).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn opened(script: &str) -> Opened {
    let mut planner = planner();
    execute(&mut planner, script).unwrap();
    planner.pipeline().unwrap().expect("there is a sink").open().unwrap()
}

fn run(script: &str) -> u64 {
    let (status, _) = opened(script).start().unwrap().wait().unwrap();
    status.rows_in()
}

#[test]
fn options_that_they_do_not_know_are_refused() {
    let cases = [
        ("CREATE SOURCE m WITH (connector = 'metre', readings = 1)", "did you mean meter?"),
        ("CREATE SOURCE m WITH (connector = 'meter', reading = 1)", "did you mean readings?"),
        ("CREATE SOURCE m WITH (connector = 'meter')", "option `readings` is missing"),
        (
            "CREATE SOURCE m WITH (connector = 'meter', readings = 'many')",
            "`readings` must be a whole number",
        ),
        (
            "CREATE SOURCE m (n INT) WITH (connector = 'meter', readings = 1)",
            "a meter defines its own columns",
        ),
        (
            "CREATE SOURCE m WITH (connector = 'meter', readings = 1, format = 'csv')",
            "unknown option `format`",
        ),
        (
            "CREATE SOURCE m WITH (connector = 'meter', readings = 1, header = true)",
            "option of the format csv",
        ),
        ("CREATE SINK t WITH (connector = 'total', paht = 'x')", "did you mean path?"),
        ("CREATE SINK t WITH (connector = 'total', path = 'x', readings = 1)", "unknown option `readings`"),
        ("CREATE SINK t WITH (path = 'x', format = 'logfmd')", "did you mean logfmt?"),
        ("CREATE SINK t WITH (path = 'x', format = 'logfmt', sing = ':')", "did you mean sign?"),
        ("CREATE SINK t WITH (path = 'x', format = 'logfmt', header = true)", "the format here is logfmt"),
        ("CREATE SINK t WITH (path = 'x', format = 'logfmt', sign = '::')", "must be one ASCII character"),
    ];
    for (statement, words) in cases {
        let error = execute(&mut planner(), statement).expect_err(statement);
        assert!(error.contains(words) && error.contains("own.sql:1:"), "{statement}:\n{error}");
    }
}

#[test]
fn their_options_are_listed_beside_the_built_in_ones() {
    let groups = planner().option_groups();
    let found = |name: &str, option: &str| {
        let of_name = groups.iter().filter(|group| group.name == name);
        of_name.flat_map(|group| &group.options).any(|listed| listed.name == option)
    };
    assert!(found("meter", "readings") && found("total", "path") && found("logfmt", "sign"));
    let mut planner = planner();
    let statement = parse("SHOW CONNECTORS", "own.sql").unwrap().remove(0);
    let Ok(Reply::Rows(rows)) = planner.execute(&statement) else { panic!("rows") };
    // Row by row, because of many rows only the first and the last are written.
    let shown = |row| format!("{:?}", rows.slice(row, 1));
    assert!((0..rows.num_rows()).any(|row| shown(row).contains("the readings of a meter")));
}

/// Each run has a longer meter than the one before, and takes in only what is new.
#[test]
fn an_own_source_goes_on_from_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let script = |readings: u64| {
        format!(
            "SET journal = '{0}/journal';
             CREATE SOURCE meter WITH (connector = 'meter', readings = {readings}, durable = true);
             CREATE SINK numbers AS SELECT number FROM meter WITH (path = '{0}/numbers.csv', header = false);",
            folder.path().display()
        )
    };
    for (readings, new) in [(250, 250), (250, 0), (1_000, 750), (1_001, 1)] {
        assert_eq!(run(&script(readings)), new, "{readings} readings");
    }
    let numbers = fs::read_to_string(folder.path().join("numbers.csv")).unwrap();
    let expected: String = (0..1_001).map(|number| format!("{number}\n")).collect();
    assert_eq!(numbers, expected);
}

/// Files that grow from run to run, and runs that have nothing new.
#[test]
fn an_own_sink_goes_on_from_its_last_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let script = format!(
        "SET journal = '{0}/journal';
         SET cycle_events = 10; SET cycle_fixed = true;
         CREATE SOURCE rows (n BIGINT) WITH (path = '{0}/rows.csv', durable = true);
         CREATE SINK sum FROM rows WITH (connector = 'total', path = '{0}/sum.txt');",
        folder.path().display()
    );
    let mut text = String::from("n\n");
    let mut sum = 0;
    for round in 0..4 {
        for n in round * 35..(round + 1) * 35 {
            text += &format!("{n}\n");
            sum += n;
        }
        fs::write(place("rows.csv"), &text).unwrap();
        run(&script);
        // A second run has nothing new to add.
        assert_eq!(run(&script), 0);
        let written = fs::read_to_string(place("sum.txt")).unwrap();
        assert_eq!(written.split_whitespace().last(), Some(sum.to_string().as_str()), "round {round}");
    }
}

/// What a crash leaves: copies of the sink's file and then of the journal, taken while the query runs. A run from there
/// gives the sink the cycles that it had not committed, and no others.
#[test]
fn an_own_sink_has_each_row_once_after_a_crash() {
    const READINGS: i64 = 300_000;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let script = |folder: &Path| {
        format!(
            "SET journal = '{0}/journal';
             SET cycle_events = 1000; SET snapshot_every = '1 hour';
             CREATE SOURCE meter WITH (connector = 'meter', readings = {READINGS}, durable = true);
             CREATE SINK sum AS SELECT number FROM meter WITH (connector = 'total', path = '{0}/sum.txt');",
            folder.display()
        )
    };
    let [before, after] = folders.each_ref().map(|folder| folder.path());
    let running = opened(&script(before)).start().unwrap();
    while !before.join("sum.txt").exists() && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::copy(before.join("sum.txt"), after.join("sum.txt")).unwrap();
    copy_folder(&before.join("journal"), &after.join("journal"));
    running.wait().unwrap();
    run(&script(after));
    for folder in [before, after] {
        let written = fs::read_to_string(folder.join("sum.txt")).unwrap();
        let sum = READINGS * (READINGS - 1) / 2;
        assert_eq!(written.split_whitespace().last(), Some(sum.to_string().as_str()));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, copy) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            fs::copy(&path, &copy).unwrap();
        }
    }
}

const LINES: &str = "ms=1 message=one\nms=two\n\n# three\nms=4 message=\"four and\" level=warn\n";
const WRITTEN: &str = "ms:1 message:\"one\"\nms:4 message:\"four and\"\n";

/// A pipeline from a source, described by its options, to a file in the own format; runs until the file has the rows.
fn read_by(folder: &Path, options: &str, send: impl FnOnce()) {
    let script = format!(
        "CREATE SOURCE log (ms BIGINT, message VARCHAR) WITH ({options}, format = 'logfmt');
         CREATE SINK out FROM log WITH (path = '{}/out.log', format = 'logfmt', sign = ':', overwrite = true);",
        folder.display()
    );
    let file = folder.join("out.log");
    // It would stay until there is something new, and looks the same.
    let _ = fs::remove_file(&file);
    let running = opened(&script).start().unwrap();
    send();
    let begun = Instant::now();
    while !running.has_ended() && fs::read_to_string(&file).unwrap_or_default() != WRITTEN {
        assert!(begun.elapsed() < Duration::from_secs(60), "{options}: {:?}", fs::read_to_string(&file));
        std::thread::sleep(Duration::from_millis(5));
    }
    running.stop();
    let (status, _) = running.wait().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), WRITTEN, "{options}");
    assert_eq!(status.faults.count, 1, "{options}: {:?}", status.faults.samples);
    let sample = &status.faults.samples[0];
    assert!(sample.contains("line 2") && sample.contains("'two' is not a BIGINT"), "{options}: {sample}");
}

#[test]
fn an_own_format_is_read_from_files_and_written_to_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.txt"), LINES).unwrap();
    let path = folder.path().join("in.txt");
    read_by(folder.path(), &format!("path = '{}'", path.display()), || {});
    read_by(folder.path(), &format!("path = '{}', follow = true", path.display()), || {});
}

#[test]
fn an_own_format_is_read_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    read_by(folder.path(), &format!("connector = 'tcp', listen = '{address}'"), || {
        let mut sender = connected(&address);
        // The pieces end within lines.
        for piece in LINES.as_bytes().chunks(7) {
            sender.write_all(piece).unwrap();
        }
    });
}

#[test]
fn an_own_format_is_read_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    read_by(folder.path(), &format!("connector = 'http', listen = '{address}'"), || {
        let mut client = connected(&address);
        let head =
            "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/x-logfmt\r\n";
        write!(client, "{head}Content-Length: {}\r\n\r\n{LINES}", LINES.len()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("'two' is not a BIGINT"), "{answer}");
    });
}

#[test]
fn an_own_format_fills_a_folder_whose_files_end_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.txt"), folder.path().join("parts"));
    fs::write(&input, LINES).unwrap();
    run(&format!(
        "CREATE SOURCE log (ms BIGINT, message VARCHAR) WITH (path = '{}', format = 'logfmt');
         CREATE SINK out FROM log WITH (connector = 'directory', path = '{}', format = 'logfmt', sign = ':');",
        input.display(),
        output.display()
    ));
    let parts = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path());
    let parts: Vec<_> =
        parts.filter(|path| path.extension().is_some_and(|ending| ending == "logfmt")).collect();
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert_eq!(fs::read_to_string(&parts[0]).unwrap(), WRITTEN);
}

#[test]
fn an_own_format_is_known_by_the_endings_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(place("logs")).unwrap();
    fs::write(place("logs/b.logfmt"), LINES).unwrap();
    let columns = "CREATE SOURCE log (ms BIGINT, message VARCHAR)";
    for (index, path) in ["logs/b.logfmt", "logs", "logs/*.logfmt", "logs/c.LOGFMT"].iter().enumerate() {
        if path.ends_with("LOGFMT") {
            fs::write(place(path), LINES).unwrap();
        }
        let out = place(&format!("out{index}.logfmt"));
        run(&format!(
            "{columns} WITH (path = '{}', sign = '='); CREATE SINK out FROM log WITH (path = '{out}', sign = ':');",
            place(path)
        ));
        assert_eq!(fs::read_to_string(&out).unwrap(), WRITTEN, "{path}");
    }
    // A name wins over an ending, and so does a built-in format where a path does not say another.
    fs::write(place("in.csv"), "ms,message\n7,ready\n").unwrap();
    let out = place("named.logfmt");
    run(&format!(
        "{columns} WITH (path = '{}'); CREATE SINK out FROM log WITH (path = '{out}', format = 'csv');",
        place("in.csv")
    ));
    assert_eq!(fs::read_to_string(&out).unwrap(), "ms,message\n7,ready\n");

    // It does not know its columns, so a query cannot name such a file alone.
    let query = format!("SELECT * FROM '{}'", place("logs/b.logfmt"));
    let error = execute(&mut planner(), &query).unwrap_err();
    assert!(error.contains("the format logfmt does not describe the columns"), "{error}");
}

/// A local address that nobody uses now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn connected(address: &str) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
