//! Unix sockets, and the files that stand for them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use tidemill_connect::formats::Format;
use tidemill_connect::socket::{SocketSettings, UnixLines};
use tidemill_core::{Cause, Fault};

use crate::sockets::fixture::{ended, faults, poll_until, rows, send, settings};

#[test]
fn many_senders_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let ends = SocketSettings { end_with_last_connection: true, ..settings(Format::Json) };
    let mut lines = UnixLines::listen(&path, ends).unwrap();
    let streams: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let senders: Vec<_> = streams
        .into_iter()
        .zip(0..)
        .map(|(mut stream, sender)| {
            thread::spawn(move || (0..300).for_each(|value| send(&mut stream, sender, value)))
        })
        .collect();
    let received = poll_until(&mut lines, ended);
    assert_eq!((received.rows.len(), received.faults.count), (20 * 300, 0));
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

#[test]
fn the_file_is_the_users_own_and_goes_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let lines = UnixLines::listen(&path, settings(Format::Json)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(lines);
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let mut first = UnixLines::listen(&path, settings(Format::Json)).unwrap();
    let second = UnixLines::listen(&path, settings(Format::Json)).unwrap_err();
    assert!(
        second.fault == Fault::User && second.message.contains("another program is listening"),
        "{second}"
    );
    send(&mut UnixStream::connect(&path).unwrap(), 1, 1);
    assert_eq!(poll_until(&mut first, rows(1)).rows, [(1, 1)]);
}

#[test]
fn a_file_left_by_the_dead_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the system leaves it");
    let mut lines = UnixLines::listen(&path, settings(Format::Json)).unwrap();
    send(&mut UnixStream::connect(&path).unwrap(), 1, 1);
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 1)]);
}

#[test]
fn a_file_that_is_no_socket_is_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(
        UnixLines::listen(&path, settings(Format::Json)),
        Err(Cause { fault: Fault::User, .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let nowhere = folder.path().join("missing").join("rows");
    assert!(matches!(
        UnixLines::listen(nowhere, settings(Format::Json)),
        Err(Cause { fault: Fault::Operation, .. })
    ));
}

#[test]
fn the_file_of_a_successor_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let lines = UnixLines::listen(&path, settings(Format::Json)).unwrap();
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    let _successor = UnixListener::bind(&path).unwrap();
    drop(lines);
    assert!(path.exists());
}

#[test]
fn it_reads_from_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let server = UnixListener::bind(&path).unwrap();
    let mut lines = UnixLines::connect(&path, settings(Format::Json)).unwrap();
    let serving = thread::spawn(move || {
        use std::io::Write;
        let mut stream = server.accept().unwrap().0;
        send(&mut stream, 1, 1);
        stream.write_all(b"{").unwrap();
    });
    let received = poll_until(&mut lines, faults(1));
    assert_eq!(received.rows, [(1, 1)]);
    serving.join().unwrap();
}
