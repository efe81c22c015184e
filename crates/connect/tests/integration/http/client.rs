//! A source that is polled on a thread of its own, and a client that writes requests byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidemill_connect::formats::DecoderSettings;
use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::source::{Polled, Request, Source};

pub const WAIT: Duration = Duration::from_secs(120);

pub fn settings() -> HttpSettings {
    let schema = Arc::new(Schema::new(vec![
        Field::new("host", DataType::Utf8, true),
        Field::new("usage", DataType::Float64, true),
    ]));
    HttpSettings::new("127.0.0.1:0", DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 })
}

pub fn listen(settings: HttpSettings) -> (HttpSource, SocketAddr) {
    let source = HttpSource::listen(settings).expect("listens");
    let address = source.local_address();
    (source, address)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(WAIT)).expect("set");
    stream
}

pub fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Status, head and body of the next answer.
pub fn answer(stream: &mut TcpStream) -> (u16, String, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(
            stream.read(&mut byte).expect("answered"),
            1,
            "closed: {}",
            String::from_utf8_lossy(&head)
        );
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("answered");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head, String::from_utf8(body).expect("text"))
}

pub fn send(address: SocketAddr, request: &[u8]) -> (u16, String, String) {
    let mut stream = connect(address);
    stream.write_all(request).expect("sent");
    answer(&mut stream)
}

/// The number of rows of the next batch.
pub fn rows(source: &mut HttpSource) -> usize {
    match source.poll(WAIT).expect("polled") {
        Polled::Rows(rows) | Polled::Request { rows, .. } => rows.num_rows(),
        other => panic!("{other:?}"),
    }
}

/// The number of rows of the next batch, which is a numbered request, and that request.
pub fn request_of(source: &mut HttpSource) -> (usize, Request) {
    match source.poll(WAIT).expect("polled") {
        Polled::Request { rows, request } => (rows.num_rows(), request),
        other => panic!("{other:?}"),
    }
}
