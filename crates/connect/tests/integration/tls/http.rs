//! Requests over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use tidemill_connect::formats::DecoderSettings;
use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_connect::tls::{TlsClientSettings, TlsServerSettings, server_name};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::source::{Polled, Source};

use tidemill_testing::authority::{Authority, Validity};

const PATIENCE: Duration = Duration::from_secs(120);
const REQUEST: &[u8] =
    b"POST /api/v2/write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 12\r\n\r\ncpu usage=1\n";

fn source(authority: &Authority, demands: bool) -> HttpSource {
    let schema = Arc::new(Schema::new(vec![Field::new("usage", DataType::Float64, true)]));
    let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
    let mut settings = HttpSettings::new("127.0.0.1:0", decoder);
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    let mut tls = TlsServerSettings::new(identity.certificates, identity.key);
    tls.client_authorities = demands.then(|| authority.file.clone());
    settings.tls = Some(tls);
    HttpSource::listen(settings).unwrap()
}

/// Sends the request; the answer, as far as it comes.
fn ask(address: std::net::SocketAddr, tls: &TlsClientSettings) -> std::io::Result<String> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let connection = ClientConnection::new(tls.load().unwrap(), server_name("localhost").unwrap())
        .map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

fn fault(source: &mut HttpSource) -> String {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "no fault came");
        assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
        let faults = source.faults();
        if faults.count > 0 {
            return faults.samples.into_iter().next().unwrap_or_default();
        }
    }
}

#[test]
fn requests_over_tls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let mut source = source(&authority, true);
    let address = source.local_address();
    let tls = TlsClientSettings {
        authorities: Some(authority.file.clone()),
        identity: Some(authority.issue("client", &["client"], Validity::Now)),
        ..TlsClientSettings::default()
    };
    let asking = std::thread::spawn(move || ask(address, &tls));
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "no rows came");
        if let Polled::Rows(rows) = source.poll(Duration::from_millis(20)).unwrap() {
            assert_eq!(rows.num_rows(), 1);
            break;
        }
    }
    // Answered by the next poll at the latest.
    let _ = source.poll(Duration::ZERO).unwrap();
    assert!(asking.join().unwrap().unwrap().starts_with("HTTP/1.1 204"));
}

#[test]
fn who_does_not_speak_tls_or_shows_no_certificate_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let mut source = source(&authority, true);
    let mut plain = TcpStream::connect(source.local_address()).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(REQUEST).unwrap();
    let text = fault(&mut source);
    assert!(
        text.starts_with("http peer 127.0.0.1:") && text.contains(": closed: it does not speak TLS;"),
        "{text}"
    );
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let address = source.local_address();
    let tls = TlsClientSettings { authorities: Some(authority.file.clone()), ..TlsClientSettings::default() };
    let asking = std::thread::spawn(move || ask(address, &tls));
    let text = fault(&mut source);
    assert!(text.contains("it shows no certificate, which is required here"), "{text}");
    assert!(asking.join().unwrap().is_err());
}
