//! Readers of a listening socket: quick, slow, late, gone.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::socket::{SocketAddress, SocketServerSettings, SocketServerSink, SocketServerStatus};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{commit_one, cycle, rows, rows_of_cycle, schema, text_of};

fn loopback() -> SocketAddress {
    SocketAddress::Tcp("127.0.0.1:0".into())
}

fn listen(settings: &SocketServerSettings) -> SocketServerSink {
    SocketServerSink::listen(&loopback(), &schema(), settings).unwrap()
}

fn connect(sink: &SocketServerSink) -> TcpStream {
    TcpStream::connect(sink.address().to_string()).unwrap()
}

/// Waits for what happens soon.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn wait_for_readers(status: &SocketServerStatus, count: u64) {
    wait_until("readers", || status.accepted() == count);
}

fn read_all(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn all_readers_get_all_from_the_next_commit_on() {
    for format in [TextFormat::csv(), TextFormat::Ndjson] {
        let mut sink = listen(&SocketServerSettings::new(format.clone()));
        let status = sink.status();
        commit_one(&mut sink, 0, rows(&[("missed", 0)])).unwrap();
        assert_eq!(status.rows_unread(), 1);
        let first = connect(&sink);
        wait_for_readers(&status, 1);
        commit_one(&mut sink, 1, rows(&[("a", 1)])).unwrap();
        // Connects between preparation and commit.
        sink.prepare(cycle(2, Some(rows(&[("b", 2)])))).unwrap();
        let second = connect(&sink);
        wait_for_readers(&status, 2);
        sink.commit(2..=2).unwrap();
        let readers = [first, second].map(|stream| thread::spawn(move || read_all(stream)));
        sink.finish().unwrap();
        let [first, second] = readers.map(|reader| reader.join().unwrap());
        assert_eq!(first, text_of(&format, &[rows(&[("a", 1)]), rows(&[("b", 2)])]));
        assert_eq!(second, text_of(&format, &[rows(&[("b", 2)])]));
        assert_eq!((status.slow(), status.vanished(), status.rows_unread()), (0, 0, 1));
    }
}

#[test]
fn a_slow_reader_is_disconnected_and_the_quick_one_gets_everything() {
    let settings =
        SocketServerSettings { buffer_bytes: 1 << 20, ..SocketServerSettings::new(TextFormat::Ndjson) };
    let mut sink = listen(&settings);
    let status = sink.status();
    let (slow, quick) = (connect(&sink), connect(&sink));
    wait_for_readers(&status, 2);
    let (send, received) = std::sync::mpsc::channel();
    let quick = thread::spawn(move || {
        let lines = BufReader::new(quick).lines().map(Result::unwrap);
        lines.inspect(|_| send.send(()).unwrap()).collect::<Vec<String>>()
    });
    let mut batches: Vec<RecordBatch> = Vec::new();
    for number in 0..200 {
        batches.push(rows_of_cycle(number, 2000));
        commit_one(&mut sink, number, batches[number as usize].clone()).unwrap();
        // The quick one has all of it before the next comes.
        (0..2000).for_each(|_| received.recv().unwrap());
    }
    sink.finish().unwrap();
    assert_eq!((status.slow(), status.vanished()), (1, 0));
    let expected = text_of(&TextFormat::Ndjson, &batches);
    assert!(quick.join().unwrap().join("\n") + "\n" == expected, "the quick reader did not get everything");
    // The slow one has got whole commits, and then perhaps a part of the next.
    let mut got = Vec::new();
    let ended = { slow }.read_to_end(&mut got);
    assert!(ended.is_err() || got.len() < expected.len());
    assert!(expected.as_bytes().starts_with(&got));
}

#[test]
fn a_reader_that_does_not_read_at_the_end_is_left_after_a_while() {
    let linger = Duration::from_millis(100);
    let settings = SocketServerSettings { linger, ..SocketServerSettings::new(TextFormat::Ndjson) };
    let mut sink = listen(&settings);
    let status = sink.status();
    let _reader = connect(&sink);
    wait_for_readers(&status, 1);
    // An empty buffer takes a text of any size, here more than the operating system does.
    commit_one(&mut sink, 0, rows_of_cycle(0, 400_000)).unwrap();
    sink.finish().unwrap();
    assert_eq!(status.slow(), 1);
}

#[test]
fn readers_that_vanish_are_forgotten() {
    let mut sink = listen(&SocketServerSettings::new(TextFormat::Ndjson));
    let status = sink.status();
    let stays = connect(&sink);
    for number in 0..10 {
        drop(connect(&sink));
        wait_for_readers(&status, number + 2);
    }
    let mut number = 0;
    wait_until("vanished", || {
        commit_one(&mut sink, number, rows(&[("a", number as i64)])).unwrap();
        number += 1;
        status.vanished() == 10
    });
    assert_eq!(status.readers(), 1);
    let reader = thread::spawn(move || read_all(stays));
    sink.finish().unwrap();
    assert_eq!(reader.join().unwrap().lines().count() as u64, number);
}

#[test]
fn a_reader_that_is_killed_does_not_stop_the_query() {
    let mut sink = listen(&SocketServerSettings::new(TextFormat::Ndjson));
    let status = sink.status();
    let SocketAddress::Tcp(address) = sink.address().clone() else { panic!("no TCP address") };
    let (host, port) = address.split_once(':').unwrap();
    let script = format!("exec 3<>/dev/tcp/{host}/{port} && exec cat <&3");
    let child = Command::new("bash").args(["-c", &script]).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return eprintln!("skipped: no bash here");
    };
    wait_for_readers(&status, 1);
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "{\"key\":\"a\",\"value\":1}");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut number = 1;
    wait_until("vanished", || {
        commit_one(&mut sink, number, rows(&[("b", 2)])).unwrap();
        number += 1;
        status.vanished() == 1
    });
    sink.finish().unwrap();
}

