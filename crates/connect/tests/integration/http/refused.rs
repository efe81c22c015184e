//! What is not written, and with which answer.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_core::source::{Polled, Source};

use super::client::{WAIT, answer, connect, listen, post, rows, send, settings};

#[test]
fn paths_methods_and_contents_are_checked() {
    let (mut source, address) = listen(settings());
    let status = |request: &[u8]| send(address, request).0;
    assert_eq!(status(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"), 204);
    assert!(send(address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").2.contains("\"status\":\"pass\""));
    assert_eq!(status(b"GET /write HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    assert_eq!(status(&post("/nothing", "", b"")), 404);
    assert_eq!(status(&post("/write", "Content-Type: image/png\r\n", b"x")), 415);
    assert_eq!(status(&post("/api/v2/write", "Content-Type: application/json\r\n", b"{}")), 415);
    assert_eq!(status(&post("/write", "Content-Encoding: br\r\n", b"x")), 415);
    assert_eq!(status(&post("/write", "Content-Encoding: gzip\r\n", b"no gzip")), 400);
    assert_eq!(status(&post("/write?precision=h", "", b"cpu usage=1\n")), 400);
    assert_eq!(status(&post("/write", "X-Tidemill-Client: a\r\n", b"cpu usage=1\n")), 400);
    assert_eq!(status(b"no HTTP at all\r\n\r\n"), 400);
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Nothing)));
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    let (mut source, address) = listen(settings());
    let status = |headers: &str| {
        let request = format!("POST /write HTTP/1.1\r\n{headers}Content-Length: 12\r\n\r\ncpu usage=1\n");
        send(address, request.as_bytes()).0
    };
    assert_eq!(status(""), 400);
    assert_eq!(status("Host: a\r\nHost: b\r\n"), 400);
    let sequence = "Host: localhost\r\nX-Tidemill-Sequence: 1\r\nX-Tidemill-Client: a\r\n";
    assert_eq!(status(&format!("{sequence}X-Tidemill-Client: b\r\n")), 400);
    assert_eq!(status(&format!("{sequence}X-Tidemill-Sequence: 2\r\n")), 400);
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Nothing)));
}

/// Without a token, whoever can make a browser of this machine send a request could write rows.
#[test]
fn pages_of_other_origins_write_nothing() {
    let (mut source, address) = listen(settings());
    let status = |host: &str, headers: &str, path: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        send(address, (head + body).as_bytes()).0
    };
    let line = "cpu usage=1\n";
    for foreign in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        for path in ["/write", "/api/v2/write"] {
            assert_eq!(
                status("localhost", &format!("{foreign}\r\nContent-Type: text/plain\r\n"), path, line),
                403
            );
        }
    }
    let json = "Content-Type: application/json\r\n";
    for rebound in ["evil.example", "evil.example:8086", "localhost.evil.example", "10.1.2.3"] {
        let same_origin = format!("{json}Origin: http://{rebound}\r\nSec-Fetch-Site: same-origin\r\n");
        assert_eq!(status(rebound, &same_origin, "/write", "{\"usage\": 1}"), 421, "{rebound}");
        assert_eq!(status(rebound, "", "/write", line), 421, "{rebound}");
    }
    let proxied = "POST http://evil.example/write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(send(address, proxied.as_bytes()).0, 421);
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Nothing)));

    // A page cannot know the token, and a proxy before the source may have another name.
    let (mut source, address) = listen(HttpSettings { token: Some("secret".to_owned()), ..settings() });
    let post = |headers: &str| {
        let head =
            format!("POST /write HTTP/1.1\r\nHost: tidemill.example\r\n{headers}Content-Length: 12\r\n\r\n");
        connect_and_send(address, (head + "cpu usage=1\n").as_bytes())
    };
    let mut proxied = post("Authorization: Token secret\r\n");
    assert_eq!(rows(&mut source), 1);
    assert_eq!(answer(&mut proxied).0, 204);
    let mut foreign = post("Authorization: Token secret\r\nOrigin: http://evil.example\r\n");
    assert_eq!(answer(&mut foreign).0, 403);
}

