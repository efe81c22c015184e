//! Who may connect, how many, how long, and how it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidemill_connect::Quotas;
use tidemill_connect::formats::Format;
use tidemill_connect::socket::{SocketSettings, TcpLines, UdpLines, UdpSettings};
use tidemill_core::source::{Polled, Source};
use tidemill_core::{Cause, Fault};

use crate::sockets::fixture::{connect, ended, faults, listen, poll_until, rows, send, settings};

#[test]
fn other_machines_are_let_in_only_if_allowed() {
    let json = settings(Format::Json);
    let refused = TcpLines::listen("0.0.0.0:0", false, json.clone()).unwrap_err();
    assert!(refused.fault == Fault::User && refused.message.contains("allow_remote"), "{refused}");
    // Who comes from elsewhere shows a token, unless it is said that nobody need to.
    let open = TcpLines::listen("0.0.0.0:0", true, json.clone()).unwrap_err();
    assert!(open.fault == Fault::User && open.message.contains("set insecure"), "{open}");
    let with_token = SocketSettings { token: Some("sesame".to_owned()), ..json.clone() };
    assert!(TcpLines::listen("0.0.0.0:0", true, with_token).is_ok());
    assert!(TcpLines::listen("0.0.0.0:0", true, SocketSettings { insecure: true, ..json.clone() }).is_ok());
    let datagrams = UdpSettings::new(Format::Json, json.decoder);
    let open = UdpLines::listen("0.0.0.0:0", true, datagrams.clone()).unwrap_err();
    assert!(open.fault == Fault::User && open.message.contains("set insecure"), "{open}");
    assert!(UdpLines::listen("0.0.0.0:0", true, UdpSettings { insecure: true, ..datagrams }).is_ok());
}

#[test]
fn addresses_that_cannot_be_used_are_refused() {
    let json = || settings(Format::Json);
    assert!(matches!(TcpLines::listen("nonsense", false, json()), Err(Cause { fault: Fault::User, .. })));
    assert!(matches!(TcpLines::connect("nonsense", json()), Err(Cause { fault: Fault::User, .. })));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(matches!(TcpLines::listen(&address, false, json()), Err(Cause { fault: Fault::Operation, .. })));
}

#[test]
fn settings_out_of_range_are_refused() {
    let json = || settings(Format::Json);
    for settings in [
        SocketSettings { connections_max: 0, ..json() },
        SocketSettings { attempts_max: 0, ..json() },
        SocketSettings { idle_timeout: Some(Duration::ZERO), ..json() },
        SocketSettings { format: Format::Parquet, ..json() },
    ] {
        assert!(matches!(
            TcpLines::listen("127.0.0.1:0", false, settings),
            Err(Cause { fault: Fault::User, .. })
        ));
    }
}

