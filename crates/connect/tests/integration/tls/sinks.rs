//! Sinks that send rows over TLS.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::socket::{
    SocketAddress, SocketClientSettings, SocketClientSink, SocketServerSettings, SocketServerSink,
};
use tidemill_connect::tls::{TlsClientSettings, TlsServer, TlsServerSettings, server_name};
use tidemill_core::arrow::array::{Int64Array, RecordBatch};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::{Fault, Sink};

use crate::tls::support::cycle;
use tidemill_testing::authority::{Authority, Validity};

const ROWS: i64 = 50_000;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]))
}

/// Many rows, so that they do not fit into one buffer.
fn write(sink: &mut impl Sink) {
    let values = Int64Array::from_iter_values(0..ROWS);
    let rows = RecordBatch::try_new(schema(), vec![Arc::new(values)]).unwrap();
    sink.prepare(cycle(1, Some(rows))).unwrap();
    sink.commit(1..=1).unwrap();
}

/// The values of the lines after the header.
fn values(reader: impl Read) -> Vec<i64> {
    let lines = BufReader::new(reader).lines().map_while(Result::ok).skip(1);
    lines.map(|line| line.parse().unwrap()).collect()
}

fn server(authority: &Authority) -> TlsServerSettings {
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    TlsServerSettings::new(identity.certificates, identity.key)
}

fn trusting(authority: &Authority) -> TlsClientSettings {
    TlsClientSettings { authorities: Some(authority.file.clone()), ..TlsClientSettings::default() }
}

#[test]
fn a_reader_that_connects_gets_rows_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let mut settings = SocketServerSettings::new(TextFormat::csv());
    (settings.tls, settings.linger) = (Some(server(&authority)), Duration::from_secs(30));
    let address = SocketAddress::Tcp("127.0.0.1:0".into());
    let mut sink = SocketServerSink::listen(&address, &schema(), &settings).unwrap();
    let address = sink.address().to_string();
    let tls = trusting(&authority).load().unwrap();
    let reading = std::thread::spawn(move || {
        let connection = ClientConnection::new(tls, server_name("localhost").unwrap()).unwrap();
        values(StreamOwned::new(connection, TcpStream::connect(address).unwrap()))
    });
    let start = Instant::now();
    while sink.status().readers() == 0 {
        assert!(start.elapsed() < Duration::from_secs(120), "nobody connects");
        std::thread::yield_now();
    }
    write(&mut sink);
    sink.finish().unwrap();
    assert_eq!(reading.join().unwrap(), (0..ROWS).collect::<Vec<_>>());
}

#[test]
fn rows_are_sent_over_tls_to_a_reader_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = SocketAddress::Tcp(format!("localhost:{}", listener.local_addr().unwrap().port()));
    let tls = TlsServer::open(server(&authority)).unwrap();
    let reading = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let first = values(StreamOwned::new(ServerConnection::new(tls.config()).unwrap(), socket));
        // The next one hangs up during the handshake.
        let (socket, _) = listener.accept().unwrap();
        let second = values(StreamOwned::new(ServerConnection::new(tls.config()).unwrap(), socket));
        (first, second)
    });
    let mut settings = SocketClientSettings::new(TextFormat::csv());
    settings.tls = Some(trusting(&authority));
    let mut sink = SocketClientSink::connect(&address, &schema(), &settings).unwrap();
    write(&mut sink);
    sink.finish().unwrap();
    drop(sink);

    let stranger = Authority::new(folder.path(), "stranger");
    settings.tls = Some(trusting(&stranger));
    let Err(cause) = SocketClientSink::connect(&address, &schema(), &settings) else {
        panic!("it is trusted")
    };
    assert_eq!(cause.fault, Fault::User);
    assert!(cause.message.contains("an authority that is not trusted here; name the file"), "{cause}");
    assert_eq!(reading.join().unwrap(), ((0..ROWS).collect::<Vec<_>>(), Vec::new()));
}