fn connect_and_send(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(request).expect("sent");
    stream
}

#[test]
fn a_line_of_a_head_that_ends_without_a_carriage_return_is_refused() {
    let (mut source, address) = listen(settings());
    for request in [
        "GET /ping HTTP/1.1\nHost: a\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\r\n\n",
        "\nGET /ping HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(send(address, request.as_bytes()).0, 400, "{request:?}");
    }
    // Bodies may have any line ends, and heads are checked behind them as well.
    let chunked = "POST /write HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
                   c;x=y\r\ncpu usage=1\n\r\n0\r\n\r\n";
    for first in [String::from_utf8(post("/write", "", b"cpu usage=1\n")).expect("text"), chunked.to_owned()]
    {
        let mut stream = connect(address);
        let pipelined =
            format!("{first}GET /ping HTTP/1.1\r\nHost: a\r\n\r\n{first}GET /ping HTTP/1.1\nHost: a\n\n");
        stream.write_all(pipelined.as_bytes()).expect("sent");
        assert_eq!(rows(&mut source), 1);
        assert_eq!((answer(&mut stream).0, answer(&mut stream).0), (204, 204));
        assert_eq!(rows(&mut source), 1);
        assert_eq!((answer(&mut stream).0, answer(&mut stream).0), (204, 400));
    }
}

#[test]
fn a_body_that_is_announced_too_long_is_refused_without_a_byte_of_it() {
    let (_source, address) = listen(settings());
    let request = b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n";
    assert_eq!(send(address, request).0, 413);
}

#[test]
fn a_wrong_token_is_refused() {
    let (mut source, address) = listen(HttpSettings { token: Some("secret".into()), ..settings() });
    for headers in [
        "",
        "Authorization: Token secreT\r\n",
        "Authorization: Token secret1\r\n",
        "Authorization: secret\r\n",
    ] {
        assert_eq!(send(address, &post("/write", headers, b"cpu usage=1\n")).0, 401, "{headers}");
    }
    let request = post("/write", "Authorization: Bearer secret\r\n", b"cpu usage=1\n");
    let sender = thread::spawn(move || send(address, &request));
    assert_eq!(rows(&mut source), 1);
    assert_eq!(sender.join().expect("sent").0, 204);
}

#[test]
fn tokens_of_a_file_have_names_and_change_while_it_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    let write = |text: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, text).expect("written");
        std::fs::set_permissions(&new, Permissions::from_mode(0o600)).expect("set");
        std::fs::rename(&new, &path).expect("renamed");
    };
    let settings = HttpSettings { token_file: Some(path.clone()), acknowledge: true, ..settings() };
    write("a one two,,three\n");
    let cause = HttpSource::listen(settings.clone()).expect_err("refused").to_string();
    assert!(cause.contains("line 1") && !cause.contains("two"), "{cause}");
    write("# agents\nwell 7bucket7\n\nriver 9bank9\n");
    let (mut source, address) = listen(settings);
    // Nothing is acknowledged, so only a refusal is answered at once.
    let post_with = |token: &str| {
        let mut stream = connect(address);
        let headers = format!("Authorization: Token {token}\r\n");
        stream.write_all(&post("/write", &headers, b"cpu usage=1\nrubbish\n")).expect("sent");
        stream
    };
    assert_eq!(answer(&mut post_with("7bucket")).0, 401);
    let mut stream = post_with("9bank9");
    assert_eq!(rows(&mut source), 1);
    let faults = source.faults();
    assert!(faults.samples[0].contains("(river), line 2"), "{:?}", faults.samples);
    source.acknowledge(1);
    assert_eq!(answer(&mut stream).0, 400);

    write("well 7bucket7\nriver another\n");
    let is_refused = || {
        let ping = post("/write?precision=h", "Authorization: Token 9bank9\r\n", b"");
        send(address, &ping).0 == 401
    };
    assert!((0..600).any(|_| is_refused() || {
        thread::sleep(Duration::from_millis(50));
        false
    }));
    // A file that cannot be used changes nothing.
    write("nonsense\n");
    thread::sleep(Duration::from_millis(1100));
    let with = |token: &str| {
        send(address, &post("/write?precision=h", &format!("Authorization: Bearer {token}\r\n"), b"")).0
    };
    assert_eq!((with("another"), with("7bucket7"), with("nonsense")), (400, 400, 401));
}

