//! The log by HTTP: who may read it, what it has, and how it is followed.

#[path = "integration/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use support::{Answered, PATIENCE, get, send, serve_http, serve_runtime};
use tidemill_server::{HttpOptions, HttpServer, RecentLog, RecentLogLayer};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::{Config, NoTls};
use tracing::{Level, info, warn};
use tracing_subscriber::layer::SubscriberExt;

/// The log of this process, to which all tests write.
fn log() -> RecentLog {
    static LOG: OnceLock<RecentLog> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = RecentLog::default();
        let layer = RecentLogLayer::new(&log, Level::INFO);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
        log
    });
    log.clone()
}

fn serve(runtime: &Runtime) -> HttpServer {
    serve_http(runtime, HttpOptions { log: Some(log()), ..HttpOptions::default() })
}

/// A database with an owner `ada` and a reader `eve`.
fn with_users() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    execute(&runtime, ("anybody", ""), "CREATE USER ada PASSWORD 'analytical' ROLE owner");
    execute(&runtime, ("ada", "analytical"), "CREATE USER eve PASSWORD 'quiet' ROLE reader");
    runtime
}

fn execute(runtime: &Runtime, (user, password): (&str, &str), statement: &str) {
    let server = serve_runtime(runtime);
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user(user).password(password).dbname("db");
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    });
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64.encode(format!("{user}:{password}")))
}

fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answered {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"))
}

fn records(answered: &Answered) -> Vec<Value> {
    assert_eq!(answered.status, 200, "{answered:?}");
    answered.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_test<'a>(records: &'a [Value], test: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["fields"]["test"] == test).collect()
}

#[test]
fn records_have_their_fields_and_no_passwords() {
    let server = serve(&Runtime::new(Planner::new()));
    let url = "postgres://me:geheim@db/traffic";
    warn!(
        target: "tidemill_test",
        test = "fields",
        attempt = 3,
        durable = true,
        ratio = 0.5,
        url,
        "it is {}, password = 'geheim'",
        "lost"
    );
    info!(target: "tidemill_test", test = "fields", causes = ?["a \"b\"\n", "http://u:geheim@h"], "line\nbreak");
    let all = records(&get(server.address(), "/api/logs"));
    let told = of_test(&all, "fields");
    assert_eq!((told.len(), &told[0]["level"], &told[1]["level"]), (2, &"WARN".into(), &"INFO".into()));
    let fields = &told[0]["fields"];
    assert_eq!(
        (&fields["attempt"], &fields["durable"], &fields["ratio"]),
        (&3.into(), &true.into(), &0.5.into())
    );
    assert_eq!(fields["url"], "postgres://me:******@db/traffic");
    assert_eq!(told[0]["message"], "it is lost, password = '******'");
    assert_eq!(told[1]["message"], "line\nbreak");
    assert!(told[0]["time_ms"].as_u64() > Some(1_700_000_000_000), "{told:?}");
    assert!(all.iter().all(|record| !record.to_string().contains("geheim")), "{all:?}");

    // From a record on, and by level.
    let id = told[0]["id"].as_str().unwrap();
    let later = records(&get(server.address(), &format!("/api/logs?after={id}")));
    assert_eq!(of_test(&later, "fields").len(), 1);
    let severe = records(&get(server.address(), "/api/logs?level=warn"));
    assert_eq!(of_test(&severe, "fields"), of_test(&all, "fields")[..1]);
    // An id of another process is behind nothing.
    let of_another = records(&get(server.address(), "/api/logs?after=1700000000000-99999"));
    assert_eq!(of_test(&of_another, "fields").len(), 2);
}

#[test]
fn only_owners_read_the_log() {
    let runtime = with_users();
    let server = serve(&runtime);
    let address = server.address();
    assert_eq!(get(address, "/api/logs").status, 401);
    assert_eq!(get_with(address, "/api/logs", &basic("ada", "wrong")).status, 401);
    let refused = get_with(address, "/api/logs", &basic("eve", "quiet"));
    assert_eq!(refused.status, 403);
    assert!(
        refused.body.contains("this needs the role owner, and user 'eve' is a reader"),
        "{}",
        refused.body
    );
    let all = records(&get_with(address, "/api/logs", &basic("ada", "analytical")));
    // The failed login of this test is in it.
    let failed = all.iter().find(|record| record["message"] == "a login by HTTP has failed");
    assert_eq!(failed.map(|record| &record["fields"]["user"]), Some(&"ada".into()), "{all:?}");
    // Pages of others cannot make the server send it.
    let of_a_page = format!("{}Origin: http://evil.example\r\n", basic("ada", "analytical"));
    assert_eq!(get_with(address, "/api/logs", &of_a_page).status, 403);
}

