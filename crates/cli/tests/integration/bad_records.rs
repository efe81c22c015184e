//! Records that sources cannot read: in a file of dead letters, for each kind of source, across kill -9, and on a full disk.
#![cfg(feature = "sql")]

use crate::support;
use tidemill_testing::file_server;
use tidemill_testing::ports;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::support::child::wait_until;
use crate::support::run::{Run, log};
use crate::support::*;

/// A good record, one whose value has the wrong type, one that is not UTF-8, and a good one.
const RECORDS: &[u8] = b"{\"n\":1}\n{\"n\":\"x\"}\ncaf\xe9\n{\"n\":2}\n";

fn script(options: &str) -> String {
    format!(
        "CREATE SOURCE s (n BIGINT) WITH ({options}, dead_letters = 'bad.ndjson');\n\
         SET snapshot_every = '20 ms';\n\
         CREATE SINK out AS SELECT n FROM s WITH (connector = 'file', path = 'out.csv');\n"
    )
}

/// Place, reason and record of each letter.
fn letters(folder: &Path) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(folder.join("bad.ndjson")).unwrap_or_default();
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let letter = |line: &str| {
        let letter: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&letter["version"], &letter["source"]), (&1.into(), &"s".into()));
        let text = |name: &str| letter[name].as_str().map_or(String::new(), str::to_owned);
        (text("place"), text("reason"), text("record") + &letter["row"].to_string().replace("null", ""))
    };
    let mut letters: Vec<_> = whole.lines().map(letter).collect();
    // Those of a block come in no particular order.
    letters.sort();
    letters
}

/// The rows in the sink, once they are whole.
fn rows(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("out.csv")).unwrap_or_default();
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().skip(1).map(str::to_owned).collect()
}

/// The letters of [`RECORDS`]; their places contain this.
#[track_caller]
fn assert_letters(folder: &Path, places: [&str; 2]) {
    let found = letters(folder);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].0.contains(places[0]) && found[1].0.contains(places[1]), "{found:?}");
    assert_eq!((&*found[0].1, &*found[0].2), ("column 'n': 'x' is not a BIGINT", "{\"n\":\"x\"}"));
    assert_eq!((&*found[1].1, &*found[1].2), ("bytes that are not UTF-8", "caf\\xe9"));
}

/// Runs until both good rows are there; `send` sends the records, once the source listens.
#[track_caller]
fn live(options: &str, places: [&str; 2], send: impl FnOnce(&Path)) {
    let folder = folder_with(&[("p.sql", &script(options))]);
    let mut run = Run::begin(folder.path());
    send(folder.path());
    run.wait_until("the good rows are there", || rows(folder.path()).len() == 2);
    run.interrupt();
    assert_eq!(rows(folder.path()), ["1", "2"]);
    assert_letters(folder.path(), places);
}

