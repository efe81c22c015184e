//! Clients that send anything, read nothing, stay forever or vanish.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{PATIENCE, serve, serve_runtime, serve_with, wait_until};
use tidemill_server::{Server, ServerOptions};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tidemill_testing::random::Random;

const STARTUP: &[u8] = b"\0\0\0\x11\0\x03\0\0user\0me\0\0";

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The next message of the server: its kind and what it contains; `None` at the end of the connection.
fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    match stream.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) => {
            assert!(
                !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "the server is silent"
            );
            return None;
        }
    }
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).unwrap();
    Some((head[0], body))
}

fn message_of_kind(stream: &mut TcpStream, kind: u8) -> Vec<u8> {
    loop {
        let (found, body) = message(stream).unwrap_or_else(|| panic!("there is no {}", char::from(kind)));
        if found == kind {
            return body;
        }
    }
}

fn session(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(STARTUP).unwrap();
    message_of_kind(&mut stream, b'Z');
    stream
}

fn request(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn query(stream: &mut TcpStream, text: &str) {
    stream.write_all(&request(b'Q', &[text.as_bytes(), b"\0"].concat())).unwrap();
}

/// The code of an error.
fn code(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let code = fields.filter_map(|field| field.strip_prefix(b"C")).next().expect("an error has a code");
    String::from_utf8(code.to_vec()).unwrap()
}

/// A server of which all sessions are free answers.
fn answers(server: &Server) {
    let mut stream = session(server);
    query(&mut stream, "SELECT 1 AS one");
    assert_eq!(message_of_kind(&mut stream, b'D'), b"\0\x01\0\0\0\x011");
}

#[test]
fn any_bytes_are_answered_with_an_error_or_the_end() {
    let server = serve();
    let mut random = Random::new(0x5eed);
    let whole = [
        STARTUP.to_vec(),
        request(b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x14"),
        request(b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01"),
        request(b'D', b"Pp\0"),
        request(b'E', b"p\0\0\0\0\0"),
        request(b'S', b""),
        request(b'Q', b"SELECT 1; SHOW ALL\0"),
    ]
    .concat();
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            // Some bytes are others.
            0 => {
                for _ in 0..=random.index(4) {
                    let at = random.index(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            }
            // Something is missing.
            1 => {
                let at = random.index(bytes.len());
                bytes.drain(at..(at + 1 + random.index(8)).min(whole.len()));
            }
            // Nothing is right behind the first message.
            _ => {
                bytes.truncate(STARTUP.len());
                bytes.extend((0..random.index(200)).map(|_| random.next() as u8));
            }
        }
        let mut stream = connect(&server);
        // The server may close the connection before it has everything.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "round {round}");
        }
    }
    wait_until("the end of all sessions", || server.sessions() == 0);
    answers(&server);
}

#[test]
fn a_message_is_not_longer_than_the_limit() {
    let server = serve_with(ServerOptions { message_bytes_max: 1000, ..ServerOptions::default() });
    let mut stream = session(&server);
    stream.write_all(b"Q\x7f\xff\xff\xff").unwrap();
    assert_eq!(code(&message_of_kind(&mut stream, b'E')), "54000");
    assert_eq!(message(&mut stream), None);
    answers(&server);
}

#[test]
fn a_batch_that_comes_in_parts_is_answered_whole() {
    let server = serve();
    let mut stream = session(&server);
    for _ in 0..3 {
        // One statement without a name, and no types of parameters.
        stream.write_all(b"P\0\0\0\x10\0SELECT 1\0\0\0").unwrap();
        // The session waits without a thread meanwhile.
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(b"S\0\0\0\x04").unwrap();
        let kinds = [(); 2].map(|()| message(&mut stream).unwrap().0);
        assert_eq!(kinds, *b"1Z");
    }
}

#[test]
fn who_does_not_begin_is_not_waited_for() {
    let startup_timeout = Duration::from_millis(50);
    let server = serve_with(ServerOptions { startup_timeout, ..ServerOptions::default() });
    let mut silent = connect(&server);
    assert!(message(&mut silent).is_none_or(|(kind, _)| kind == b'E'));
    // In steps, the time counts as a whole. This message has no end, so that it is never complete, however busy the machine is.
    let mut slow = connect(&server);
    let mut begun = b"\0\0\x1f\x40\0\x03\0\0user\0".iter().copied().chain(std::iter::repeat_n(b'm', 7000));
    let is_cut_off = |byte| {
        std::thread::sleep(Duration::from_millis(20));
        slow.write_all(&[byte]).is_err()
    };
    assert!(begun.any(is_cut_off), "it is waited for");
    assert!(message(&mut slow).is_none_or(|(kind, _)| kind == b'E'));
    wait_until("the end of all sessions", || server.sessions() == 0);
}

#[test]
fn there_are_as_many_sessions_as_permitted() {
    let server = serve_with(ServerOptions { connections_max: 2, ..ServerOptions::default() });
    let (first, mut second) = (session(&server), session(&server));
    let mut third = connect(&server);
    third.write_all(STARTUP).unwrap();
    assert_eq!(code(&message_of_kind(&mut third, b'E')), "53300");
    drop(first);
    wait_until("a free session", || server.sessions() == 1);
    answers(&server);
    query(&mut second, "SELECT 2 AS two");
    assert_eq!(message_of_kind(&mut second, b'D'), b"\0\x01\0\0\0\x012");
}

#[test]
fn who_does_not_read_holds_back_nobody_else_and_frees_the_session_when_gone() {
    let server = serve();
    let mut unread = session(&server);
    query(&mut unread, "SELECT value FROM sequence(rate => 10000000)");
    // What comes fills the buffers of the network and the queues up to the query.
    message_of_kind(&mut unread, b'D');
    answers(&server);
    answers(&server);
    wait_until("the end of the others", || server.sessions() == 1);
    drop(unread);
    wait_until("the end of the session", || server.sessions() == 0);
}

#[test]
fn who_sends_more_than_there_is_room_for_holds_up_nobody_and_loses_nothing() {
    const REQUESTS: usize = 3000;
    let server = serve_with(ServerOptions { message_bytes_max: 10_000, ..ServerOptions::default() });
    let mut client = session(&server);
    query(&mut client, "SET statement_timeout = '1s'");
    message_of_kind(&mut client, b'Z');
    // Nothing else of this client is answered meanwhile, and the buffers of the network do not take all of it.
    query(&mut client, "SELECT value FROM sequence(rate => 100)");
    let mut sending = client.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..REQUESTS {
            query(&mut sending, &format!("SELECT {number} AS number -- {}", "-".repeat(9000)));
        }
    });
    (0..10).for_each(|_| answers(&server));
    assert!(!sender.is_finished(), "all that was sent has room");
    assert_eq!(code(&message_of_kind(&mut client, b'E')), "57014");
    for number in 0..REQUESTS {
        let row = message_of_kind(&mut client, b'D');
        assert!(row.ends_with(number.to_string().as_bytes()), "{row:?} in place of {number}");
    }
    sender.join().unwrap();
    drop(client);
    wait_until("the end of the session", || server.sessions() == 0);
}

