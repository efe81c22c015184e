//! Users with passwords and roles, as drivers and strangers see them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{PATIENCE, get, send, serve_http, wait_until};
use tidemill_server::{HttpOptions, Server, ServerOptions};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

fn serve(runtime: &Runtime, options: ServerOptions) -> Server {
    Server::start(runtime, "127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn connect(server: &Server, user: &str, password: &str) -> Result<Client, tokio_postgres::Error> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user(user).password(password).dbname("db");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A database whose owner is `ada` with the password `analytical`.
fn with_owner() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    let server = serve(&runtime, ServerOptions::default());
    block_on(async {
        let anybody = connect(&server, "anybody", "").await.unwrap();
        anybody.batch_execute("CREATE USER ada PASSWORD 'analytical' ROLE owner").await.unwrap();
        // Its session continues as it began.
        anybody.batch_execute("CREATE VIEW one AS SELECT 1 AS n").await.unwrap();
    });
    runtime
}

fn code(error: &tokio_postgres::Error) -> SqlState {
    error.code().cloned().unwrap_or_else(|| panic!("no code: {error:?}"))
}

#[test]
fn who_does_not_know_the_password_has_no_session() {
    let runtime = with_owner();
    let server = serve(&runtime, ServerOptions::default());
    block_on(async {
        let ada = connect(&server, "ada", "analytical").await.unwrap();
        assert_eq!(ada.query_one("SELECT n FROM one", &[]).await.unwrap().get::<_, i64>(0), 1);
        for (user, password) in
            [("ada", "Analytical"), ("ada", ""), ("bob", "analytical"), ("ADA", "analytical")]
        {
            let error = connect(&server, user, password).await.map(drop).unwrap_err();
            // A driver without a password does not even try.
            if !password.is_empty() {
                assert_eq!(code(&error), SqlState::INVALID_PASSWORD, "{user}");
            }
        }
        ada.batch_execute("ALTER USER ada PASSWORD 'difference'").await.unwrap();
        assert!(connect(&server, "ada", "analytical").await.is_err());
        assert!(connect(&server, "ada", "difference").await.is_ok());
    });
}

#[test]
fn each_role_does_what_it_may_and_changes_count_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.csv");
    std::fs::write(&file, "word\ngeheim\n").unwrap();
    let runtime = with_owner();
    let server = serve(&runtime, ServerOptions::default());
    block_on(async {
        let ada = connect(&server, "ada", "analytical").await.unwrap();
        ada.batch_execute("CREATE USER eve WITH PASSWORD 'apple'").await.unwrap();
        let eve = connect(&server, "eve", "apple").await.unwrap();
        let refused = async |text: &str| code(&eve.batch_execute(text).await.expect_err(text));
        eve.batch_execute("SELECT n FROM one; SET application_name = 'x'; SHOW SOURCES").await.unwrap();
        for text in [
            "CREATE VIEW two AS SELECT 2 AS n",
            "DROP VIEW one",
            "STOP MATERIALIZED VIEW one",
            "START SINK one",
            "ALTER SINK one SET (max_latency = '1 s')",
            "SET workers = 256",
            "INSERT INTO pushed VALUES (1)",
            "INSERT INTO sink SELECT n FROM one",
            "CREATE USER mallory PASSWORD 'm' ROLE owner",
            "ALTER USER eve ROLE owner",
            "ALTER USER ada PASSWORD 'mine'",
            "DROP USER ada",
        ] {
            assert_eq!(refused(text).await, SqlState::INSUFFICIENT_PRIVILEGE, "{text}");
        }
        let by_path = format!("SELECT word FROM '{}'", file.display());
        ada.batch_execute(&by_path).await.unwrap();
        for text in [
            by_path.clone(),
            by_path.replace("secret", "none"),
            "SELECT * FROM 'http://127.0.0.1:1/secret.csv'".to_owned(),
            format!("SELECT line FROM lines('{}')", file.display()),
            format!("SELECT relname FROM pg_class, '{}'", file.display()),
        ] {
            let error = eve.batch_execute(&text).await.expect_err(&text);
            let told = error.as_db_error().unwrap().message().to_owned();
            assert!(told.contains("you may not open files"), "{text}: {told}");
            assert!(eve.prepare(&text).await.is_err());
        }
        // Who may write rows may not define what a sink receives.
        let pushed = "CREATE SOURCE pushed (n BIGINT) WITH (connector = 'push');
            CREATE MATERIALIZED VIEW taken_in AS SELECT n FROM pushed;
            CREATE SINK empty WITH (connector = 'blackhole')";
        ada.batch_execute(pushed).await.unwrap();
        ada.batch_execute("ALTER USER eve ROLE writer").await.unwrap();
        eve.batch_execute("INSERT INTO pushed VALUES (1)").await.unwrap();
        assert_eq!(refused("INSERT INTO empty SELECT n FROM pushed").await, SqlState::INSUFFICIENT_PRIVILEGE);
        // Everybody may change his own password.
        eve.batch_execute("ALTER USER eve PASSWORD 'pear'").await.unwrap();
        ada.batch_execute("ALTER USER eve ROLE owner").await.unwrap();
        eve.batch_execute("CREATE VIEW two AS SELECT 2 AS n").await.unwrap();
        ada.batch_execute("DROP USER eve").await.unwrap();
        assert_eq!(refused("SELECT 1").await, SqlState::ADMIN_SHUTDOWN);
        assert!(connect(&server, "eve", "pear").await.is_err());
    });
}

