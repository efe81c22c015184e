//! Subscriptions to a view at gateways, while these are killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::fleet::{Fleet, ROWS_PER_REQUEST};
use super::kill;
use super::subscriber::Subscriber;
use crate::support::child::wait_until;
use crate::support::folder_with;
use tidemill_testing::ports::free_port;

#[test]
fn subscribers_get_each_row_once_and_whole_cycles_while_gateways_are_killed() {
    let folder = folder_with(&[]);
    let requests = 160;
    let mut fleet = Fleet::start(folder.path(), 2, requests);
    let mut subscribers = vec![Subscriber::start(fleet.connect(), "recent")];
    for (turn, victim) in [0, 1, 0, 1].into_iter().enumerate() {
        let due = (turn as u64 + 1) * 30;
        wait_until("requests are answered", || fleet.answered().iter().all(|answered| *answered >= due));
        // One that begins in between has the rows of before, too.
        let answered = fleet.answered();
        wait_until("the view can be read", || fleet.check_whole_cycles(&answered));
        subscribers.push(Subscriber::start(fleet.connect(), "recent"));
        wait_until("it has begun", || {
            let seen = subscribers[turn + 1].seen();
            seen.rows_of("g0").min(seen.rows_of("g1")) > 0 || seen.has_ended
        });
        kill(&fleet.process_of(victim));
    }
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[requests; 2]));
    for subscriber in &subscribers {
        let reports = i128::from(requests * ROWS_PER_REQUEST);
        wait_until("all rows have come", || subscriber.seen().has_all(2, reports));
    }
    fleet.text("DROP MATERIALIZED VIEW recent");
    for subscriber in &subscribers {
        wait_until("it ends", || subscriber.seen().has_ended);
        let error = subscriber.seen().error.clone().expect("with a reason");
        assert!(error.starts_with("58000") || error.contains("C58000"), "{error}");
        assert!(error.contains("view 'recent' was dropped or replaced"), "{error}");
    }
    let error = fleet.error("SUBSCRIBE TO recent");
    assert!(error.contains("there is no view `recent`"), "{error}");
}

#[test]
fn a_subscription_ends_with_a_name_where_its_rows_are_lost() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 3);
    fleet.finish();
    let listen = free_port();
    fleet.text(&format!(
        "CREATE SOURCE passing_cars (n BIGINT) WITH (connector = 'http', listen = '127.0.0.1:{listen}', \
         format = 'ndjson', gateway = 'g1')"
    ));
    fleet.text(
        "CREATE MATERIALIZED VIEW passing AS SELECT n, 'g1' AS gate FROM passing_cars
            UNION ALL SELECT -n, 'g1' FROM passing_cars",
    );
    let follower = Subscriber::start(fleet.connect(), "passing");
    post(listen, "{\"n\":1}\n{\"n\":2}\n");
    wait_until("the rows come", || follower.seen().rows_of("g1") == 4);
    kill(&fleet.process_of(1));
    wait_until("it ends", || follower.seen().has_ended);
    let error = follower.seen().error.clone().expect("with a reason");
    assert!(error.contains("gateway 'g1': ") && error.contains("began again"), "{error}");
    assert!(error.contains("durable = true"), "{error}");
}

#[test]
fn a_gateway_without_rows_that_is_killed_is_waited_for() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 1);
    fleet.finish();
    let ports = [free_port(), free_port()];
    let mut parts = Vec::new();
    for (gate, listen) in ports.into_iter().enumerate() {
        fleet.text(&format!(
            "CREATE SOURCE late{gate} (n BIGINT) WITH (connector = 'http', listen = '127.0.0.1:{listen}', \
             format = 'ndjson', durable = true, gateway = 'g{gate}')"
        ));
        parts.extend(["n", "-n"].map(|n| format!("SELECT {n} AS n, 'g{gate}' AS gate FROM late{gate}")));
    }
    fleet.text(&format!("CREATE MATERIALIZED VIEW late AS {}", parts.join(" UNION ALL ")));
    let follower = Subscriber::start(fleet.connect(), "late");
    post(ports[0], "{\"n\":1}\n");
    wait_until("the rows come", || follower.seen().rows_of("g0") == 2);
    let process = fleet.process_at(1);
    kill(&process);
    wait_until("another process has begun", || {
        fleet.text("SHOW FRAGMENTS").contains("|g1|") && fleet.process_at(1) != process
    });
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", ports[1])).is_ok());
    post(ports[1], "{\"n\":1}\n");
    wait_until("the rows come", || follower.seen().has_all(2, 1));
}

fn post(port: u16, body: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
}

/// What comes over a connection until a text is in it.
fn until(stream: &mut TcpStream, text: &str) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it has a limit");
    let (mut got, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut bytes).expect("something comes");
        got.extend_from_slice(&bytes[..count]);
        let read = String::from_utf8_lossy(&got).into_owned();
        if read.contains(text) {
            return read;
        }
        assert!(count > 0, "it ends without {text}: {read}");
    }
}

#[test]
fn events_messages_and_metrics_have_the_gateway_of_each_row() {
    let folder = folder_with(&[]);
    let port = free_port();
    let address: &'static str = format!("127.0.0.1:{port}").leak();
    let mut fleet = Fleet::start_with(folder.path(), 2, 1, vec!["--http", address].leak());
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[1, 1]));
    let subscribe = |headers: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let path = "/subscribe?query=SUBSCRIBE+TO+recent";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").expect("it is sent");
        stream
    };
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for headers in ["", websocket] {
        let mut stream = subscribe(headers);
        // The columns and the rows may come together.
        let answer = until(&mut stream, "g1");
        let kind = if headers.is_empty() { "text/event-stream" } else { "101" };
        for text in [kind, "columns", "cycle", "change", "gateway", "insert"] {
            assert!(answer.contains(text), "{text} is not in {answer}");
        }
    }
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it is sent");
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).expect("it answers");
    for line in [
        "tidemill_gateway_up{gateway=\"g1\"} 1",
        "tidemill_gateway_rows_total{gateway=\"g0\",source=\"cars0\",query=\"recent\"} 10",
        "tidemill_gateway_view_rows{gateway=\"g1\",view=\"recent\",fragment=\"0\"} 20",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}
