//! Files that are missing, wrong, open to everyone, or replaced.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use tidemill_connect::tls::{TlsClientSettings, TlsServer, TlsServerSettings};

use tidemill_testing::authority::{Authority, Validity};

fn refused(settings: TlsServerSettings) -> String {
    TlsServer::open(settings).unwrap_err().message.to_string()
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let one = authority.issue("one", &["localhost"], Validity::Now);
    let other = authority.issue("other", &["localhost"], Validity::Now);
    let garbage = folder.path().join("garbage.pem");
    std::fs::write(&garbage, "hello").unwrap();
    let cut = folder.path().join("cut.pem");
    std::fs::write(&cut, "-----BEGIN CERTIFICATE-----\nMIIB\n").unwrap();

    let missing = refused(TlsServerSettings::new("/nowhere.pem", &one.key));
    assert!(
        missing.starts_with("the certificates in '/nowhere.pem' cannot be read: No such file"),
        "{missing}"
    );
    let text = refused(TlsServerSettings::new(&garbage, &one.key));
    assert!(text.contains("garbage.pem' cannot be used: it has no certificate; name a file"), "{text}");
    let text = refused(TlsServerSettings::new(&cut, &one.key));
    assert!(text.contains("cut.pem' cannot be used: it ends within a section"), "{text}");
    let text = refused(TlsServerSettings::new(&one.certificates, &one.certificates));
    assert!(text.starts_with("the key of a certificate: '"), "{text}");
    let text = refused(TlsServerSettings::new(&one.certificates, &other.key));
    assert!(text.contains("is not that of the first certificate in"), "{text}");
    let folder_as_file = refused(TlsServerSettings::new(folder.path(), &one.key));
    assert!(folder_as_file.contains("it is not a file of at most 8 MiB"), "{folder_as_file}");

    let client = TlsClientSettings { authorities: Some(garbage), ..TlsClientSettings::default() };
    let text = client.load().unwrap_err().message.to_string();
    assert!(text.contains("garbage.pem' cannot be used: it has no certificate"), "{text}");
}

#[test]
fn a_key_that_everyone_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let one = authority.issue("one", &["localhost"], Validity::Now);
    std::fs::set_permissions(&one.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = refused(TlsServerSettings::new(&one.certificates, &one.key));
    assert!(text.contains("may be read by other users (its mode is 0644); run chmod o= "), "{text}");
    std::fs::set_permissions(&one.key, std::fs::Permissions::from_mode(0o640)).unwrap();
    TlsServer::open(TlsServerSettings::new(&one.certificates, &one.key)).unwrap();
}

#[test]
fn files_that_are_replaced_count_from_then_on_and_broken_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let one = authority.issue("one", &["localhost"], Validity::Now);
    let server = TlsServer::open(TlsServerSettings::new(&one.certificates, &one.key)).unwrap();
    let first = server.config();

    std::fs::write(&one.certificates, "broken").unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        assert!(std::sync::Arc::ptr_eq(&first, &server.config()), "a broken file was taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    authority.issue("one", &["localhost"], Validity::Now);
    let start = Instant::now();
    while std::sync::Arc::ptr_eq(&first, &server.config()) {
        assert!(start.elapsed() < Duration::from_secs(30), "the new files were not taken");
        std::thread::sleep(Duration::from_millis(50));
    }
}