#[test]
fn wrong_requests_are_refused() {
    let server = serve(&Runtime::new(Planner::new()));
    let address = server.address();
    for path in ["?level=loud", "?level=", "?after=7", "?after=x-1", "?before=1", "?level=%"] {
        let answer = get(address, &format!("/api/logs{path}"));
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    assert_eq!(get_with(address, "/api/logs", "Last-Event-ID: \u{1f}\r\n").status, 400);
    let post = "POST /api/logs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(send(address, post).status, 405);
    let without = serve_http(&Runtime::new(Planner::new()), HttpOptions::default());
    assert_eq!(get(without.address(), "/api/logs").status, 404);
    // Before the users are known, nobody is an owner.
    let starting = HttpServer::start(
        "127.0.0.1:0".parse().unwrap(),
        HttpOptions { log: Some(log()), ..HttpOptions::default() },
    );
    assert_eq!(get(starting.unwrap().address(), "/api/logs").status, 503);
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(address: SocketAddr, headers: &str) -> Events {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET /api/logs HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n";
        stream.write_all(format!("{request}{headers}\r\n").as_bytes()).unwrap();
        Events(BufReader::new(stream))
    }

    /// The next record of a test; `None` if the stream ends.
    fn next(&mut self, test: &str) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let record = line.strip_prefix("data: ").map(|text| serde_json::from_str::<Value>(text).unwrap());
            if let Some(record) = record.filter(|record| record["fields"]["test"] == test) {
                return Some(record);
            }
        }
    }
}

#[test]
fn the_log_is_followed_while_it_is_written_and_as_long_as_one_may() {
    let runtime = with_users();
    let server = serve(&runtime);
    let headers = basic("ada", "analytical");
    info!(target: "tidemill_test", test = "followed", number = 1, "before");
    let mut events = Events::open(server.address(), &headers);
    let first = events.next("followed").unwrap();
    assert_eq!((&first["message"], &first["fields"]["number"]), (&"before".into(), &1.into()));
    info!(target: "tidemill_test", test = "followed", number = 2, "meanwhile");
    assert_eq!(events.next("followed").unwrap()["fields"]["number"], 2);
    // A browser whose connection broke asks for what came behind its last event.
    let again = format!("{headers}Last-Event-ID: {}\r\n", first["id"].as_str().unwrap());
    assert_eq!(Events::open(server.address(), &again).next("followed").unwrap()["fields"]["number"], 2);
    // Who is an owner no more reads no more.
    execute(&runtime, ("ada", "analytical"), "CREATE USER bob PASSWORD 'builder' ROLE owner");
    execute(&runtime, ("bob", "builder"), "ALTER USER ada ROLE reader");
    info!(target: "tidemill_test", test = "followed", number = 3, "not for a reader");
    assert_eq!(events.next("followed"), None);
}

#[test]
fn who_does_not_read_holds_back_nobody_and_takes_little() {
    // A log of its own, because it is flooded.
    let log = RecentLog::default();
    let layer = RecentLogLayer::new(&log, Level::INFO);
    let _written = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let options = HttpOptions { log: Some(log), questions_max: 1, ..HttpOptions::default() };
    let server = serve_http(&Runtime::new(Planner::new()), options);
    info!(target: "tidemill_test", test = "slow", number = 0, "the first");
    let mut events = Events::open(server.address(), "");
    assert_eq!(events.next("slow").unwrap()["fields"]["number"], 0);
    // No more streams than may be.
    let mut refused = Events::open(server.address(), "Connection: close\r\n");
    let mut told = String::new();
    refused.0.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    // More than the connection and the log have room for.
    let long = "x".repeat(1900);
    for number in 1..=20_000 {
        info!(target: "tidemill_test", test = "slow", number, long, "many");
    }
    info!(target: "tidemill_test", test = "slow", number = 20_001, "the last");
    let mut numbers = Vec::new();
    while numbers.last() != Some(&20_001) {
        numbers.push(events.next("slow").expect("the stream goes on")["fields"]["number"].as_u64().unwrap());
    }
    assert!(numbers.is_sorted() && numbers.len() < 20_000, "{} came", numbers.len());
    drop(events);
    // Its place is free again.
    support::wait_until("room for another stream", || {
        info!(target: "tidemill_test", test = "slow", "somebody looks whether the client is there");
        let mut stream = Events::open(server.address(), "Connection: close\r\n");
        let mut line = String::new();
        stream.0.read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200")
    });
}
