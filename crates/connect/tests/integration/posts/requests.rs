//! Rows as requests.

use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use tidemill_connect::dead_letter::DeadLetterFile;
use tidemill_connect::http::{HttpSink, HttpSinkSettings, PostBody};
use tidemill_connect::tls::{TlsServer, TlsServerSettings};
use tidemill_core::{Cause, Fault, Sink};

use crate::posts::receiver::{Receiver, Reply};
use crate::posts::support::{commit_one, cycle, rows, schema};
use tidemill_testing::authority::{Authority, Validity};
use tidemill_testing::ports::free_port;

fn settings(port: u16) -> HttpSinkSettings {
    HttpSinkSettings::new(format!("http://127.0.0.1:{port}/hook/secret?x=1"), "alerts")
}

fn sink(settings: HttpSinkSettings) -> HttpSink {
    HttpSink::new(&schema(), settings).unwrap()
}

fn failure(result: Result<(), Cause>, fault: Fault) -> String {
    let cause = result.unwrap_err();
    assert_eq!(cause.fault, fault, "{cause}");
    assert!(!cause.message.contains("secret"), "{cause}");
    cause.message.into()
}

#[test]
fn each_cycle_with_rows_is_a_request() {
    let receiver = Receiver::start(&[]);
    let mut settings = settings(receiver.port);
    settings.headers = [("Authorization", "Bearer abc"), ("X-Team", "ops"), ("x-team", "dev")]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let mut sink = sink(settings);
    sink.prepare(cycle(1, Some(rows(&[("a", 1), ("b", 2)])))).unwrap();
    sink.prepare(cycle(2, None)).unwrap();
    sink.prepare(cycle(3, Some(rows(&[("c", 3)])))).unwrap();
    assert!(receiver.is_empty(), "nothing is sent before the commit");
    sink.commit(1..=3).unwrap();
    let (first, second) = (receiver.next(), receiver.next());
    assert_eq!(first.line, "POST /hook/secret?x=1 HTTP/1.1");
    assert_eq!(first.body, "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n");
    assert_eq!(second.body, "{\"key\":\"c\",\"value\":3}\n");
    assert_eq!(first.header("content-type"), "application/x-ndjson");
    assert_eq!(first.header("authorization"), "Bearer abc");
    assert_eq!(first.headers("x-team"), ["ops", "dev"]);
    assert_eq!(first.header("host"), format!("127.0.0.1:{}", receiver.port));
    assert_ne!(first.header("idempotency-key"), second.header("idempotency-key"));
    assert!(receiver.is_empty());
}

#[test]
fn a_receiver_that_is_away_or_busy_is_asked_again_with_the_same_key() {
    let replies = [
        Reply::HangUp,
        Reply::Status(503, ""),
        Reply::Status(429, "Retry-After: 0\r\n"),
        Reply::Status(408, ""),
        Reply::StatusThenHangUp(200),
    ];
    let receiver = Receiver::start(&replies);
    let mut sink = sink(settings(receiver.port));
    commit_one(&mut sink, 1, rows(&[("a", 1)])).unwrap();
    let keys: Vec<String> = (0..5).map(|_| receiver.next().header("idempotency-key").to_owned()).collect();
    assert!(keys.iter().all(|key| *key == keys[0] && !key.is_empty()), "{keys:?}");
    // The connection has ended without notice. That costs no row, and no second request.
    commit_one(&mut sink, 2, rows(&[("b", 2)])).unwrap();
    assert_eq!(receiver.next().body, "{\"key\":\"b\",\"value\":2}\n");
    assert!(receiver.is_empty());
}

#[test]
fn a_run_that_continues_sends_the_same_keys_and_another_does_not() {
    let receiver = Receiver::start(&[]);
    let key = |identity: Option<u64>| {
        let mut sink = sink(HttpSinkSettings { identity, ..settings(receiver.port) });
        commit_one(&mut sink, 7, rows(&[("a", 1)])).unwrap();
        receiver.next().header("idempotency-key").to_owned()
    };
    assert_eq!(key(Some(10)), key(Some(10)));
    assert!(key(Some(10)).starts_with("alerts-000000000000000a-7-0-"));
    assert_ne!(key(Some(10)), key(Some(11)), "another query with the same script");
    assert_ne!(key(None), key(None));
}