#[test]
fn users_are_shown_without_what_proves_their_passwords() {
    let runtime = with_owner();
    let server = serve(&runtime, ServerOptions::default());
    block_on(async {
        let ada = connect(&server, "ada", "analytical").await.unwrap();
        // As psql's \password sends it: made by the client.
        let made = postgres_protocol::password::scram_sha_256(b"apple");
        ada.batch_execute(&format!("CREATE USER eve PASSWORD '{made}'")).await.unwrap();
        assert!(connect(&server, "eve", "apple").await.is_ok());
        let shown = async |text: &str| {
            let messages = ada.simple_query(text).await.unwrap().into_iter();
            let rows = messages.filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|at| row.get(at).unwrap_or("").to_owned()).collect::<Vec<_>>())
                }
                _ => None,
            });
            rows.collect::<Vec<_>>()
        };
        assert_eq!(shown("SHOW USERS").await, [["ada", "owner"], ["eve", "reader"]]);
        let roles = "SELECT rolname, CAST(rolsuper AS VARCHAR) FROM pg_roles ORDER BY rolname";
        assert_eq!(shown(roles).await, [["ada", "true"], ["eve", "false"]]);
        assert_eq!(shown("SELECT usename FROM pg_user ORDER BY usename").await, [["ada"], ["eve"]]);
        let everything = format!(
            "{:?}{:?}",
            shown("SELECT * FROM pg_roles").await,
            shown("SELECT * FROM pg_authid").await
        );
        assert!(!everything.contains("SCRAM"), "{everything}");
        for wrong in [
            "CREATE USR x PASSWORD 'geheim'",
            "CREATE USER x PASSWORD 'geheim' ROLE king",
            "ALTER USER x SET a = 'geheim'",
        ] {
            let error = ada.batch_execute(wrong).await.expect_err(wrong);
            assert!(!format!("{:?}", error.as_db_error()).contains("geheim"), "{wrong}: {error:?}");
        }
    });
}

fn request(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// What the server says to these bytes until it closes the connection.
fn told(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"\0\0\0\x12\0\x03\0\0user\0ada\0\0").unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_login_that_is_none_gives_no_session() {
    let server = serve(&with_owner(), ServerOptions::default());
    let first = |mechanism: &str, message: &str| {
        let body =
            [mechanism.as_bytes(), b"\0", &(message.len() as u32).to_be_bytes(), message.as_bytes()].concat();
        request(b'p', &body)
    };
    let mechanism = "SCRAM-SHA-256";
    for bytes in [
        request(b'Q', b"SELECT 1\0"),
        request(b'p', b"analytical\0"),
        request(b'p', &[0xff; 9_999]),
        first("PLAIN", "n,,n=,r=abc"),
        first(mechanism, ""),
        first(mechanism, "p=tls-unique,,n=,r=abc"),
        first(mechanism, "n,a=bob,n=,r=abc"),
        [first(mechanism, "n,,n=,r=abc"), request(b'Q', b"SELECT 1\0")].concat(),
        [first(mechanism, "n,,n=,r=abc"), request(b'p', b"c=biws,r=abc,p=AAAA")].concat(),
        b"p\x7f\xff\xff\xff".to_vec(),
        Vec::new(),
    ] {
        let answer = told(&server, &bytes);
        assert!(answer.contains(mechanism), "{answer:?}");
        // No parameter, no key to cancel, nothing that is ready.
        assert!(!answer.contains("server_version"), "{answer:?}");
    }
    wait_until("the end of all connections", || server.sessions() == 0);
}

/// A connection that was asked for its password.
fn asked(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"\0\0\0\x12\0\x03\0\0user\0ada\0\0").unwrap();
    assert_eq!(message(&mut stream).0, b'R');
    stream
}

