//! TLS with a real server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
use tidemill_connect::tls::TlsIdentity;

use crate::postgres::{commit, rows, schema, user_error};
use tidemill_testing::authority::{Authority, Validity};
use tidemill_testing::postgres::{Server, is_root, run, write_as_owner};

/// Switches TLS on. The user `encrypted` is let in only with TLS, and `certified` only with a certificate of the
/// authority.
fn enable_tls(server: &Server, shown: &TlsIdentity, authority: &Path) {
    let data = server.folder.join("data");
    for (file, name) in
        [(&*shown.certificates, "server.crt"), (&*shown.key, "server.key"), (authority, "ca.crt")]
    {
        let target = data.join(name);
        std::fs::copy(file, &target).unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&target));
        }
    }
    let settings = std::fs::read_to_string(data.join("postgresql.auto.conf")).unwrap();
    let settings = settings + "ssl = on\nssl_ca_file = 'ca.crt'\n";
    write_as_owner(&data.join("postgresql.auto.conf"), &settings);
    let rules = std::fs::read_to_string(data.join("pg_hba.conf")).unwrap();
    let rules = "hostnossl all encrypted,certified 127.0.0.1/32 reject\n\
                 hostssl all certified 127.0.0.1/32 trust clientcert=verify-ca\n"
        .to_owned()
        + &rules;
    write_as_owner(&data.join("pg_hba.conf"), &rules);
    server.control(&["restart"]);
    for role in ["encrypted", "certified"] {
        server.query(&format!("DROP ROLE IF EXISTS {role}"));
        server.query(&format!("CREATE ROLE {role} SUPERUSER LOGIN"));
    }
}

/// A server that shows this certificate.
fn server(authority: &Authority, identity: &TlsIdentity) -> Option<Server> {
    let server = Server::start()?;
    enable_tls(&server, identity, &authority.file);
    Some(server)
}

fn url(server: &Server, user: &str, host: &str, parameters: &str) -> String {
    format!("postgres://{user}@{host}:{}/postgres?{parameters}", server.port)
}

fn connect(url: String, table: &str) -> Result<PostgresSink, tidemill_core::Cause> {
    PostgresSink::connect(&schema(), PostgresSinkSettings::new(url, table, table))
}

fn root(path: &Path) -> String {
    format!("sslrootcert={}", path.display())
}

#[test]
fn what_is_encrypted_and_checked_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    let Some(server) = server(&authority, &identity) else { return };

    let full = format!("sslmode=verify-full&{}", root(&authority.file));
    let mut sink = connect(url(&server, "encrypted", "localhost", &full), "verified").unwrap();
    commit(&mut sink, 1, &rows(&[("a", 1)])).unwrap();
    assert_eq!(server.query("SELECT * FROM verified"), "a|1");
    // The server says itself that the connection is encrypted.
    let encrypted = "SELECT version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'tidemill' AND ssl";
    assert_eq!(server.query(encrypted), "TLSv1.3");

    // As psql does it: used where it is offered, without checks.
    connect(url(&server, "encrypted", "127.0.0.1", ""), "offered").unwrap();
    connect(url(&server, "encrypted", "127.0.0.1", "sslmode=require"), "required").unwrap();
    let any_name = format!("sslmode=verify-ca&{}", root(&authority.file));
    connect(url(&server, "encrypted", "127.0.0.1", &any_name), "any_name").unwrap();
    let words = format!(
        "host=localhost port={} user=encrypted dbname=postgres sslmode = verify-full sslrootcert='{}'",
        server.port,
        authority.file.display()
    );
    connect(words, "words").unwrap();
    let text = user_error(connect(url(&server, "encrypted", "127.0.0.1", "sslmode=disable"), "without"));
    assert!(text.contains("pg_hba.conf rejects connection"), "{text}");

    // Encrypted again after the server has gone and come back.
    server.crash();
    server.resume();
    commit(&mut sink, 2, &rows(&[("b", 2)])).unwrap();
    assert_eq!(server.query("SELECT count(*) FROM verified"), "2");
    assert_eq!(server.query(encrypted), "TLSv1.3");
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    let Some(server) = server(&authority, &identity) else { return };
    let refused = |host: &str, parameters: &str| {
        user_error(connect(url(&server, "encrypted", host, parameters), "refused"))
    };

    let text = refused("localhost", &format!("sslmode=verify-full&{}", root(&stranger.file)));
    assert!(text.starts_with(&format!("PostgreSQL at localhost:{}: its certificate", server.port)), "{text}");
    assert!(text.contains("comes from an authority that is not trusted here"), "{text}");
    let text = refused("localhost", "sslmode=verify-full");
    assert!(text.contains("comes from an authority that is not trusted here"), "{text}");
    let text = refused("127.0.0.1", &format!("sslmode=verify-full&{}", root(&authority.file)));
    assert!(text.contains("its certificate is for") && text.contains("not for 127.0.0.1"), "{text}");
    let text = refused("localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem");
    assert!(text.contains("the certificates in '/nowhere.pem' cannot be read: No such file"), "{text}");

    authority.issue("server", &["localhost"], Validity::Expired);
    enable_tls(&server, &identity, &authority.file);
    let text = refused("localhost", &format!("sslmode=verify-full&{}", root(&authority.file)));
    assert!(text.contains("its certificate has expired; renew it, and check the clocks"), "{text}");
}

#[test]
fn a_server_that_demands_a_certificate_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    let Some(server) = server(&authority, &identity) else { return };
    let client = authority.issue("client", &["client"], Validity::Now);
    let full = format!("sslmode=verify-full&{}", root(&authority.file));
    let text = user_error(connect(url(&server, "certified", "localhost", &full), "without"));
    assert!(text.contains("requires a valid client certificate"), "{text}");
    let shown = format!("{full}&sslcert={}&sslkey={}", client.certificates.display(), client.key.display());
    connect(url(&server, "certified", "localhost", &shown), "shown").unwrap();
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_demanded() {
    let Some(server) = crate::postgres::server() else { return };
    let text = user_error(connect(url(server, "tidemill", "localhost", "sslmode=require"), "plain"));
    assert!(
        text.contains("the server does not offer TLS; switch it on (ssl = on), or write sslmode=prefer"),
        "{text}"
    );
}
