//! A source that connects to a server, which may not be whom it should be.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};
use tidemill_connect::formats::Format;
use tidemill_connect::socket::TcpLines;
use tidemill_connect::tls::{TlsClientSettings, TlsIdentity, TlsServer, TlsServerSettings};
use tidemill_core::source::{Polled, Source};

use crate::tls::fixture::{poll_until, rows, settings};
use tidemill_testing::authority::{Authority, Validity};

/// A server that sends one row to whoever connects, by the name of this machine.
fn serve(tls: TlsServerSettings) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let server = TlsServer::open(tls).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&server.config())).unwrap();
            let mut stream = StreamOwned::new(connection, socket.unwrap());
            // A client that does not trust it hangs up.
            let _ = stream.write_all(b"{\"sender\": 2, \"value\": 5}\n").and_then(|()| stream.flush());
            let _ = stream.read(&mut [0]);
        }
    });
    address
}

fn source(address: &str, tls: TlsClientSettings) -> TcpLines {
    let mut settings = settings(Format::Json);
    (settings.tls_client, settings.attempts_max) = (Some(tls), 1);
    TcpLines::connect(address, settings).unwrap()
}

/// Why the source ends.
fn failure(address: &str, tls: TlsClientSettings) -> String {
    let mut source = source(address, tls);
    loop {
        match source.poll(std::time::Duration::from_secs(30)) {
            Ok(Polled::Nothing) => {}
            Ok(other) => panic!("{other:?}"),
            Err(cause) => return cause.message.to_string(),
        }
    }
}

fn trusting(authority: &Authority) -> TlsClientSettings {
    TlsClientSettings { authorities: Some(authority.file.clone()), ..TlsClientSettings::default() }
}

fn server_of(identity: TlsIdentity) -> String {
    serve(TlsServerSettings { identity, client_authorities: None, protocols: Vec::new() })
}

#[test]
fn a_server_with_a_certificate_for_its_name_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let address = server_of(authority.issue("server", &["localhost"], Validity::Now));
    let mut source = source(&address, trusting(&authority));
    assert_eq!(poll_until(&mut source, rows(1)).rows, [(2, 5)]);
}

#[test]
fn a_server_that_cannot_be_trusted_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");

    let good = server_of(authority.issue("server", &["localhost"], Validity::Now));
    let text = failure(&good, trusting(&stranger));
    assert!(
        text.contains(": its certificate comes from an authority that is not trusted here; name the file"),
        "{text}"
    );
    // The system's authorities have not issued it, either.
    let text = failure(&good, TlsClientSettings::default());
    assert!(text.contains("an authority that is not trusted here"), "{text}");

    let expired = server_of(authority.issue("expired", &["localhost"], Validity::Expired));
    let text = failure(&expired, trusting(&authority));
    assert!(text.contains("its certificate has expired; renew it, and check the clocks"), "{text}");

    let other = server_of(authority.issue("other", &["example.org"], Validity::Now));
    let text = failure(&other, trusting(&authority));
    assert!(text.contains("its certificate is for") && text.contains("example.org"), "{text}");
    assert!(text.contains("not for localhost"), "{text}");
}

#[test]
fn a_server_that_demands_a_certificate_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let mut tls = {
        let identity = authority.issue("server", &["localhost"], Validity::Now);
        TlsServerSettings::new(identity.certificates, identity.key)
    };
    tls.client_authorities = Some(authority.file.clone());
    let address = serve(tls);
    let client = authority.issue("client", &["client"], Validity::Now);
    let shows = TlsClientSettings { identity: Some(client), ..trusting(&authority) };
    assert_eq!(poll_until(&mut source(&address, shows), rows(1)).rows, [(2, 5)]);

    // In TLS 1.3, the client's handshake is over when the server looks at its certificate.
    let mut without = source(&address, trusting(&authority));
    let received = poll_until(&mut without, |received| received.faults.count > 0);
    assert_eq!(received.rows, []);
    assert!(received.fault().contains("it demands a certificate; name the files"), "{received:?}");
}

#[test]
fn a_server_without_tls_is_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(b"{\"sender\": 2, \"value\": 5}\n");
        let _ = socket.read(&mut [0; 4096]);
    });
    let text = failure(&address, TlsClientSettings::default());
    assert!(text.contains("it does not speak TLS"), "{text}");
}
