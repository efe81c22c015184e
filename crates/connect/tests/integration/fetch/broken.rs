//! Downloads that break off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_core::error::Fault;

use crate::fetch::support::{assert_told, csv, read, refusal, settings};
use tidemill_testing::file_server::{Server, part, say};

#[test]
fn a_download_goes_on_where_it_broke_off() {
    let content = csv(200_000).into_bytes();
    let length = content.len();
    let server = Server::start(move |request, stream| {
        // Two thirds of what is left, each time.
        let range = request.range(length).unwrap_or(0..length);
        if range.len() < 1000 {
            return part(request, stream, &content, "\"one\"");
        }
        let status = if range.start == 0 { "200 OK" } else { "206 Partial Content" };
        write!(stream, "HTTP/1.1 {status}\r\nETag: \"one\"\r\nContent-Length: {}\r\n", range.len())?;
        write!(stream, "Content-Range: bytes {}-{}/{length}\r\n\r\n", range.start, length - 1)?;
        stream.write_all(&content[range.start..range.start + range.len() * 2 / 3])
    });
    assert_eq!(read(settings(&server.url("a.csv"))).unwrap(), (0..200_000).collect::<Vec<_>>());
    let requests = server.requests();
    assert!(requests.len() > 3);
    assert!(requests[1..].iter().all(|request| request.header("if-range") == Some("\"one\"")));
    let starts: Vec<usize> =
        requests.iter().map(|request| request.range(length).map_or(0, |range| range.start)).collect();
    assert!(starts.windows(2).all(|pair| pair[0] < pair[1]), "{starts:?}");
}

/// Breaks off the first answers; then another version of the file, or one without marks, comes whole.
fn replaced(mark: &'static str) -> Vec<i64> {
    let asked_times = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |request, stream| {
        if asked_times.fetch_add(1, Ordering::SeqCst) > 0 {
            assert_eq!(request.header("range").is_some(), mark.contains("\"one\"") && !mark.contains("W/"));
            return say(stream, "200 OK", "ETag: \"two\"\r\n", b"id\n7\n8\n");
        }
        write!(stream, "HTTP/1.1 200 OK\r\n{mark}Content-Length: 1000\r\n\r\nid\n1\n2\n")
    });
    read(settings(&server.url("a.csv"))).unwrap()
}

#[test]
fn another_version_of_the_file_is_fetched_from_its_beginning() {
    assert_eq!(replaced("ETag: \"one\"\r\n"), [7, 8]);
    // What tells nothing exact about the version.
    assert_eq!(replaced("ETag: W/\"one\"\r\n"), [7, 8]);
    assert_eq!(replaced(""), [7, 8]);
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let asked_times = AtomicUsize::new(0);
    let server = Server::start(move |_, stream| match asked_times.fetch_add(1, Ordering::SeqCst) {
        0 => say(stream, "503 Service Unavailable", "Retry-After: 0\r\n", b"secret"),
        1 => say(stream, "429 Too Many Requests", "", b""),
        // It hangs up.
        2 => Ok(()),
        _ => say(stream, "200 OK", "", b"id\n1\n"),
    });
    assert_eq!(read(settings(&server.url("a.csv"))).unwrap(), [1]);
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn what_brings_nothing_new_is_given_up() {
    let server = Server::start(|_, stream| say(stream, "502 Bad Gateway", "", b"secret"));
    let path = server.url("a.csv?secret");
    let message = refusal(settings(&path));
    assert_told(&message, &["/a.csv: the server answers 502 Bad Gateway", "gave up after 5 attempts"]);
    assert_eq!(read(settings(&path)).unwrap_err().fault, Fault::Operation);
    // A server that cannot continue, and breaks off at the same place.
    let server =
        Server::start(|_, stream| write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nid\n1\n"));
    let message = refusal(settings(&server.url("a.csv")));
    assert_told(&message, &["ended in the middle", "after 5 of 1000 bytes", "gave up after 5 attempts"]);
    assert_eq!(server.requests().len(), 5);
    // Nobody listens.
    let message = refusal(settings("http://127.0.0.1:1/a.csv"));
    assert_told(&message, &["cannot connect to 127.0.0.1", "check the server and the network"]);
}

#[test]
fn a_server_that_falls_silent_is_asked_again() {
    let asked_times = AtomicUsize::new(0);
    let content = csv(1000).into_bytes();
    let server = Server::start(move |request, stream| {
        if asked_times.fetch_add(1, Ordering::SeqCst) > 0 {
            return part(request, stream, &content, "\"one\"");
        }
        write!(stream, "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: {}\r\n\r\n", content.len())?;
        stream.write_all(&content[..100])?;
        stream.flush()?;
        // Until the other side has had enough.
        stream.read(&mut [0]).map(drop)
    });
    let mut wanted = settings(&server.url("a.csv"));
    wanted.fetch.timeout = Duration::from_secs(5);
    assert_eq!(read(wanted).unwrap(), (0..1000).collect::<Vec<_>>());
}
