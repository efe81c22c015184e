//! A source that listens, and senders that may or may not be let in.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use tempfile::TempDir;
use tidemill_connect::formats::Format;
use tidemill_connect::socket::TcpLines;
use tidemill_connect::tls::{TlsClientSettings, TlsIdentity, TlsServerSettings, server_name};

use crate::tls::fixture::{Received, faults, listen, poll_until, rows, send, settings};
use tidemill_testing::authority::{Authority, Validity};

/// A source whose senders must show a certificate, if `demands` says so.
fn source(demands: bool) -> (TempDir, Authority, TcpLines) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let server = authority.issue("server", &["localhost", "127.0.0.1"], Validity::Now);
    let mut tls = TlsServerSettings::new(server.certificates, server.key);
    tls.client_authorities = demands.then(|| authority.file.clone());
    let mut settings = settings(Format::Json);
    settings.tls_server = Some(tls);
    let lines = listen(settings);
    (folder, authority, lines)
}

/// Connects and sends a row. The error is the sender's, which may come only after its handshake.
fn try_send(address: SocketAddr, settings: &TlsClientSettings) -> std::io::Result<()> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(120)))?;
    let connection = ClientConnection::new(settings.load().unwrap(), server_name("localhost").unwrap())
        .map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    send(&mut stream, 1, 7);
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(std::net::Shutdown::Write)?;
    stream.read(&mut [0]).map(drop)
}

fn trusting(authority: &Authority, identity: Option<TlsIdentity>) -> TlsClientSettings {
    TlsClientSettings { authorities: Some(authority.file.clone()), identity, ..TlsClientSettings::default() }
}

/// What comes of a sender with this certificate, where one of `authority` is demanded.
fn shown(identity: impl FnOnce(&Authority) -> Option<TlsIdentity>) -> (Received, std::io::Result<()>) {
    let (_folder, authority, mut lines) = source(true);
    let (address, settings) = (lines.local_address().unwrap(), trusting(&authority, identity(&authority)));
    let sender = std::thread::spawn(move || std::panic::catch_unwind(|| try_send(address, &settings)));
    let received = poll_until(&mut lines, |received| !received.rows.is_empty() || received.faults.count > 0);
    let sent = sender.join().unwrap().unwrap_or_else(|_| Err(std::io::Error::other("cut off")));
    (received, sent)
}

#[test]
fn rows_of_encrypted_senders_come_in() {
    let (_folder, authority, mut lines) = source(false);
    let address = lines.local_address().unwrap();
    let settings = trusting(&authority, None);
    let sender = std::thread::spawn(move || try_send(address, &settings));
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 7)]);
    sender.join().unwrap().unwrap();
}

#[test]
fn openssl_is_a_sender_too() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: there is no openssl here");
        return;
    }
    let (_folder, authority, mut lines) = source(true);
    let client = authority.issue("client", &["client"], Validity::Now);
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-verify_return_error", "-verify_hostname", "localhost", "-connect"]);
    openssl.arg(lines.local_address().unwrap().to_string()).arg("-CAfile").arg(&authority.file);
    openssl.arg("-cert").arg(&client.certificates).arg("-key").arg(&client.key);
    let mut child =
        openssl.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    send(child.stdin.as_mut().unwrap(), 3, 9);
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(3, 9)]);
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_plain_sender_is_cut_off_with_the_reason() {
    let (_folder, _authority, mut lines) = source(false);
    let mut sender = TcpStream::connect(lines.local_address().unwrap()).unwrap();
    send(&mut sender, 1, 7);
    let received = poll_until(&mut lines, faults(1));
    assert_eq!(received.rows, []);
    assert!(received.fault().starts_with("tcp peer 127.0.0.1:"), "{}", received.fault());
    assert!(received.fault().contains(": closed: it does not speak TLS; let it connect with TLS"));
    // An alert, and the end; a reset if the line was not read to its end.
    sender.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = sender.read_to_end(&mut Vec::new()).map_err(|error| {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn who_shows_a_certificate_of_the_authority_is_let_in() {
    let (received, sent) = shown(|authority| Some(authority.issue("client", &["client"], Validity::Now)));
    assert_eq!(received.rows, [(1, 7)]);
    sent.unwrap();
}

#[test]
fn who_shows_none_or_another_is_not() {
    let (received, sent) = shown(|_| None);
    assert!(
        received.fault().contains("closed: it shows no certificate, which is required here"),
        "{received:?}"
    );
    assert!(sent.is_err());

    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Authority::new(elsewhere.path(), "stranger");
    let (received, sent) = shown(|_| Some(stranger.issue("client", &["client"], Validity::Now)));
    assert!(
        received.fault().contains("its certificate comes from an authority that is not trusted here"),
        "{received:?}"
    );
    assert!(sent.is_err());

    let (received, sent) = shown(|authority| Some(authority.issue("client", &["client"], Validity::Expired)));
    assert!(received.fault().contains("its certificate has expired; renew it"), "{received:?}");
    assert!(sent.is_err());
}

#[test]
fn a_sender_that_says_nothing_does_not_hold_up_the_others() {
    let (_folder, authority, mut lines) = source(false);
    let address = lines.local_address().unwrap();
    let _silent = TcpStream::connect(address).unwrap();
    let settings = trusting(&authority, None);
    let sender = std::thread::spawn(move || try_send(address, &settings));
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 7)]);
    sender.join().unwrap().unwrap();
}