/// Tries until somebody listens.
fn connected<T>(mut connect: impl FnMut() -> std::io::Result<T>) -> T {
    let mut found = None;
    wait_until("somebody listens", || {
        found = connect().ok();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn files_are_read_once_or_followed() {
    for follow in [false, true] {
        for path in ["f.json", "in", "in/*.json"] {
            let options = format!("path = '{path}', format = 'json', follow = {follow}");
            let folder = folder_with(&[("p.sql", &script(&options))]);
            fs::create_dir(folder.path().join("in")).unwrap();
            fs::write(folder.path().join("in/f.json"), RECORDS).unwrap();
            fs::write(folder.path().join("f.json"), RECORDS).unwrap();
            let mut run = Run::begin(folder.path());
            if follow {
                run.wait_until("the good rows are there", || rows(folder.path()).len() == 2);
                run.interrupt();
            } else {
                assert_eq!(run.ended(), Some(0), "{}", log(folder.path()))
            }
            assert_letters(folder.path(), ["f.json, line 2", "f.json, line 3"]);
        }
    }
}

/// The places and texts of the records that cannot be used.
type Bad = [(&'static str, &'static str)];

#[test]
fn each_format_keeps_what_was_sent() {
    let cases: [(&str, &[u8], &Bad); 4] = [
        (
            "csv",
            b"n\r\n1\r\nx\r\n2,3\r\n\"4\r\n",
            &[(", line 3", "x"), (", line 4", "2,3"), (", line 5", "\"4")],
        ),
        ("json", b"{\"n\":1}\r\n[]\r\n", &[(", line 2", "[]")]),
        ("line_protocol", b"m n=1i\r\nm n=\r\nm n=x\n", &[(", line 2", "m n="), (", line 3", "m n=x")]),
        ("lines", b"good\nb\xffd\r\n", &[(", line 2", "b\\xffd")]),
    ];
    for (format, text, expected) in cases {
        let source = script(&format!("path = 'f', format = '{format}'"));
        let source = source.replace("(n BIGINT) ", if format == "lines" { "" } else { "(n BIGINT) " });
        let source = if format == "lines" { source.replace("SELECT n", "SELECT line") } else { source };
        let statement = match format {
            // Files are not read as line protocol without a connector that says so.
            "line_protocol" => source.replace("path = 'f'", "connector = 'stdin'"),
            _ => source,
        };
        let folder = folder_with(&[("p.sql", &statement)]);
        fs::write(folder.path().join("f"), text).unwrap();
        let mut child = support::child::start(tidemill(folder.path(), &["run", "p.sql"]));
        child.stdin.take().unwrap().write_all(text).unwrap();
        support::child::end(child).expect(0);
        let found = letters(folder.path());
        let places: Vec<(&str, &str)> = found
            .iter()
            .map(|(place, _, record)| (&place[place.rfind(", line").unwrap()..], &**record))
            .collect();
        assert_eq!(places, expected, "{format}");
    }
}

#[test]
fn rows_of_a_parquet_file_are_kept_as_rows() {
    let folder = folder_with(&[
        (
            "make.sql",
            "CREATE SINK f AS SELECT nullif(value, 1) AS n, 'é' AS name FROM sequence(count => 3)
             WITH (path = 'f.parquet');",
        ),
        ("p.sql", ""),
    ]);
    ended(folder.path(), &["run", "make.sql"]).expect(0);
    let source = script("path = 'f.parquet'").replace("(n BIGINT)", "(n BIGINT NOT NULL, name VARCHAR)");
    fs::write(folder.path().join("p.sql"), source).unwrap();
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    let found = letters(folder.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0.ends_with("f.parquet, row 2"), "{found:?}");
    assert_eq!(found[0].2, "{\"n\":}", "the columns that are read");
}

#[test]
fn standard_input_and_pipes() {
    let folder = folder_with(&[("p.sql", &script("connector = 'stdin', format = 'json'"))]);
    let mut child = support::child::start(tidemill(folder.path(), &["run", "p.sql"]));
    child.stdin.take().unwrap().write_all(RECORDS).unwrap();
    support::child::end(child).expect(0);
    assert_letters(folder.path(), ["standard input, line 2", "standard input, line 3"]);

    let folder = folder_with(&[("p.sql", &script("path = 'pipe', format = 'json'"))]);
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let run = Run::begin(folder.path());
    OpenOptions::new().write(true).open(folder.path().join("pipe")).unwrap().write_all(RECORDS).unwrap();
    assert_eq!(run.ended(), Some(0), "{}", log(folder.path()));
    assert_letters(folder.path(), ["pipe, line 2", "pipe, line 3"]);
}

#[test]
fn a_file_that_is_fetched() {
    let server =
        file_server::Server::start(|request, stream| file_server::part(request, stream, RECORDS, "\"one\""));
    let options = format!("path = '{}', format = 'json', allow_remote = true", server.url("f.json"));
    let folder = folder_with(&[("p.sql", &script(&options))]);
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    assert_letters(folder.path(), ["f.json, line 2", "f.json, line 3"]);
}

#[test]
fn sockets_name_who_sent_them() {
    let port = ports::free_port();
    let options = format!("connector = 'tcp', listen = '127.0.0.1:{port}', format = 'json'");
    live(&options, ["127.0.0.1:", ", line 3"], |_| {
        connected(|| TcpStream::connect(("127.0.0.1", port))).write_all(RECORDS).unwrap();
    });
    live("connector = 'unix', listen = 'in.sock', format = 'json'", [", line 2", ", line 3"], |folder| {
        let path = folder.join("in.sock");
        connected(|| UnixStream::connect(&path)).write_all(RECORDS).unwrap();
    });
    let port = ports::free_port();
    let options = format!("connector = 'udp', listen = '127.0.0.1:{port}', format = 'json'");
    live(&options, ["udp 127.0.0.1", "udp 127.0.0.1"], |folder| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Whoever sends before somebody listens is not heard.
        wait_until("the source listens", || !is_free(port) || folder.join("bad.ndjson").exists());
        socket.send_to(RECORDS, ("127.0.0.1", port)).unwrap();
    });
}

fn is_free(port: u16) -> bool {
    UdpSocket::bind(("127.0.0.1", port)).is_ok()
}

fn post(port: u16, path: &str, head: &str, body: &[u8]) -> String {
    let mut stream = connected(|| TcpStream::connect(("127.0.0.1", port)));
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{head}\r\n",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn requests_name_their_sender_and_number() {
    let port = ports::free_port();
    let options = format!("connector = 'http', listen = '127.0.0.1:{port}', format = 'json', durable = true");
    let head = "X-Tidemill-Client: agent\r\nX-Tidemill-Sequence: 7\r\n";
    live(&options, [", request 7 of agent, line 2", ", request 7 of agent, line 3"], |folder| {
        let answer = post(port, "/write", head, RECORDS);
        // The letters are there before the client hears of its rows.
        assert_eq!(letters(folder).len(), 2, "{answer}");
    });
}

#[test]
fn a_row_that_is_refused_for_its_event_time_is_a_letter_too() {
    for (connector, place) in [("tcp", "s"), ("http", ", line 1")] {
        let port = ports::free_port();
        let source = format!(
            "CREATE SOURCE s (n BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (connector = '{connector}', \
             listen = '127.0.0.1:{port}', format = 'json', max_ahead = '1 hour', dead_letters = 'bad.ndjson');\n\
             CREATE SINK out AS SELECT n FROM s WITH (path = 'out.csv');"
        );
        let folder = folder_with(&[("p.sql", &source)]);
        let mut run = Run::begin(folder.path());
        let text = b"{\"n\":1,\"at\":\"2199-01-01T00:00:00\"}\n{\"n\":2,\"at\":\"2026-01-01T00:00:00\"}\n";
        match connector {
            "tcp" => connected(|| TcpStream::connect(("127.0.0.1", port))).write_all(text).unwrap(),
            _ => drop(post(port, "/write", "", text)),
        }
        run.wait_until("the good row is there", || rows(folder.path()) == ["2"]);
        run.interrupt();
        let found = letters(folder.path());
        assert_eq!(found.len(), 1, "{connector}: {found:?}");
        assert!(
            found[0].0.ends_with(place) && found[0].1.contains("ahead of this machine's clock"),
            "{found:?}"
        );
        assert!(found[0].2.contains("\"n\":1"), "{found:?}");
    }
}

#[test]
fn what_is_read_again_after_a_kill_is_written_once() {
    let options = "path = 'f.json', format = 'json', follow = true, durable = true";
    let folder = folder_with(&[("p.sql", &script(options)), ("f.json", "")]);
    let folder = folder.path();
    let mut file = OpenOptions::new().append(true).open(folder.join("f.json")).unwrap();
    let (mut next, rounds) = (0, 9);
    for round in 0..rounds {
        let mut run = Run::begin(folder);
        for part in 0..3 {
            let mut text = String::new();
            for _ in 0..200 {
                // The last lines of a part are bad, so that no row says that they were read.
                text += &format!("{{\"n\":{next}}}\n{{\"n\":\"bad {next}\"}}\n");
                next += 1;
            }
            file.write_all(text.as_bytes()).unwrap();
            if part == round % 3 && round % 2 == 0 {
                run.wait_until("some letters are there", || letters(folder).len() > next / 2);
            }
        }
        match round % 3 {
            0 => run.kill(),
            1 => {
                run.wait_until("all letters are there", || letters(folder).len() >= next);
                run.kill();
            }
            _ => {
                run.wait_until("all rows are there", || rows(folder).len() >= next);
                run.interrupt();
            }
        }
    }
    let mut run = Run::begin(folder);
    run.wait_until("all is there", || rows(folder).len() >= next && letters(folder).len() >= next);
    run.interrupt();
    let found: Vec<String> = letters(folder).into_iter().map(|(_, _, record)| record).collect();
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((found.len(), sorted.len()), (next, next), "{}", log(folder));
    assert_eq!(rows(folder).len(), next);
}

#[test]
fn hostile_records_are_bounded_and_change_no_good_row() {
    let folder = folder_with(&[("p.sql", &script("path = 'f.json', format = 'json'"))]);
    let mut text = b"{\"n\":1}\n".to_vec();
    text.extend(vec![b'x'; 3 << 20]);
    text.extend(b"\n\0\n");
    // More than is kept at a time.
    text.extend(b"]\n".repeat(300_000));
    text.extend(b"{\"n\":2}\n");
    fs::write(folder.path().join("f.json"), text).unwrap();
    let ended = ended(folder.path(), &["run", "p.sql"]).expect(0);
    ended.tells(&["300,002 rows could not be used"]);
    assert_eq!(rows(folder.path()), ["1", "2"]);
    let found = letters(folder.path());
    let of = |place: &str| &found.iter().find(|letter| letter.0 == place).expect(place).2;
    assert_eq!(of("f.json, line 2").len(), 16 * 1024);
    assert_eq!((&**of("f.json, line 3"), &**of("f.json, line 4")), ("\0", "]"));
    assert!(fs::metadata(folder.path().join("bad.ndjson")).unwrap().len() <= 64 << 20);
}

#[test]
fn a_full_disk_holds_the_rows_back_until_there_is_space() {
    let namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"];
    let allowed = Command::new(namespace[0]).args(&namespace[1..]).arg("mount -t tmpfs none /mnt").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not mount a small disk (unshare --map-root-user --mount)");
        return;
    }
    let source = script("path = 'f.json', format = 'json', follow = true, durable = true");
    let folder = folder_with(&[("p.sql", &source.replace("bad.ndjson", "disk/bad.ndjson")), ("f.json", "")]);
    fs::create_dir(folder.path().join("disk")).unwrap();
    // Fills the disk, starts, waits for the notice, looks that no row came, makes room, and waits for the rows.
    let shell = r#"
        mount -t tmpfs -o size=2m none disk
        "$0" run p.sql 2> log & run=$!
        until grep -q '"n"' disk/bad.ndjson 2>/dev/null || [ -f out.csv ]; do sleep 0.05; done
        dd if=/dev/zero of=disk/filler bs=1k count=4000 2> /dev/null
        cat more >> f.json
        until grep -q 'intake pauses' log; do sleep 0.05; done
        wc -l < out.csv > paused
        rm disk/filler
        until grep -q '^2$' out.csv; do sleep 0.05; done
        kill -INT $run; wait $run
        cp disk/bad.ndjson .
    "#;
    let more: String = (0..2000).map(|_| "{\"n\":\"bad\"}\n").collect::<String>() + "{\"n\":2}\n";
    fs::write(folder.path().join("more"), more).unwrap();
    let mut command = Command::new("timeout");
    command.arg("120").args(namespace).arg(shell).arg(env!("CARGO_BIN_EXE_tidemill"));
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{}", log(folder.path()));
    assert_eq!(letters(folder.path()).len(), 2000);
}

#[test]
fn a_source_without_records_has_no_dead_letters() {
    let script = "CREATE SOURCE s WITH (connector = 'generator', function = 'sequence', dead_letters = 'b');";
    let folder = folder_with(&[("p.sql", script)]);
    ended(folder.path(), &["run", "p.sql"]).expect(2).tells(&["this source reads no records"]);
}
