//! Many clients: who keeps the server waiting goes first, and each has no more than its share.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tidemill_connect::Quotas;
use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_core::source::{Polled, Source};

use super::client::{answer, connect, listen, post, rows, send, settings};

/// Whether the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

/// Posts rows again and again over a new connection each time; every request must be answered.
fn post_good_requests(source: &mut HttpSource, address: SocketAddr, count: usize) {
    let poster = thread::spawn(move || {
        (0..count).map(|_| send(address, &post("/write", "", b"cpu usage=1\n")).0).collect::<Vec<_>>()
    });
    for _ in 0..count {
        assert_eq!(rows(source), 1);
    }
    assert_eq!(poster.join().expect("posted"), vec![204; count]);
}

#[test]
fn idle_connections_make_room_for_good_requests() {
    let (mut source, address) = listen(HttpSettings { connections_max: 20, ..settings() });
    let mut idle: Vec<_> = (0..22).map(|_| connect(address)).collect();
    // Some have begun a request, or have its body still to send.
    for (index, stream) in idle.iter_mut().enumerate() {
        let begun: &[u8] = match index % 3 {
            0 => b"",
            1 => b"POST /write HTTP/1.1\r\nHo",
            _ => b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\ncpu us",
        };
        let _ = stream.write_all(begun);
    }
    post_good_requests(&mut source, address, 30);
    assert!(is_closed(&mut idle[0]), "the one that waited for the longest was closed");
}

/// A client that sends requests, and reads no answer as long as the server takes requests.
fn send_and_never_read(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("made");
    // Otherwise the system takes megabytes of answers for it.
    socket.set_recv_buffer_size(4096).expect("set");
    socket.connect(&address.into()).expect("connects");
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("set");
    let requests = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    while stream.write_all(&requests).is_ok() {}
    stream
}

#[test]
fn a_client_that_reads_no_answer_does_not_keep_its_connection() {
    let limits = HttpSettings { connections_max: 1, write_timeout: Duration::from_millis(100), ..settings() };
    let (_source, address) = listen(limits);
    let _unread = send_and_never_read(address);
    assert_eq!(send(address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").0, 200);
}

/// Posts a row over each of these many connections; the query has all of them and has acknowledged none.
fn posted(source: &mut HttpSource, address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut streams: Vec<_> = (0..count).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(&post("/write", "", b"cpu usage=1\n")).expect("sent");
    }
    let mut taken = 0;
    while taken < count {
        taken += rows(source);
    }
    streams
}

#[test]
fn whoever_waits_for_the_query_keeps_its_connection() {
    let limits = HttpSettings { connections_max: 3, acknowledge: true, ..settings() };
    let (mut source, address) = listen(limits);
    let mut waiting = posted(&mut source, address, 3);
    let poster = thread::spawn(move || send(address, &post("/write", "", b"cpu usage=1\n")).0);
    assert!(matches!(source.poll(Duration::from_millis(100)), Ok(Polled::Nothing)), "there is no place");
    source.acknowledge(3);
    for stream in &mut waiting {
        assert_eq!(answer(stream).0, 204, "no answer is lost when another one takes the place");
    }
    assert_eq!(rows(&mut source), 1);
    source.acknowledge(4);
    assert_eq!(poster.join().expect("posted"), 204);
}

#[test]
fn a_client_with_too_many_connections_is_told_so() {
    let limits = HttpSettings { connections_per_client: 2, acknowledge: true, ..settings() };
    let (mut source, address) = listen(limits);
    let mut waiting = posted(&mut source, address, 2);
    let (status, head, _) = send(address, b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(status, 429);
    assert!(head.contains("retry-after: 1") && head.contains("connection: close"), "{head}");
    source.acknowledge(2);
    for stream in &mut waiting {
        assert_eq!(answer(stream).0, 204);
    }
    assert_eq!(send(address, b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n").0, 204, "an idle one makes room");
}

#[test]
fn a_client_beyond_its_quota_is_told_when_to_come_back() {
    let quotas = Quotas { rows_per_second: Some(1), bytes_per_second: None };
    let (mut source, address) = listen(HttpSettings { quotas, ..settings() });
    let hundred = b"cpu usage=1\n".repeat(100);
    let poster = thread::spawn(move || send(address, &post("/write", "", &hundred)).0);
    assert_eq!(rows(&mut source), 100);
    assert_eq!(poster.join().expect("posted"), 204, "what is begun within the quota is accepted");
    let (status, head, body) = send(address, &post("/write", "", b"cpu usage=1\n"));
    assert_eq!(status, 429, "{body}");
    let seconds = head.split("retry-after: ").nth(1).and_then(|rest| rest.split('\r').next());
    let seconds: u64 = seconds.expect("a header").parse().expect("seconds");
    assert!((1..=99).contains(&seconds), "{seconds}");
    assert_eq!(send(address, b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n").0, 204, "other requests are free");
}
