//! `tidemill serve` with more sessions than the system lets it have open files.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::child::signal;
use support::*;

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
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("the server answers");
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        stream.read_exact(&mut body).unwrap();
        match head[0] {
            b'Z' => return None,
            b'E' => return Some(String::from_utf8(body).unwrap().split('\0').map(str::to_owned).collect()),
            _ => {}
        }
    }
}

fn execute(stream: &mut TcpStream, text: &str) {
    stream
        .write_all(&[b"Q", &(text.len() as u32 + 5).to_be_bytes()[..], text.as_bytes(), b"\0"].concat())
        .unwrap();
    assert_eq!(answer(stream), None, "{text}");
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

/// What others have open counts, too. The server can still say that, and it can still end.
#[test]
fn a_client_without_a_file_for_it_is_told_so() {
    let folder = folder_with(&[]);
    let (mut server, port) = serve(folder.path(), "ulimit -n 270", 10);
    let mut owner = session(port).unwrap();
    execute(
        &mut owner,
        "CREATE SOURCE words (word VARCHAR)
             WITH (connector = 'unix', listen = 'words.sock', format = 'csv', header = false, connections_max = 1000);
         CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS n FROM words GROUP BY word",
    );
    // The source takes connections until nothing is left.
    let mut senders = Vec::new();
    let refused = loop {
        match UnixStream::connect(folder.path().join("words.sock")) {
            Ok(sender) => senders.push(sender),
            Err(error) => panic!("the source is gone: {error}"),
        }
        assert!(senders.len() < 2000, "there is no limit");
        if senders.len() % 10 != 0 {
            continue;
        }
        match session(port) {
            Ok(session) => drop(session),
            Err(refused) => break refused,
        }
    };
    assert!(refused.contains(&"C53300".to_owned()), "{refused:?}");
    assert!(refused.iter().any(|field| field.contains("no more file descriptors")), "{refused:?}");
    execute(&mut owner, "SELECT count(*) AS n FROM counts");
    // When there are some again, clients are served again.
    drop(senders);
    child::wait_until("a session", || session(port).is_ok());
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