#[test]
fn large_bodies_and_bombs_are_refused() {
    let (_source, address) = listen(HttpSettings { body_bytes_max: 1000, lines_max: 10, ..settings() });
    assert_eq!(send(address, &post("/write", "", &[b'x'; 1001])).0, 413);
    assert_eq!(send(address, &post("/write", "", &[b'\n'; 11])).0, 413);
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 300_000]).expect("packed");
    let bomb = bomb.finish().expect("packed");
    assert!(bomb.len() < 1000);
    assert_eq!(send(address, &post("/write", "Content-Encoding: gzip\r\n", &bomb)).0, 413);
}

#[test]
fn a_full_queue_holds_clients_back() {
    let limits = HttpSettings {
        body_bytes_max: 4096,
        queue_bytes: 4096,
        connections_max: 3,
        queue_wait: Duration::from_millis(50),
        ..settings()
    };
    let (mut source, address) = listen(limits);
    let body = format!("cpu,host={} usage=1\n", "x".repeat(3000));
    let (answered, answers) = channel();
    for _ in 0..3 {
        let mut stream = connect(address);
        stream.write_all(&post("/write", "", body.as_bytes())).expect("sent");
        let answered = answered.clone();
        thread::spawn(move || answered.send(answer(&mut stream).0).expect("sent"));
    }
    // As long as nobody takes rows, only who is refused has an answer.
    let mut statuses = vec![answers.recv_timeout(WAIT).expect("somebody is refused")];
    let (mut taken, start) = (0, Instant::now());
    while statuses.len() < 3 {
        assert!(start.elapsed() < WAIT, "{statuses:?}");
        if let Polled::Rows(rows) = source.poll(Duration::from_millis(20)).expect("polled") {
            taken += rows.num_rows();
        }
        statuses.extend(answers.try_iter());
    }
    assert_eq!(statuses[0], 503, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 204).count(), taken, "{statuses:?}");
    assert!(statuses.iter().all(|status| [204, 503].contains(status)), "{statuses:?}");
}

#[test]
fn slow_and_vanishing_clients_hold_up_nobody() {
    let limits = HttpSettings {
        // Whoever does not dawdle must not be taken for one who does.
        head_timeout: Duration::from_secs(3),
        body_timeout: Duration::from_secs(3),
        ..settings()
    };
    let (mut source, address) = listen(limits);
    let mut head = connect(address);
    head.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\n").expect("sent");
    let mut body = connect(address);
    body.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\ncpu us")
        .expect("sent");
    let mut gone = connect(address);
    gone.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\ncpu us")
        .expect("sent");
    drop(gone);
    let sender = thread::spawn(move || send(address, &post("/write", "", b"cpu usage=1\n")));
    assert_eq!(rows(&mut source), 1);
    assert_eq!(sender.join().expect("sent").0, 204);
    let mut text = String::new();
    let _ = head.read_to_string(&mut text);
    text.clear();
    let _ = body.read_to_string(&mut text);
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Nothing)));
}

#[test]
fn other_machines_are_let_in_only_if_asked_for() {
    let remote = HttpSettings { address: "0.0.0.0:0".into(), ..settings() };
    let refused = HttpSource::listen(remote.clone()).expect_err("refused").to_string();
    assert!(refused.contains("set allow_remote"), "{refused}");
    let open = HttpSettings { allow_remote: true, ..remote };
    let refused = HttpSource::listen(open.clone()).expect_err("refused").to_string();
    assert!(refused.contains("demand a token") && refused.contains("set insecure"), "{refused}");
    assert!(HttpSource::listen(HttpSettings { token: Some("sesame".into()), ..open.clone() }).is_ok());
    assert!(HttpSource::listen(HttpSettings { insecure: true, ..open }).is_ok());
}