#[test]
fn there_are_only_so_many_readers() {
    let settings = SocketServerSettings { readers_max: 1, ..SocketServerSettings::new(TextFormat::csv()) };
    let mut sink = listen(&settings);
    let status = sink.status();
    let first = connect(&sink);
    wait_for_readers(&status, 1);
    assert_eq!(read_all(connect(&sink)), "");
    assert_eq!((status.refused(), status.readers()), (1, 1));
    let reader = thread::spawn(move || read_all(first));
    sink.finish().unwrap();
    assert_eq!(reader.join().unwrap(), "key,value\n");
}

#[test]
fn the_first_commit_waits_for_a_reader_when_told_so() {
    let first_reader_wait = Duration::from_secs(20);
    let settings =
        SocketServerSettings { first_reader_wait, ..SocketServerSettings::new(TextFormat::Ndjson) };
    let mut sink = listen(&settings);
    let address = sink.address().to_string();
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        read_all(TcpStream::connect(address).unwrap())
    });
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    sink.finish().unwrap();
    assert_eq!(reader.join().unwrap(), "{\"key\":\"a\",\"value\":1}\n");
}

#[test]
fn a_unix_socket_is_removed_and_an_abandoned_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = SocketAddress::Unix(path.clone());
    let settings = SocketServerSettings::new(TextFormat::csv());
    // Dropping a listener leaves its file, as a process does that dies.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut sink = SocketServerSink::listen(&address, &schema(), &settings).unwrap();
    let in_use = SocketServerSink::listen(&address, &schema(), &settings).err();
    assert!(matches!(in_use, Some(Cause { fault: Fault::User, message, .. }) if message.contains("in use")));
    let status = sink.status();
    // The second attempt has looked whether someone listens, and that was a reader too.
    let before = status.accepted();
    let reader = UnixStream::connect(&path).unwrap();
    wait_until("readers", || status.accepted() > before);
    let reader = thread::spawn(move || read_all(reader));
    sink.finish().unwrap();
    assert_eq!(reader.join().unwrap(), "key,value\n");
    assert!(!path.exists());
    std::fs::write(&path, "no socket").unwrap();
    assert!(SocketServerSink::listen(&address, &schema(), &settings).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "no socket");
}

#[test]
fn what_others_can_reach_must_be_allowed() {
    let mut settings = SocketServerSettings::new(TextFormat::csv());
    let address = SocketAddress::Tcp("0.0.0.0:0".into());
    let refused = SocketServerSink::listen(&address, &schema(), &settings).err();
    assert!(
        matches!(refused, Some(Cause { fault: Fault::User, message, .. }) if message.contains("allow_remote = true"))
    );
    settings.allow_remote = true;
    SocketServerSink::listen(&address, &schema(), &settings).unwrap().finish().unwrap();
    settings.format = TextFormat::table();
    assert!(matches!(
        SocketServerSink::listen(&address, &schema(), &settings).err(),
        Some(Cause { fault: Fault::User, .. })
    ));
    let nonsense = SocketAddress::Tcp("nonsense".into());
    let settings = SocketServerSettings::new(TextFormat::csv());
    let refused = SocketServerSink::listen(&nonsense, &schema(), &settings).err();
    assert!(
        matches!(refused, Some(Cause { fault: Fault::User, message, .. }) if message.contains("host:port"))
    );
}

#[test]
fn a_sink_that_is_dropped_lets_its_readers_and_its_port_go() {
    let sink = listen(&SocketServerSettings::new(TextFormat::Ndjson));
    let reader = connect(&sink);
    wait_for_readers(&sink.status(), 1);
    let address = sink.address().clone();
    drop(sink);
    assert_eq!(read_all(reader), "");
    let again = SocketServerSink::listen(&address, &schema(), &SocketServerSettings::new(TextFormat::Ndjson));
    assert!(again.is_ok());
}
