//! `tidemill serve` with more sessions than the system lets it have open files, and stopped for a while.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::child::signal;
use crate::support::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A command under limits of the shell.
fn limited(folder: &Path, limits: &str, arguments: &str) -> Command {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_tidemill");
    command.args(["-c", &format!("{limits}; exec '{program}' {arguments}")]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server under limits, and its port.
fn serve(folder: &Path, limits: &str, connections: u16) -> (Child, u16) {
    let arguments =
        format!("serve --data tides --listen 127.0.0.1:0 --http off --workers 1 --connections {connections}");
    let mut child = limited(folder, limits, &arguments).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let (_, rest) = line.split_once("127.0.0.1:").unwrap_or_else(|| panic!("no address: {line}"));
    let port = rest.split(';').next().unwrap().parse().unwrap();
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    (child, port)
}

/// A session, or what the server says instead: code and message.
fn session(port: u16) -> Result<TcpStream, Vec<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"\0\0\0\x11\0\x03\0\0user\0me\0\0").unwrap();
    match answer(&mut stream) {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

/// Reads until the server is ready; the fields of an error.
fn answer(stream: &mut TcpStream) -> Option<Vec<String>> {
    messages(stream, |_, _| {})
}

/// Reads until the server is ready, and looks at each message: its kind and its body. The fields of an error.
fn messages(stream: &mut TcpStream, mut look: impl FnMut(u8, &[u8])) -> Option<Vec<String>> {
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("the server answers");
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        stream.read_exact(&mut body).unwrap();
        look(head[0], &body);
        match head[0] {
            b'Z' => return None,
            b'E' => return Some(String::from_utf8(body).unwrap().split('\0').map(str::to_owned).collect()),
            _ => {}
        }
    }
}

fn execute(stream: &mut TcpStream, text: &str) {
    send(stream, text);
    assert_eq!(answer(stream), None, "{text}");
}

fn send(stream: &mut TcpStream, text: &str) {
    let length = (text.len() as u32 + 5).to_be_bytes();
    stream.write_all(&[b"Q", &length[..], text.as_bytes(), b"\0"].concat()).unwrap();
}

/// The only column of the last row of a result, as text.
fn value(stream: &mut TcpStream, query: &str) -> Option<String> {
    send(stream, query);
    let mut value = None;
    // After the number of columns and the length of the first one.
    let error = messages(stream, |kind, body| {
        if kind == b'D' {
            value = Some(String::from_utf8(body[6..].to_vec()).unwrap());
        }
    });
    assert_eq!(error, None, "{query}");
    value
}

#[test]
fn it_takes_as_many_open_files_as_the_system_permits() {
    let folder = folder_with(&[]);
    let (mut server, port) = serve(folder.path(), "ulimit -S -n 64", 150);
    let sessions: Vec<TcpStream> = (0..150).map(|_| session(port).unwrap()).collect();
    let refused = session(port).expect_err("there is one too many");
    assert!(refused.contains(&"C53300".to_owned()), "{refused:?}");
    drop(sessions);
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn sessions_outlive_that_the_server_is_stopped_and_continued() {
    let folder = folder_with(&[]);
    let (mut server, port) = serve(folder.path(), ":", 10);
    let mut stream = session(port).unwrap();
    // In a transaction, a thread waits for what comes next.
    execute(&mut stream, "BEGIN");
    for _ in 0..3 {
        for name in ["STOP", "CONT"] {
            signal(&server, name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert_eq!(value(&mut stream, "SELECT 6 * 7").as_deref(), Some("42"));
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn sessions_for_which_there_are_no_files_are_refused_at_the_start() {
    let folder = folder_with(&[]);
    let arguments = "serve --data tides --listen 127.0.0.1:0 --http off --connections 1000";
    let output = limited(folder.path(), "ulimit -n 500", arguments).output().unwrap();
    Ended::from(output).expect(2).tells(&[
        "--connections 1000 needs 1256 open files",
        "permits this process 500",
        "LimitNOFILE",
    ]);
}

/// A source that takes connections as they come leaves some descriptors to sessions. Nothing that was sent over those
/// that wait is lost.
#[test]
fn a_client_without_a_file_for_it_is_told_so() {
    let folder = folder_with(&[]);
    let (mut server, port) = serve(folder.path(), "ulimit -n 290", 30);
    let mut owner = session(port).unwrap();
    execute(
        &mut owner,
        "CREATE SOURCE words (word VARCHAR)
             WITH (connector = 'unix', listen = 'words.sock', format = 'csv', header = false, connections_max = 1000);
         CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS n FROM words GROUP BY word",
    );
    // Each connection takes two descriptors, so there are none for all of these.
    let senders: Vec<UnixStream> = (0..200)
        .map(|_| {
            let mut sender = UnixStream::connect(folder.path().join("words.sock")).unwrap();
            sender.write_all(b"tide\n").unwrap();
            sender
        })
        .collect();
    let words = "SELECT n FROM counts";
    child::wait_until("the source takes what it may", || {
        let taken = value(&mut owner, words);
        std::thread::sleep(Duration::from_millis(1500));
        taken.is_some() && value(&mut owner, words) == taken
    });
    assert_ne!(value(&mut owner, words).as_deref(), Some("200"), "there was a descriptor for each of them");
    // Sessions take the rest.
    let mut sessions = Vec::new();
    let refused = loop {
        match session(port) {
            Ok(session) => sessions.push(session),
            Err(refused) => break refused,
        }
        assert!(sessions.len() < 30, "there is no limit");
    };
    assert!(sessions.len() > 4, "the source has left too few: {}", sessions.len());
    assert!(refused.contains(&"C53300".to_owned()), "{refused:?}");
    assert!(refused.iter().any(|field| field.contains("no more file descriptors")), "{refused:?}");
    execute(&mut owner, words);
    // When there are some again, clients are served again, and the source continues.
    drop((senders, sessions));
    child::wait_until("a session", || session(port).is_ok());
    child::wait_until("all words", || value(&mut owner, words).as_deref() == Some("200"));
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
