//! A sink that connects to its reader: one that is late, slow, or goes and comes back.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::socket::{SocketAddress, SocketClientSettings, SocketClientSink};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{commit_one, rows, rows_of_cycle, schema, text_of};
use tidemill_testing::ports::free_port;

fn settings(format: TextFormat) -> SocketClientSettings {
    SocketClientSettings { connect_wait: Duration::from_secs(120), ..SocketClientSettings::new(format) }
}

fn listener() -> (TcpListener, SocketAddress) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = SocketAddress::Tcp(listener.local_addr().unwrap().to_string());
    (listener, address)
}

#[test]
fn a_reader_gets_everything_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let settings = settings(TextFormat::csv());
    let mut sink = SocketClientSink::connect(&SocketAddress::Unix(path), &schema(), &settings).unwrap();
    let batches: Vec<_> = (0..50).map(|number| rows_of_cycle(number, 1000)).collect();
    for (number, rows) in batches.iter().enumerate() {
        commit_one(&mut sink, number as u64, rows.clone()).unwrap();
    }
    sink.finish().unwrap();
    assert!(reader.join().unwrap() == text_of(&TextFormat::csv(), &batches));
    assert_eq!(sink.status().connections(), 1);
}

#[test]
fn a_reader_that_comes_late_is_waited_for() {
    let bound = format!("127.0.0.1:{}", free_port());
    let address = SocketAddress::Tcp(bound.clone());
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        let mut text = String::new();
        TcpListener::bind(bound).unwrap().accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::Ndjson)).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    sink.finish().unwrap();
    assert_eq!(reader.join().unwrap(), "{\"key\":\"a\",\"value\":1}\n");
}

#[test]
fn a_slow_reader_holds_the_query_up_and_loses_nothing() {
    let (listener, address) = listener();
    let reader = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        // Longer than a write waits at a time.
        thread::sleep(Duration::from_millis(500));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::Ndjson)).unwrap();
    let all = rows_of_cycle(0, 400_000);
    commit_one(&mut sink, 0, all.clone()).unwrap();
    sink.finish().unwrap();
    assert!(reader.join().unwrap() == text_of(&TextFormat::Ndjson, &[all]));
    assert_eq!(sink.status().connections(), 1);
}

#[test]
fn a_reader_that_goes_and_comes_back_gets_every_later_commit() {
    let (listener, address) = listener();
    let (has_gone, goes) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut kept = Vec::new();
        for _ in 0..3 {
            let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "key,value");
            kept.extend(lines.next().unwrap());
            drop(lines);
            has_gone.send(()).unwrap();
        }
        kept
    });
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::csv())).unwrap();
    let status = sink.status();
    for number in 0..3 {
        commit_one(&mut sink, number, rows(&[("a", number as i64)])).unwrap();
        // The reader closes after each line; the next commit must notice before it sends.
        goes.recv().unwrap();
    }
    assert_eq!(reader.join().unwrap(), ["a,0", "a,1", "a,2"]);
    assert_eq!(status.connections(), 3);
}

#[test]
fn a_connection_that_breaks_within_a_commit_gets_all_of_it_again() {
    let (listener, address) = listener();
    let reader = thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        first.read_exact(&mut [0; 1000]).unwrap();
        drop(first);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::csv())).unwrap();
    let all = rows_of_cycle(0, 400_000);
    commit_one(&mut sink, 0, all.clone()).unwrap();
    sink.finish().unwrap();
    assert!(reader.join().unwrap() == text_of(&TextFormat::csv(), &[all]));
    assert_eq!(sink.status().connections(), 2);
}

#[test]
fn a_reader_that_is_not_there_is_given_up() {
    let address = SocketAddress::Tcp(format!("127.0.0.1:{}", free_port()));
    let connect_wait = Duration::from_millis(50);
    let settings = SocketClientSettings { connect_wait, ..SocketClientSettings::new(TextFormat::csv()) };
    let failed = SocketClientSink::connect(&address, &schema(), &settings).err();
    assert!(
        matches!(failed, Some(Cause { fault: Fault::Operation, message, .. }) if message.contains("cannot connect"))
    );
}

#[test]
fn a_reader_that_never_reads_does_not_keep_the_query_from_stopping() {
    let (listener, address) = listener();
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::Ndjson)).unwrap();
    let _stream = listener.accept().unwrap();
    let status = sink.status();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        status.stop();
    });
    let failed = commit_one(&mut sink, 0, rows_of_cycle(0, 400_000));
    assert!(
        matches!(failed, Err(Cause { fault: Fault::Operation, message, .. }) if message.contains("stopped"))
    );
    stopper.join().unwrap();
}

#[test]
fn other_machines_must_be_allowed() {
    let address = SocketAddress::Tcp("192.0.2.1:9".into());
    let refused = SocketClientSink::connect(&address, &schema(), &settings(TextFormat::csv())).err();
    assert!(
        matches!(refused, Some(Cause { fault: Fault::User, message, .. }) if message.contains("allow_remote = true"))
    );
}