#[test]
fn rows_that_are_refused_become_letters_or_end_the_query() {
    let receiver = Receiver::start(&[Reply::Status(422, ""), Reply::Status(204, ""), Reply::Status(422, "")]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refused.ndjson");
    let settings = HttpSinkSettings { body: PostBody::Row, ..settings(receiver.port) };
    let letters = DeadLetterFile::open(&file, "alerts", true).unwrap();
    let mut sink = sink(settings.clone()).with_dead_letters(letters);
    commit_one(&mut sink, 1, rows(&[("bad", 1), ("good", 2)])).unwrap();
    assert_eq!(receiver.next().body, "{\"key\":\"bad\",\"value\":1}");
    assert_eq!(receiver.next().body, "{\"key\":\"good\",\"value\":2}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 1);
    let letter: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(letter["row"]["key"], "bad");
    let reason = letter["reason"].as_str().unwrap();
    let place = format!("http://127.0.0.1:{}", receiver.port);
    assert_eq!(reason, format!("{place}: it answers 422 Unprocessable Entity (said by the receiver)"));
    drop(sink);

    let mut strict = HttpSink::new(&schema(), settings).unwrap();
    let text = failure(commit_one(&mut strict, 2, rows(&[("bad", 3)])), Fault::User);
    assert!(text.contains("it answers 422") && text.contains("with dead_letters = 'FILE'"), "{text}");
}

#[test]
fn what_no_row_is_to_blame_for_ends_the_query_at_once() {
    let cases = [
        (Reply::Status(401, ""), "check the token in the headers"),
        (Reply::Status(404, ""), "check the URL: rows are not accepted there"),
        (
            Reply::Status(301, "Location: https://elsewhere.example.org/new/secret\r\n"),
            "it has moved to https://elsewhere.example.org; use that URL",
        ),
    ];
    let replies: Vec<Reply> = cases.iter().map(|(reply, _)| *reply).collect();
    let receiver = Receiver::start(&replies);
    for (_, told) in cases {
        let folder = tempfile::tempdir().unwrap();
        let letters = DeadLetterFile::open(&folder.path().join("refused"), "alerts", true).unwrap();
        let mut sink = sink(settings(receiver.port)).with_dead_letters(letters);
        let text = failure(commit_one(&mut sink, 1, rows(&[("a", 1)])), Fault::User);
        assert!(text.contains(told), "{text}");
        receiver.next();
    }
}

#[test]
fn it_gives_up_in_the_end_and_says_what_happened() {
    let port = free_port();
    let mut away = sink(HttpSinkSettings { retry_for: Duration::from_millis(500), ..settings(port) });
    let text = failure(commit_one(&mut away, 1, rows(&[("a", 1)])), Fault::Operation);
    assert!(
        text.starts_with(&format!("http://127.0.0.1:{port}: cannot connect: Connection refused")),
        "{text}"
    );
    assert!(text.contains("gave up after ") && text.contains(" s (retry_for)"), "{text}");

    let receiver = Receiver::start(&[Reply::Silence]);
    let short = Duration::from_millis(100);
    let settings = HttpSinkSettings { timeout: short, retry_for: short, ..settings(receiver.port) };
    let text = failure(commit_one(&mut sink(settings), 1, rows(&[("a", 1)])), Fault::Operation);
    assert!(text.contains("no answer within 100ms (timeout)"), "{text}");
}

#[test]
fn a_sink_that_waits_can_be_stopped() {
    let receiver = Receiver::start(&[Reply::Silence]);
    let mut sink = sink(settings(receiver.port));
    let stop = sink.stopper().unwrap();
    let commit = std::thread::spawn(move || commit_one(&mut sink, 1, rows(&[("a", 1)])));
    receiver.next();
    stop();
    assert!(failure(commit.join().unwrap(), Fault::Operation).contains("the query was stopped"));
}

#[test]
fn https_is_posted_to_a_receiver_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let identity = authority.issue("server", &["localhost"], Validity::Now);
    let tls = TlsServer::open(TlsServerSettings::new(identity.certificates, identity.key)).unwrap();
    let receiver = Receiver::with_layer(&[], move |stream| {
        Box::new(StreamOwned::new(ServerConnection::new(tls.config()).unwrap(), stream))
    });
    let mut settings = HttpSinkSettings::new(format!("https://localhost:{}/hook", receiver.port), "alerts");
    settings.tls.authorities = Some(authority.file.clone());
    let mut trusting = sink(settings.clone());
    commit_one(&mut trusting, 1, rows(&[("a", 1)])).unwrap();
    commit_one(&mut trusting, 2, rows(&[("b", 2)])).unwrap();
    assert_eq!(receiver.next().body, "{\"key\":\"a\",\"value\":1}\n");
    assert_eq!(receiver.next().body, "{\"key\":\"b\",\"value\":2}\n");
    drop(trusting);

    settings.tls.authorities = Some(Authority::new(folder.path(), "stranger").file);
    let text = failure(commit_one(&mut sink(settings), 1, rows(&[("a", 1)])), Fault::User);
    assert!(text.contains("an authority that is not trusted here"), "{text}");
}
