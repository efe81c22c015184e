//! Files over TLS.

use std::io::Write;
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};
use tidemill_connect::tls::{TlsClientSettings, TlsServer, TlsServerSettings};

use crate::fetch::support::{assert_told, read, refusal, settings};
use tidemill_testing::authority::{Authority, Validity};
use tidemill_testing::file_server::{Request, Server, Stream, say};

fn start(
    authority: &Authority,
    (name, validity): (&str, Validity),
    answer: impl Fn(&Request, &mut dyn Stream) -> std::io::Result<()> + Send + Sync + 'static,
) -> Server {
    let identity = authority.issue("server", &[name], validity);
    let tls = TlsServer::open(TlsServerSettings::new(identity.certificates, identity.key)).unwrap();
    let tls = Arc::new(tls);
    let layer = move |stream| -> Box<dyn Stream> {
        Box::new(StreamOwned::new(ServerConnection::new(tls.config()).unwrap(), stream))
    };
    Server::with_layer(layer, answer)
}

fn url(server: &Server) -> String {
    format!("https://localhost:{}/a.csv?token=secret", server.port)
}

fn trusting(server: &Server, authority: &Authority) -> tidemill_connect::file::FileSettings {
    let mut settings = settings(&url(server));
    settings.fetch.tls =
        TlsClientSettings { authorities: Some(authority.file.clone()), ..Default::default() };
    settings
}

#[test]
fn files_come_from_whom_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let file = |_: &Request, stream: &mut dyn Stream| say(stream, "200 OK", "", b"id\n1\n");
    let server = start(&authority, ("localhost", Validity::Now), file);
    assert_eq!(read(trusting(&server, &authority)).unwrap(), [1]);
    let stranger = Authority::new(folder.path(), "stranger");
    assert_told(
        &refusal(trusting(&server, &stranger)),
        &["/a.csv: ", "an authority that is not trusted here"],
    );
    let other = start(&authority, ("elsewhere.example", Validity::Now), file);
    assert_told(
        &refusal(trusting(&other, &authority)),
        &["its certificate is for ", "elsewhere.example", "not for localhost"],
    );
    let old = start(&authority, ("localhost", Validity::Expired), file);
    assert_told(&refusal(trusting(&old, &authority)), &["its certificate has expired"]);
    let mut missing = trusting(&server, &authority);
    missing.fetch.tls.authorities = Some(folder.path().join("none.pem"));
    assert_told(&refusal(missing), &["none.pem"]);
}

#[test]
fn nothing_leads_from_an_encrypted_server_to_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let plain = Server::of_file("id\n1\n");
    let location = format!("Location: {}\r\n", plain.url("a.csv"));
    let moved = move |_: &Request, stream: &mut dyn Stream| say(stream, "302 Found", &location, b"");
    let server = start(&authority, ("localhost", Validity::Now), moved);
    assert_told(
        &refusal(trusting(&server, &authority)),
        &["redirects from https:// to ", "which is not encrypted"],
    );
    assert!(plain.requests().is_empty());
    // A server without TLS.
    let plain = Server::with_layer(
        |mut stream| {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
            Box::new(stream)
        },
        |_, _| Ok(()),
    );
    let mut wanted = settings(&format!("https://localhost:{}/a.csv", plain.port));
    wanted.fetch.tls.authorities = Some(authority.file.clone());
    assert_told(&refusal(wanted), &["it does not speak TLS"]);
}