#[test]
fn what_is_not_read_is_counted_until_the_client_goes() {
    let runtime = Runtime::new(Planner::new());
    let server = serve_runtime(&runtime);
    let mut clients = [session(&server), session(&server), session(&server)];
    for client in &mut clients {
        query(client, "SELECT value, repeat('x', 1000) AS text FROM sequence(rate => 10000000)");
        message_of_kind(client, b'D');
    }
    // Each of them has a batch that is being sent, and others that wait for it.
    wait_until("all wait", || runtime.unread_bytes() > 3 << 20);
    assert_eq!(server.sessions(), 3);
    drop(clients);
    wait_until("nothing is held for them", || runtime.unread_bytes() == 0);
}

#[test]
fn a_cursor_that_was_read_to_its_end_holds_nothing() {
    let runtime = Runtime::new(Planner::new());
    let server = serve_runtime(&runtime);
    let mut client = session(&server);
    for statement in ["BEGIN", "DECLARE c CURSOR FOR SELECT column1 FROM (VALUES (1), (2)) AS t"] {
        query(&mut client, statement);
        message_of_kind(&mut client, b'Z');
    }
    assert!(runtime.unread_bytes() > 0);
    query(&mut client, "FETCH 10 FROM c");
    message_of_kind(&mut client, b'D');
    message_of_kind(&mut client, b'Z');
    assert_eq!(runtime.unread_bytes(), 0);
}