#[test]
fn one_connection_too_many_is_closed_and_counted() {
    let mut lines = listen(SocketSettings { connections_max: 2, ..settings(Format::Json) });
    let (mut first, mut second) = (connect(&lines), connect(&lines));
    send(&mut first, 1, 0);
    send(&mut second, 2, 0);
    poll_until(&mut lines, rows(2));
    let mut third = connect(&lines);
    let received = poll_until(&mut lines, faults(1));
    assert!(received.fault().contains("connections are open"), "{}", received.fault());
    assert!(matches!(third.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
    drop(first);
    // Seen only after the thread of the first connection has ended: until then newcomers are refused.
    let mut sent = false;
    for _ in 0..1000 {
        let mut stream = connect(&lines);
        send(&mut stream, 4, 0);
        if matches!(lines.poll(Duration::from_millis(50)), Ok(Polled::Rows(_))) {
            sent = true;
            break;
        }
    }
    assert!(sent, "there is room again");
    send(&mut second, 2, 1);
    assert!(poll_until(&mut lines, rows(1)).rows.contains(&(2, 1)));
}

#[test]
fn the_idlest_connection_makes_room_for_another() {
    let patient = SocketSettings { connections_max: 2, ..settings(Format::Json) };
    let mut lines = listen(SocketSettings { idle_for_another: Duration::ZERO, ..patient });
    let (mut first, mut second) = (connect(&lines), connect(&lines));
    send(&mut first, 1, 0);
    poll_until(&mut lines, rows(1));
    send(&mut second, 2, 0);
    poll_until(&mut lines, rows(1));
    // More come than there is room for, and none of those before says a word. One that has just spoken may not be waiting yet.
    for sender in 3..20 {
        let is_heard = (0..1000).any(|_| {
            let mut another = connect(&lines);
            send(&mut another, sender, 0);
            let heard =
                poll_until(&mut lines, |received| !received.rows.is_empty() || received.faults.count > 0);
            !heard.rows.is_empty()
        });
        assert!(is_heard, "sender {sender}");
    }
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
}

#[test]
fn an_idle_connection_is_closed() {
    let idle_timeout = Some(Duration::from_millis(50));
    let mut lines = listen(SocketSettings { idle_timeout, ..settings(Format::Json) });
    let mut stream = connect(&lines);
    // At once: between two writes, this thread could be idle for too long.
    stream.write_all(b"{\"sender\": 1, \"value\": 0}\n{\"sender\"").unwrap();
    let received = poll_until(&mut lines, faults(1));
    assert_eq!(received.rows, [(1, 0)]);
    assert!(
        received.fault().contains("was idle for too long in the middle of a line"),
        "{}",
        received.fault()
    );
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn it_waits_for_senders_unless_it_ends_with_the_last_one() {
    let mut endless = listen(settings(Format::Json));
    assert!(!endless.is_finite());
    send(&mut connect(&endless), 1, 1);
    assert_eq!(poll_until(&mut endless, rows(1)).rows, [(1, 1)]);
    for _ in 0..10 {
        assert!(matches!(endless.poll(Duration::from_millis(5)), Ok(Polled::Nothing)));
    }
    let ends = SocketSettings { end_with_last_connection: true, ..settings(Format::Json) };
    let mut finite = listen(ends);
    assert!(matches!(finite.poll(Duration::from_millis(30)), Ok(Polled::Nothing)), "nobody was there yet");
    drop(connect(&finite));
    assert!(poll_until(&mut finite, ended).rows.is_empty());
}

#[test]
fn dropping_the_source_closes_its_connections_and_frees_the_port() {
    let mut lines = listen(settings(Format::Json));
    let address = lines.local_address().unwrap();
    let mut stream = connect(&lines);
    send(&mut stream, 1, 1);
    poll_until(&mut lines, rows(1));
    drop(lines);
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn dropping_the_source_frees_a_thread_that_waits_to_deliver() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    send(&mut stream, 1, 1);
    poll_until(&mut lines, rows(1));
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let chunk = b"{\"sender\": 1, \"value\": 1}\n".repeat(2000);
    while stream.write_all(&chunk).is_ok() {}
    drop(lines);
}

#[test]
fn columns_can_be_chosen() {
    let mut lines = listen(settings(Format::Json));
    lines.set_projection(&[1]).unwrap();
    assert_eq!(lines.schema().fields().len(), 1);
    assert!(matches!(lines.set_projection(&[2]), Err(Cause { fault: Fault::Bug, .. })));
    send(&mut connect(&lines), 1, 7);
    let Polled::Rows(rows) = lines.poll(Duration::from_secs(120)).unwrap() else { panic!("there are rows") };
    assert_eq!(rows.schema(), lines.schema());
}

#[test]
fn a_client_has_no_more_connections_than_its_share() {
    let limits = SocketSettings { connections_per_client: 2, ..settings(Format::Json) };
    let mut lines = listen(limits);
    let (mut first, _second) = (connect(&lines), connect(&lines));
    send(&mut first, 1, 0);
    poll_until(&mut lines, rows(1));
    let mut third = connect(&lines);
    let received = poll_until(&mut lines, faults(1));
    assert!(received.fault().contains("connections_per_client"), "{}", received.fault());
    assert!(matches!(third.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
}

#[test]
fn a_client_beyond_its_quota_is_held_back_and_loses_nothing() {
    let quotas = Quotas { rows_per_second: Some(2000), bytes_per_second: None };
    let mut lines = listen(SocketSettings { quotas, ..settings(Format::Json) });
    let mut stream = connect(&lines);
    let start = Instant::now();
    let all: String = (0..6000).map(|value| format!("{{\"sender\": 1, \"value\": {value}}}\n")).collect();
    let sender = std::thread::spawn(move || stream.write_all(all.as_bytes()).map(|()| stream));
    assert_eq!(poll_until(&mut lines, rows(6000)).rows.len(), 6000);
    // One second's worth was saved up, and the last read counts when it has come.
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    sender.join().unwrap().unwrap();
}

#[test]
fn who_never_says_a_word_makes_room_before_the_others() {
    let mut lines = listen(SocketSettings { connections_max: 2, ..settings(Format::Json) });
    let mut speaker = connect(&lines);
    send(&mut speaker, 1, 0);
    poll_until(&mut lines, rows(1));
    let mut silent = connect(&lines);
    // Refused until the silent one has been there for a second.
    let is_heard = (0..3000).any(|_| {
        let mut another = connect(&lines);
        send(&mut another, 2, 0);
        !poll_until(&mut lines, |received| !received.rows.is_empty() || received.faults.count > 0)
            .rows
            .is_empty()
    });
    assert!(is_heard);
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
    send(&mut speaker, 1, 1);
    assert!(poll_until(&mut lines, rows(1)).rows.contains(&(1, 1)), "the other one is not");
}
