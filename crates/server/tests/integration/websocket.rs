//! Subscriptions over WebSockets.

use std::io::Write;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, send, serve_http, serve_runtime, start};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tidemill_server::{HttpOptions, HttpServer};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

type Socket = WebSocketStream<TcpStream>;

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// Opens a WebSocket with further headers.
async fn open(address: SocketAddr, query: &str, headers: &[(&'static str, &str)]) -> Result<Socket, Error> {
    let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut request = format!("ws://{address}/subscribe?query={query}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    Ok(client_async(request, TcpStream::connect(address).await.unwrap()).await?.0)
}

/// The status of a refusal.
async fn refused(address: SocketAddr, headers: &[(&'static str, &str)]) -> u16 {
    match open(address, "SUBSCRIBE TO v", headers).await {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(error) => panic!("{error}"),
        Ok(_) => 101,
    }
}

/// The next event, or with which code the server ends it.
async fn next(socket: &mut Socket) -> Result<(String, Value), CloseCode> {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("something comes");
        match message.expect("there is an end").unwrap() {
            Message::Text(text) => {
                let event: Value = serde_json::from_str(&text).unwrap();
                return Ok((event["event"].as_str().unwrap().to_owned(), event["data"].clone()));
            }
            Message::Close(frame) => return Err(frame.expect("a reason").code),
            _ => {}
        }
    }
}

fn serve(runtime: &Runtime) -> HttpServer {
    serve_http(runtime, HttpOptions::default())
}

fn with_view() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    start(
        &runtime,
        "v",
        "CREATE MATERIALIZED VIEW v AS SELECT value, value * 2 AS w FROM sequence(count => 5)",
    );
    runtime.wait("v").unwrap();
    runtime
}

fn with_endless_view() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    start(&runtime, "v", "CREATE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 100)");
    runtime
}

#[test]
fn changes_come_as_messages_and_then_the_end() {
    let runtime = with_view();
    let server = serve(&runtime);
    run(async {
        let mut socket = open(server.address(), "SUBSCRIBE TO v", &[]).await.unwrap();
        let (event, data) = next(&mut socket).await.unwrap();
        assert_eq!((event.as_str(), data["columns"][3]["name"].as_str()), ("columns", Some("w")));
        let mut rows = Vec::new();
        let code = loop {
            match next(&mut socket).await {
                Ok((event, data)) if event == "rows" => rows.extend(data.as_array().unwrap().clone()),
                Ok((event, _)) => assert_eq!(event, "end"),
                Err(code) => break code,
            }
        };
        let values: Vec<(&str, &str)> =
            rows.iter().map(|row| (row[2].as_str().unwrap(), row[3].as_str().unwrap())).collect();
        assert_eq!(values, [("0", "0"), ("1", "2"), ("2", "4"), ("3", "6"), ("4", "8")]);
        assert_eq!(code, CloseCode::Normal);
    });
}

#[test]
fn who_may_not_ask_is_refused_before_the_connection_becomes_a_websocket() {
    let runtime = with_view();
    let server = serve(&runtime);
    let address = server.address();
    run(async {
        assert_eq!(refused(address, &[("origin", "http://evil.example")]).await, 403);
        assert_eq!(refused(address, &[("origin", "null")]).await, 403);
        assert_eq!(refused(address, &[("sec-fetch-site", "cross-site")]).await, 403);
        assert_eq!(refused(address, &[("host", "evil.example:8087")]).await, 421);
        let own = format!("http://{address}");
        assert_eq!(refused(address, &[("origin", &own)]).await, 101);
        // Once there are users, one has to say who he is.
        let server = serve_runtime(&runtime);
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(server.address().port()).user("me").dbname("db");
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("CREATE USER ada PASSWORD 'analytical' ROLE owner").await.unwrap();
        assert_eq!(refused(address, &[]).await, 401);
        assert_eq!(refused(address, &[("authorization", "Basic YWRhOndyb25n")]).await, 401);
        assert_eq!(refused(address, &[("authorization", "Basic YWRhOmFuYWx5dGljYWw=")]).await, 101);
    });
}

#[test]
fn a_statement_that_is_refused_is_told_in_a_message() {
    let server = serve(&with_view());
    run(async {
        for (query, code) in [
            ("SUBSCRIBE TO nobody", "42P01"),
            ("SELECT nope FROM v", "42703"),
            ("DROP MATERIALIZED VIEW v", "0A000"),
        ] {
            let mut socket = open(server.address(), query, &[]).await.unwrap();
            let (event, data) = next(&mut socket).await.unwrap();
            assert_eq!((event.as_str(), data["code"].as_str()), ("error", Some(code)), "{query}: {data}");
            assert_eq!(next(&mut socket).await, Err(CloseCode::Policy), "{query}");
        }
    });
}

#[test]
fn a_wrong_handshake_is_an_answer_of_http() {
    let server = serve(&with_view());
    let request = |rest: &str| {
        let head =
            "GET /subscribe?query=SUBSCRIBE+TO+v HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n";
        send(server.address(), &format!("{head}{rest}\r\n"))
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let answer = request(&format!("Connection: close\r\nSec-WebSocket-Version: 13\r\n{key}"));
    assert_eq!(answer.status, 400, "{answer:?}");
    let answer = request(&format!("Connection: close, Upgrade\r\nSec-WebSocket-Version: 8\r\n{key}"));
    assert_eq!(answer.status, 426, "{answer:?}");
    assert!(answer.head.to_ascii_lowercase().contains("sec-websocket-version: 13"), "{answer:?}");
    let answer =
        request("Connection: close, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n");
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[test]
fn a_client_that_goes_or_talks_ends_its_query_and_gives_its_room_back() {
    let runtime = with_endless_view();
    let options = HttpOptions { questions_max: 1, ..HttpOptions::default() };
    let server = serve_http(&runtime, options);
    run(async {
        for round in 0..4 {
            let start = Instant::now();
            let mut socket = loop {
                let mut socket = open(server.address(), "SUBSCRIBE TO v", &[]).await.unwrap();
                match next(&mut socket).await {
                    Ok((event, _)) if event == "columns" => break socket,
                    Ok((event, data)) => {
                        assert_eq!((event.as_str(), data["code"].as_str()), ("error", Some("53300")));
                        assert_eq!(next(&mut socket).await, Err(CloseCode::Again));
                    }
                    Err(code) => panic!("{code:?}"),
                }
                assert!(start.elapsed() < PATIENCE, "round {round}: the room is not given back");
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            // A second one finds no room.
            let mut second = open(server.address(), "SUBSCRIBE TO v", &[]).await.unwrap();
            assert_eq!(next(&mut second).await.unwrap().1["code"].as_str(), Some("53300"));
            match round {
                0 => drop(socket),
                1 => socket.close(None).await.unwrap(),
                2 => {
                    socket.send(Message::text("hello")).await.unwrap();
                    let code = loop {
                        if let Err(code) = next(&mut socket).await {
                            break code;
                        }
                    };
                    assert_eq!(code, CloseCode::Unsupported);
                }
                _ => {
                    // More than any message of a client has.
                    let _ = socket.send(Message::text("x".repeat(100_000))).await;
                }
            }
        }
    });
}

#[test]
fn a_client_that_stops_reading_learns_why_nothing_more_comes() {
    let runtime = Runtime::new(Planner::new());
    start(
        &runtime,
        "v",
        "CREATE MATERIALIZED VIEW v AS SELECT value, repeat('x', 1000) AS text FROM sequence(rate => 20000)
         WITH (retain_versions = 1000000, retain_bytes = '200 MB')",
    );
    let options = HttpOptions { unread_max: Duration::from_millis(300), ..HttpOptions::default() };
    let server = serve_http(&runtime, options);
    run(async {
        let mut socket = open(server.address(), "SUBSCRIBE TO v", &[]).await.unwrap();
        assert_eq!(next(&mut socket).await.unwrap().0, "columns");
        // It reads nothing until the server has given it up.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let mut last = None;
        let code = loop {
            match next(&mut socket).await {
                Ok(event) => last = Some(event),
                Err(code) => break code,
            }
        };
        let (event, data) = last.expect("something came");
        assert_eq!((event.as_str(), data["code"].as_str()), ("error", Some("54000")), "{data}");
        assert_eq!(code, CloseCode::Policy);
    });
}

#[test]
fn bytes_after_the_handshake_are_not_taken_for_a_request() {
    // A frame may have bytes that no head of a request may have: a bare line feed.
    // Over an endless view: the subscription must not end before the pong.
    let server = serve(&with_endless_view());
    let mut stream = StdStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "GET /subscribe?query=SUBSCRIBE+TO+v HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    // The key and what proves it are those of RFC 6455.
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    // A ping whose mask is of line feeds, with the payload "ab".
    stream.write_all(&[0x89, 0x82, b'\n', b'\n', b'\n', b'\n', b'a' ^ b'\n', b'b' ^ b'\n']).unwrap();
    let mut all = Vec::new();
    let start = Instant::now();
    while !all.windows(4).any(|part| part == [0x8a, 2, b'a', b'b']) {
        assert!(start.elapsed() < PATIENCE, "no pong: {all:?}");
        let mut part = [0; 4096];
        let count = std::io::Read::read(&mut stream, &mut part).unwrap();
        assert!(count > 0, "the connection ends without a pong: {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&part[..count]);
    }
}