/// The next message of the server.
fn message(stream: &mut TcpStream) -> (u8, String) {
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    (head[0], String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn who_does_not_log_in_takes_no_session() {
    let server = serve(&with_owner(), ServerOptions { connections_max: 1, ..ServerOptions::default() });
    let silent: Vec<TcpStream> = (0..8).map(|_| asked(&server)).collect();
    block_on(async {
        let ada = connect(&server, "ada", "analytical").await.unwrap();
        ada.batch_execute("SELECT 1").await.unwrap();
    });
    drop(silent);
}

#[test]
fn who_does_not_log_in_is_not_waited_for() {
    let options = ServerOptions { startup_timeout: Duration::from_millis(50), ..ServerOptions::default() };
    let server = serve(&with_owner(), options);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(b"\0\0\0\x12\0\x03\0\0user\0ada\0\0");
    let mut answer = Vec::new();
    // A server that was not even told who it is may close the connection before it has that.
    let _ = stream.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("took too long"), "{answer:?}");
}

/// A connection over which a wrong password was given, and whose answer is late.
fn guess(server: &Server) -> TcpStream {
    let mut stream = asked(server);
    stream.write_all(&request(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc")).unwrap();
    let (_, first) = message(&mut stream);
    let nonce = first.split("r=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    // A proof of 32 bytes, all of them 0.
    let last = format!("c=biws,r={nonce},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    stream.write_all(&request(b'p', last.as_bytes())).unwrap();
    stream
}

#[test]
fn who_guesses_passwords_does_not_lock_out_who_knows_one() {
    let server = serve(&with_owner(), ServerOptions::default());
    // As many as are answered late at the same time, and then again and again.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(message(&mut guess(&server)).1.contains("28P01"));
                }
            });
        }
        let logins = block_on(async {
            let mut logins = Vec::new();
            for _ in 0..5 {
                logins.push(connect(&server, "ada", "analytical").await.map(drop));
            }
            logins
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for login in logins {
            login.expect("who knows the password gets in");
        }
    });
}

#[test]
fn http_asks_for_the_same_passwords() {
    let runtime = with_owner();
    let server = serve_http(&runtime, HttpOptions::default());
    let address = server.address();
    assert_eq!(get(address, "/health").status, 200);
    let asked = get(address, "/metrics");
    assert_eq!(asked.status, 401);
    assert!(asked.head.to_ascii_lowercase().contains("www-authenticate: basic"), "{}", asked.head);
    let with = |credentials: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {credentials}\r\n\r\n"
        );
        send(address, &request).status
    };
    // ada:analytical, twice: the second time it is known.
    assert_eq!(with("Basic YWRhOmFuYWx5dGljYWw="), 200);
    assert_eq!(with("Basic YWRhOmFuYWx5dGljYWw="), 200);
    for wrong in
        ["Basic YWRhOmFuYWx5dGljYWx5", "Basic Ym9iOmFuYWx5dGljYWw=", "Basic x", "Bearer YWRhOmFuYWx5dGljYWw="]
    {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    runtime.alter_user("ada", None, Some("nothing proves this".to_owned())).unwrap();
    assert_eq!(with("Basic YWRhOmFuYWx5dGljYWw="), 401);
}

#[test]
fn a_reader_cannot_name_files_by_http_either() {
    let runtime = with_owner();
    let server = serve(&runtime, ServerOptions::default());
    block_on(async {
        let owner = connect(&server, "ada", "analytical").await.unwrap();
        owner.batch_execute("CREATE USER eve PASSWORD 'reads only' ROLE reader").await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.csv");
    std::fs::write(&file, "word\nsecret\n").unwrap();
    let http = serve_http(&runtime, HttpOptions::default());
    let ask = |credentials: &str, statement: &str| {
        let length = statement.len();
        let request = format!(
            "POST /query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {credentials}\r\n\
             Content-Length: {length}\r\n\r\n{statement}"
        );
        send(http.address(), &request)
    };
    let by_path = format!("SELECT word FROM '{}'", file.display());
    let (owner, reader) = ("YWRhOmFuYWx5dGljYWw=", "ZXZlOnJlYWRzIG9ubHk=");
    assert!(ask(owner, &by_path).body.contains("secret"));
    // Once more: who is known is known with his role.
    for _ in 0..2 {
        let refused = ask(reader, &by_path);
        assert!(refused.status == 400 && !refused.body.contains("secret"), "{refused:?}");
        let explained = ask(reader, &format!("EXPLAIN {by_path}"));
        assert!(explained.status == 400, "{explained:?}");
    }
    assert!(ask(reader, "SELECT n FROM one").body.contains("{\"n\":1}"));
}

#[test]
fn other_machines_are_served_only_with_users() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let why = |runtime: &Runtime, options: ServerOptions| {
        Server::start(runtime, everywhere, options).map(drop).map_err(|cause| cause.to_string())
    };
    let empty = Runtime::new(Planner::new());
    assert!(why(&empty, ServerOptions::default()).unwrap_err().contains("there are no users"));
    assert!(why(&with_owner(), ServerOptions::default()).unwrap_err().contains("not be encrypted"));
    let insecure = ServerOptions { is_insecure: true, ..ServerOptions::default() };
    assert_eq!(why(&empty, insecure), Ok(()));
}
