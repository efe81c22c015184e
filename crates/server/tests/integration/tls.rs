//! Encryption of both ports: what clients that check everything see, and who is not served without it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use crate::support::{PATIENCE, serve_http};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tidemill_connect::tls::{TlsServer, TlsServerSettings};
use tidemill_server::{HttpOptions, HttpServer, Server, ServerOptions};
use tidemill_service::Runtime;
use tidemill_sql::Planner;

/// An authority, and certificates for the server and for a client, in a folder.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(parameters, key);
        let purposes = [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ];
        for (name, purpose) in purposes {
            let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.extended_key_usages = vec![purpose];
            let key = KeyPair::generate().unwrap();
            let certificate = parameters.signed_by(&key, &issuer).unwrap();
            std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            let file = folder.path().join(format!("{name}.key"));
            std::fs::write(&file, key.serialize_pem()).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        Files { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tls(&self, asks_for_certificates: bool) -> Arc<TlsServer> {
        let mut settings = TlsServerSettings::new(self.path("server.pem"), self.path("server.key"));
        settings.client_authorities = asks_for_certificates.then(|| self.path("ca.pem"));
        Arc::new(TlsServer::open(settings).unwrap())
    }
}

fn serve(tls: Arc<TlsServer>) -> Server {
    let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
    Server::start(&Runtime::new(Planner::new()), "127.0.0.1:0".parse().unwrap(), options).unwrap()
}

/// What psql says; `None` if it is not there.
fn psql(server: &Server, folder: &Path, options: &str, statement: &str) -> Option<Output> {
    let connection = format!("host=localhost port={} user=me dbname=db {options}", server.address().port());
    let mut command = Command::new("psql");
    // Nothing from the home of whoever runs the test.
    command.env("HOME", folder).args(["-X", "-A", "-t", "-d", &connection, "-c", statement]);
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            let is_required = std::env::var("TIDEMILL_CLIENTS").is_ok_and(|value| value == "required");
            assert!(!is_required, "psql cannot be run: {error}");
            eprintln!("skipped: psql cannot be run: {error}");
            None
        }
    }
}

#[test]
fn a_client_that_checks_everything_is_served() {
    let files = Files::new();
    let server = serve(files.tls(false));
    let folder = files.folder.path();
    let verified = format!("sslmode=verify-full sslrootcert={}", files.path("ca.pem").display());
    // Enough rows for many records of TLS in both directions.
    let many = "SELECT value FROM sequence(count => 50000) ORDER BY value";
    let Some(answered) = psql(&server, folder, &verified, many) else { return };
    let told = String::from_utf8_lossy(&answered.stderr).into_owned();
    let rows = String::from_utf8(answered.stdout).unwrap();
    assert_eq!(rows.lines().count(), 50_000, "{told}");
    assert!(rows.lines().enumerate().all(|(at, row)| row == at.to_string()));
    // And far more in one request than is decrypted at once.
    let long = format!("SELECT length('{}') AS n", "x".repeat(100_000));
    assert_eq!(psql(&server, folder, &verified, &long).unwrap().stdout, b"100000\n");
    // Of this machine, and no certificates are asked for: without is allowed.
    assert_eq!(psql(&server, folder, "sslmode=disable", "SELECT 1").unwrap().stdout, b"1\n");
    let other = Files::new();
    let unknown = format!("sslmode=verify-full sslrootcert={}", other.path("ca.pem").display());
    assert!(!psql(&server, folder, &unknown, "SELECT 1").unwrap().status.success());
}

#[test]
fn clients_must_show_certificates_if_they_are_asked_for() {
    let files = Files::new();
    let server = serve(files.tls(true));
    let folder = files.folder.path();
    let (ca, certificate, key) = (files.path("ca.pem"), files.path("client.pem"), files.path("client.key"));
    let verified = format!("sslmode=verify-full sslrootcert={}", ca.display());
    let shown = format!("{verified} sslcert={} sslkey={}", certificate.display(), key.display());
    let Some(answered) = psql(&server, folder, &shown, "SELECT 1") else { return };
    assert_eq!(answered.stdout, b"1\n", "{}", String::from_utf8_lossy(&answered.stderr));
    assert!(!psql(&server, folder, &verified, "SELECT 1").unwrap().status.success());
    // Not even this machine gets around it.
    let plain = psql(&server, folder, "sslmode=disable", "SELECT 1").unwrap();
    assert!(String::from_utf8_lossy(&plain.stderr).contains("must be encrypted"), "{plain:?}");
}

#[test]
fn what_is_no_handshake_ends_the_connection_only() {
    let files = Files::new();
    let server = serve(files.tls(false));
    for bytes in
        [&b""[..], b"\0", &[0xff; 3000], b"\x16\x03\x01\xff\xff", b"\0\0\0\x11\0\x03\0\0user\0me\0\0"]
    {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        // No error of the protocol is sent where only TLS is understood, and no session begins.
        assert!(!String::from_utf8_lossy(&rest).contains("server_version"));
    }
    if let Some(answered) = psql(&server, files.folder.path(), "sslmode=require", "SELECT 1") {
        assert_eq!(answered.stdout, b"1\n");
    }
}

#[test]
fn http_becomes_https() {
    let files = Files::new();
    let options = HttpOptions { tls: Some(files.tls(false)), ..HttpOptions::default() };
    let server: HttpServer = serve_http(&Runtime::new(Planner::new()), options);
    assert_eq!(server.scheme(), "https");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"));
    let url = format!("https://localhost:{}/health", server.address().port());
    let ca = files.path("ca.pem");
    let asked = Command::new("curl").args(["-s", "--cacert", ca.to_str().unwrap(), &url]).output();
    match asked {
        Ok(answered) => assert!(String::from_utf8_lossy(&answered.stdout).contains("ok"), "{answered:?}"),
        Err(error) => eprintln!("skipped: curl cannot be run: {error}"),
    }
    // Encryption alone lets nobody in.
    let everywhere = HttpOptions { tls: Some(files.tls(false)), ..HttpOptions::default() };
    let open = HttpServer::start("0.0.0.0:0".parse().unwrap(), everywhere).unwrap();
    assert!(open.serve(&Runtime::new(Planner::new())).unwrap_err().to_string().contains("no users"));
}