#[test]
fn only_who_knows_the_secret_cancels() {
    let server = serve();
    let mut stream = connect(&server);
    stream.write_all(STARTUP).unwrap();
    let key = message_of_kind(&mut stream, b'K');
    message_of_kind(&mut stream, b'Z');
    query(&mut stream, "SELECT value FROM sequence(rate => 100)");
    message_of_kind(&mut stream, b'D');
    let cancel = |process: &[u8], secret: &[u8]| {
        let mut other = connect(&server);
        other.write_all(&[b"\0\0\0\x10\x04\xd2\x16\x2e", process, secret].concat()).unwrap();
        assert_eq!(message(&mut other), None);
    };
    let mut wrong = key[4..].to_vec();
    wrong[0] ^= 1;
    cancel(&key[..4], &wrong);
    for _ in 0..3 {
        message_of_kind(&mut stream, b'D');
    }
    cancel(&key[..4], &key[4..]);
    assert_eq!(code(&message_of_kind(&mut stream, b'E')), "57014");
}

#[test]
fn a_query_that_does_not_end_is_analysed_until_its_time_is_over() {
    let server = serve();
    let mut stream = session(&server);
    let plan = |stream: &mut TcpStream| {
        let mut lines = Vec::new();
        loop {
            match message(stream).unwrap() {
                (b'D', row) => lines.push(String::from_utf8(row[6..].to_vec()).unwrap()),
                (b'E', report) => panic!("{}", String::from_utf8_lossy(&report)),
                (b'Z', _) => return lines.join("\n"),
                _ => {}
            }
        }
    };
    query(&mut stream, "EXPLAIN ANALYZE SELECT value FROM sequence(count => 1000) WHERE value > 990");
    let finite = plan(&mut stream);
    assert!(finite.contains("1000") && finite.contains("sequence"), "{finite}");
    query(&mut stream, "SET statement_timeout = '2s'");
    message_of_kind(&mut stream, b'Z');
    query(&mut stream, "EXPLAIN ANALYZE SELECT value FROM sequence(rate => 1000)");
    assert!(plan(&mut stream).contains("sequence"));
    answers(&server);
}

#[test]
fn encryption_is_declined_and_a_newer_protocol_negotiated() {
    let server = serve();
    let mut stream = connect(&server);
    for wish in [b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"] {
        stream.write_all(wish).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    stream.write_all(b"\0\0\0\x1c\0\x03\0\x02user\0me\0_pq_.new\x001\0\0").unwrap();
    assert_eq!(message_of_kind(&mut stream, b'v'), b"\0\x03\0\0\0\0\0\x01_pq_.new\0");
    message_of_kind(&mut stream, b'Z');
}

#[test]
fn the_end_of_the_server_is_told_and_waits_for_nobody() {
    let server = serve();
    let (mut idle, mut reading, mut unread) = (session(&server), session(&server), session(&server));
    query(&mut reading, "SELECT value FROM sequence(rate => 100) WHERE value < 0");
    query(&mut unread, "SELECT value FROM sequence(rate => 10000000)");
    message_of_kind(&mut unread, b'D');
    server.stop();
    assert_eq!(code(&message_of_kind(&mut idle, b'E')), "57P01");
    assert_eq!(code(&message_of_kind(&mut reading, b'E')), "57P01");
}

#[test]
fn who_does_not_read_is_cut_off_and_learns_why_if_he_reads_on() {
    let unread_max = Duration::from_millis(100);
    let server = serve_with(ServerOptions { unread_max, farewell_max: PATIENCE, ..ServerOptions::default() });
    let mut late = session(&server);
    query(&mut late, "SELECT value FROM sequence(rate => 10000000)");
    let mut late = std::io::BufReader::new(late);
    let mut pause = Duration::from_millis(500);
    let report = 'told: loop {
        std::thread::sleep(pause);
        pause *= 2;
        for _ in 0..2_000_000 {
            let mut head = [0; 5];
            late.read_exact(&mut head).expect("the server says why it goes");
            let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            late.read_exact(&mut body).unwrap();
            if head[0] == b'E' {
                break 'told body;
            }
        }
    };
    assert_eq!(code(&report), "54000");
    assert_eq!(late.read(&mut [0]).unwrap(), 0, "the connection is closed");

    let server =
        serve_with(ServerOptions { unread_max, farewell_max: unread_max, ..ServerOptions::default() });
    let mut never = session(&server);
    query(&mut never, "SELECT value FROM sequence(rate => 10000000)");
    wait_until("the end of the session", || server.sessions() == 0);
    answers(&server);
}

#[test]
fn only_this_machine_is_served() {
    use tidemill_engine::Fault;

    let everywhere = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start(&Runtime::new(Planner::new()), everywhere, ServerOptions::default());
    let Err(cause) = refused else { panic!("it listens to everybody") };
    assert_eq!(cause.fault, Fault::User);
    assert!(cause.to_string().contains("PASSWORD"), "{cause}");
}
