//! HTTP clients that send anything, read nothing, stay forever or come from elsewhere.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{PATIENCE, answered, get, send, serve_http, wait_until};
use tidemill_server::{HttpOptions, HttpServer};
use tidemill_service::Runtime;
use tidemill_sql::Planner;

fn serve(options: HttpOptions) -> HttpServer {
    serve_http(&Runtime::new(Planner::new()), options)
}

fn connect(server: &HttpServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads up to the end of the connection, however it ends; panics if it stays open.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "it stays open");
    }
    bytes
}

fn answers(server: &HttpServer) {
    assert_eq!(get(server.address(), "/health").status, 200);
}

/// The status of a request with these lines in its header.
fn status_of(server: &HttpServer, first: &str, lines: &[&str]) -> u16 {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    send(server.address(), &format!("{first} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")).status
}

#[test]
fn names_that_others_made_for_this_machine_are_refused() {
    let server = serve(HttpOptions::default());
    for own in ["localhost", "127.0.0.1:8087", "[::1]:8087"] {
        assert_eq!(status_of(&server, "GET /metrics", &[&format!("Host: {own}")]), 200, "{own}");
    }
    for other in ["evil.example", "evil.example:8087", "localhost.evil.example", "10.1.2.3", ""] {
        assert_eq!(status_of(&server, "GET /metrics", &[&format!("Host: {other}")]), 421, "{other}");
    }
    assert_eq!(status_of(&server, "GET /metrics", &[]), 400);
    assert_eq!(status_of(&server, "GET /metrics", &["Host: localhost", "Host: evil.example"]), 400);
    assert_eq!(status_of(&server, "GET http://evil.example/metrics", &["Host: localhost"]), 421);
}

#[test]
fn pages_of_other_origins_are_refused_what_starts_work() {
    let server = serve(HttpOptions::default());
    let host = "Host: localhost:8087";
    for foreign in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        for first in ["POST /metrics", "POST /query", "GET /subscribe?query=SELECT+1"] {
            assert_eq!(
                status_of(&server, first, &[host, foreign, "Content-Length: 0"]),
                403,
                "{first} {foreign}"
            );
        }
        // What does no harm is answered; the browser does not show it to the page.
        assert_eq!(status_of(&server, "GET /metrics", &[host, foreign]), 200);
    }
    let answer =
        send(server.address(), &format!("GET /metrics HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n"));
    assert!(!answer.head.to_ascii_lowercase().contains("access-control-allow-origin"), "{}", answer.head);
}

#[test]
fn headers_have_a_length_a_number_and_a_time() {
    let server = serve(HttpOptions::default());
    let long = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let mut stream = connect(&server);
    // The server may close the connection before it has everything.
    let _ = stream.write_all(long.as_bytes());
    let answer = rest(&mut stream);
    assert!(answer.is_empty() || answered(&answer).status == 431, "{answer:?}");
    let many: String = (0..100).map(|number| format!("X-{number}: 1\r\n")).collect();
    assert_eq!(status_of(&server, "GET /health", &["Host: localhost", many.trim_end()]), 431);
    answers(&server);
    // Who is silent, and who is slow and has no end.
    let head_timeout = Duration::from_millis(200);
    let server = serve(HttpOptions { head_timeout, ..HttpOptions::default() });
    let mut silent = connect(&server);
    rest(&mut silent);
    let mut slow = connect(&server);
    let begun = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ".iter().copied();
    let is_cut_off = |byte| {
        std::thread::sleep(Duration::from_millis(20));
        slow.write_all(&[byte]).is_err()
    };
    assert!(begun.chain(std::iter::repeat_n(b'x', 3000)).any(is_cut_off), "it is waited for");
    let answer = rest(&mut slow);
    assert!(answer.is_empty() || answered(&answer).status == 408, "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_line_of_a_head_that_ends_without_a_carriage_return_is_refused() {
    let server = serve(HttpOptions::default());
    let good = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for bad in [
        "GET /health HTTP/1.1\nHost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\n",
        "POST /query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n8\nSELECT 1\r\n0\r\n\r\n",
    ] {
        assert_eq!(send(server.address(), bad).status, 400, "{bad:?}");
        // Behind a good request on the same connection, and after a body in which any line end may be.
        let body = "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nSELECT\n 1";
        let mut stream = connect(&server);
        stream.write_all(format!("{good}{body}{good}{bad}").as_bytes()).unwrap();
        let answers = String::from_utf8(rest(&mut stream)).unwrap();
        let statuses: Vec<&str> =
            answers.matches("HTTP/1.1 200").chain(answers.matches("HTTP/1.1 400")).collect();
        assert_eq!(statuses.len(), 4, "{bad:?}: {answers}");
        assert!(answers.trim_end().rsplit("HTTP/1.1 ").next().unwrap().starts_with("400"), "{answers}");
    }
    answers(&server);
}

#[test]
fn any_bytes_are_answered_with_an_error_or_the_end() {
    let server = serve(HttpOptions { head_timeout: Duration::from_secs(2), ..HttpOptions::default() });
    let whole = b"POST /query?rows_max=7 HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv\r\n\
        Content-Length: 8\r\n\r\nSELECT 1";
    let mut number = 0x5eed_u64;
    let mut next = |bound: usize| {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        (number % bound as u64) as usize
    };
    for round in 0..300 {
        let mut bytes = whole.to_vec();
        match round % 3 {
            0 => (0..4).for_each(|_| bytes[next(whole.len())] = next(256) as u8),
            1 => drop(bytes.drain(next(bytes.len() - 8)..).take(next(30)).count()),
            _ => bytes = (0..next(200)).map(|_| next(256) as u8).collect(),
        }
        let mut stream = connect(&server);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(&mut stream);
    }
    answers(&server);
}

#[test]
fn connections_that_are_kept_silent_make_room_for_others() {
    let options =
        HttpOptions { connections_max: 2, head_timeout: Duration::from_secs(600), ..HttpOptions::default() };
    let server = serve(options);
    let half_open = |_| {
        let mut stream = connect(&server);
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..10).map(half_open).collect();
    for _ in 0..5 {
        answers(&server);
    }
    drop(silent);
}

#[test]
fn connections_that_get_an_answer_make_no_room() {
    let server = serve(HttpOptions { connections_max: 2, ..HttpOptions::default() });
    let query = "SELECT value FROM sequence(rate => 100)";
    let follow = |_| {
        let mut stream = connect(&server);
        let head =
            format!("POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", query.len());
        stream.write_all((head + query).as_bytes()).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream
    };
    let following: Vec<TcpStream> = (0..2).map(follow).collect();
    let answer = answered(&rest(&mut connect(&server)));
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("too many connections"), "{}", answer.body);
    drop(following);
    wait_until("room for a client", || {
        let mut stream = connect(&server);
        let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).is_ok() && rest(&mut stream).starts_with(b"HTTP/1.1 200")
    });
}
