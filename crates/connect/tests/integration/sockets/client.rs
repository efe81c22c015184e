//! Reading from a server that comes and goes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::formats::Format;
use tidemill_connect::socket::{SocketSettings, TcpLines};
use tidemill_core::Fault;
use tidemill_core::source::{Polled, Source};

use tidemill_testing::ports::free_port;

use crate::sockets::fixture::{ended, faults, poll_until, rows, send, settings};

fn server() -> (TcpListener, String) {
    let address = nobody();
    (TcpListener::bind(&address).unwrap(), address)
}

/// Where nobody listens.
fn nobody() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[test]
fn it_connects_again_after_the_server_has_gone() {
    let (server, address) = server();
    let mut lines = TcpLines::connect(&address, settings(Format::Json)).unwrap();
    assert!(!lines.is_finite() && lines.local_address().is_none());
    let serving = thread::spawn(move || {
        for round in 0..3 {
            let (mut stream, _) = server.accept().unwrap();
            send(&mut stream, round, 1);
            if round == 1 {
                stream.write_all(b"{\"sender\": 1,").unwrap();
            }
        }
    });
    let received = poll_until(&mut lines, |received| received.rows.len() == 3 && received.faults.count == 1);
    assert_eq!(received.rows, [(0, 1), (1, 1), (2, 1)]);
    assert!(received.fault().starts_with(&format!("tcp {address}: the connection was closed in the middle")));
    serving.join().unwrap();
}

#[test]
fn it_waits_for_a_server_that_starts_later() {
    let address = nobody();
    let mut lines = TcpLines::connect(&address, settings(Format::Json)).unwrap();
    assert!(matches!(lines.poll(Duration::from_millis(20)), Ok(Polled::Nothing)));
    let server = TcpListener::bind(&address).unwrap();
    let serving = thread::spawn(move || send(&mut server.accept().unwrap().0, 1, 1));
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 1)]);
    serving.join().unwrap();
}

#[test]
fn it_gives_up_after_so_many_attempts() {
    let address = nobody();
    let two = SocketSettings { attempts_max: 2, ..settings(Format::Json) };
    let mut lines = TcpLines::connect(&address, two).unwrap();
    let start = Instant::now();
    let failed = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "it tries for ever");
        if let Err(cause) = lines.poll(Duration::from_millis(20)) {
            break cause;
        }
    };
    assert!(failed.fault == Fault::Operation && failed.message.contains("after 2 attempts"), "{failed}");
}

#[test]
fn it_can_end_with_the_connection() {
    let (server, address) = server();
    let once = SocketSettings { end_with_last_connection: true, ..settings(Format::Json) };
    let mut lines = TcpLines::connect(&address, once).unwrap();
    let serving = thread::spawn(move || {
        let mut stream = server.accept().unwrap().0;
        (0..30_000).for_each(|value| send(&mut stream, 0, value));
    });
    let received = poll_until(&mut lines, ended);
    assert!(received.rows.iter().map(|row| row.1).eq(0..30_000));
    serving.join().unwrap();
}

#[test]
fn a_server_with_other_columns_is_counted_each_time() {
    let (server, address) = server();
    let mut lines = TcpLines::connect(&address, settings(Format::Csv)).unwrap();
    let serving = thread::spawn(move || {
        for _ in 0..2 {
            let mut stream = server.accept().unwrap().0;
            stream.write_all(b"name,colour\nx,red\n").unwrap();
            // Until the other side hangs up.
            let _ = stream.read(&mut [0]);
        }
    });
    assert!(poll_until(&mut lines, faults(2)).rows.is_empty());
    serving.join().unwrap();
}

#[test]
fn dropping_the_source_hangs_up() {
    let (server, address) = server();
    let mut lines = TcpLines::connect(&address, settings(Format::Json)).unwrap();
    let connecting = thread::spawn(move || server.accept().unwrap().0);
    poll_until(&mut lines, |_| connecting.is_finished());
    let mut stream = connecting.join().unwrap();
    drop(lines);
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}
