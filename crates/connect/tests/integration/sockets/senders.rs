//! Whatever senders do, the good rows arrive, and the bad ones are counted.

use std::io::Write;
use std::thread;
use std::time::Duration;

use tidemill_connect::formats::{Format, RECORD_LIMIT_BYTES};
use tidemill_connect::socket::SocketSettings;
use tidemill_core::source::Source;

use crate::sockets::fixture::{connect, ended, faults, listen, poll_until, rows, send, settings};

#[test]
fn many_senders_at_once_each_in_order() {
    const SENDERS: i64 = 40;
    const VALUES: i64 = 500;
    let ends = SocketSettings { end_with_last_connection: true, ..settings(Format::Json) };
    let mut lines = listen(ends);
    assert!(lines.is_finite());
    let mut streams: Vec<_> = (0..SENDERS).map(|_| connect(&lines)).collect();
    let senders: Vec<_> = streams
        .drain(..)
        .zip(0..)
        .map(|(mut stream, sender)| {
            thread::spawn(move || (0..VALUES).for_each(|value| send(&mut stream, sender, value)))
        })
        .collect();
    let received = poll_until(&mut lines, ended);
    assert_eq!(received.faults.count, 0, "{:?}", received.faults);
    assert_eq!(received.rows.len() as i64, SENDERS * VALUES);
    for sender in 0..SENDERS {
        let values = received.rows.iter().filter(|row| row.0 == sender).map(|row| row.1);
        assert!(values.eq(0..VALUES), "sender {sender} in order");
    }
    assert_eq!(lines.progress().done as i64, SENDERS * VALUES);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

#[test]
fn a_line_may_come_in_pieces() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    stream.set_nodelay(true).unwrap();
    for piece in [b"{\"sender\"".as_slice(), b": 1, \"val", b"ue\": 2}"] {
        stream.write_all(piece).unwrap();
        let start = std::time::Instant::now();
        let received = poll_until(&mut lines, |_| start.elapsed() > Duration::from_millis(30));
        assert!(received.rows.is_empty(), "the line is not complete");
    }
    stream.write_all(b"\n").unwrap();
    let received = poll_until(&mut lines, rows(1));
    assert_eq!((received.rows, received.faults.count), (vec![(1, 2)], 0));
}

#[test]
fn who_vanishes_in_the_middle_of_a_line_loses_that_line_only() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    send(&mut stream, 1, 1);
    // Would be a whole record, if it had a line end.
    stream.write_all(b"{\"sender\": 1, \"value\": 2}").unwrap();
    drop(stream);
    let received = poll_until(&mut lines, faults(1));
    assert_eq!(received.rows, [(1, 1)]);
    assert!(received.fault().starts_with("tcp peer 127.0.0.1:"), "{}", received.fault());
    assert!(received.fault().contains("in the middle of a line"), "{}", received.fault());
    send(&mut connect(&lines), 2, 3);
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(2, 3)], "others are not concerned");
}

#[test]
fn a_giant_line_is_left_out() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    let sender = thread::spawn(move || {
        send(&mut stream, 1, 1);
        stream.write_all(&vec![b'x'; 3 * RECORD_LIMIT_BYTES]).unwrap();
        stream.write_all(b"\n").unwrap();
        send(&mut stream, 1, 2);
        stream
    });
    let received = poll_until(&mut lines, rows(2));
    assert_eq!((received.rows, received.faults.count), (vec![(1, 1), (1, 2)], 1));
    sender.join().unwrap();
}

#[test]
fn broken_lines_are_counted_with_sender_and_line() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    let peer = stream.local_addr().unwrap();
    stream.write_all(b"{\"sender\": 1, \"value\": 1}\nnonsense\n{\"sender\": 1, \"value\": 2}\n").unwrap();
    let received = poll_until(&mut lines, |received| received.rows.len() == 2 && received.faults.count == 1);
    let place = format!("tcp peer {peer}, line 2: ");
    assert!(received.fault().starts_with(&place), "{} begins with {place}", received.fault());
}

#[test]
fn a_slow_sender_does_not_hold_up_a_fast_one() {
    let mut lines = listen(settings(Format::Json));
    let (mut slow, mut fast) = (connect(&lines), connect(&lines));
    let fast_sender = thread::spawn(move || (0..20_000).for_each(|value| send(&mut fast, 1, value)));
    slow.write_all(b"{\"sender\": 2,").unwrap();
    assert_eq!(poll_until(&mut lines, rows(20_000)).rows.len(), 20_000);
    slow.write_all(b" \"value\": 0}\n").unwrap();
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(2, 0)]);
    fast_sender.join().unwrap();
}

#[test]
fn a_query_that_does_not_poll_holds_its_senders_back() {
    const LIMIT_BYTES: usize = 256 * 1024 * 1024;
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    send(&mut stream, 1, 0);
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 0)], "the connection is accepted");
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let chunk = b"{\"sender\": 1, \"value\": 1}\n".repeat(1000);
    let mut sent = 0;
    while sent < LIMIT_BYTES {
        match stream.write(&chunk[sent % chunk.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(sent < LIMIT_BYTES, "somebody takes bytes though nobody polls");
    let count = sent / (chunk.len() / 1000);
    let received = poll_until(&mut lines, rows(count));
    assert_eq!((received.rows.len(), received.faults.count), (count, 0), "nothing is lost");
}

#[test]
fn each_connection_has_its_own_csv_header_and_quotes() {
    let ends = SocketSettings { end_with_last_connection: true, ..settings(Format::Csv) };
    let mut lines = listen(ends);
    let (mut first, mut second) = (connect(&lines), connect(&lines));
    first.write_all(b"sender,value\n1,1\n\"1\n").unwrap();
    second.write_all(b"value,sender\n10,2\n").unwrap();
    let mut received = poll_until(&mut lines, rows(2)).rows;
    received.sort_unstable();
    assert_eq!(received, [(1, 1), (2, 10)]);
    second.write_all(b"11,2\n").unwrap();
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(2, 11)]);
    drop((first, second));
    let received = poll_until(&mut lines, ended);
    assert_eq!((received.rows, received.faults.count), (vec![], 1), "the quote was never closed");
}

#[test]
fn a_sender_with_other_columns_is_sent_away() {
    let mut lines = listen(settings(Format::Csv));
    let (mut wrong, mut right) = (connect(&lines), connect(&lines));
    wrong.write_all(b"name,colour\nx,red\n").unwrap();
    let received = poll_until(&mut lines, faults(1));
    assert!(received.fault().contains("closed: "), "{}", received.fault());
    right.write_all(b"sender,value\n1,2\n").unwrap();
    assert_eq!(poll_until(&mut lines, rows(1)).rows, [(1, 2)]);
}

/// A browser sends what a page of any site asks it to, also to a port at which no web server listens.
#[test]
fn the_body_of_an_http_request_is_no_rows() {
    let mut lines = listen(settings(Format::Json));
    for head in [
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n\r\n"
            .to_owned(),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(100_000)),
    ] {
        let mut page = connect(&lines);
        // The connection may be closed before all of it is sent.
        let _ = page.write_all(head.as_bytes());
        let _ = page.write_all(b"{\"sender\": 7, \"value\": 7}\n");
    }
    let received = poll_until(&mut lines, faults(2));
    assert!(received.rows.is_empty(), "{received:?}");
    let mut sender = connect(&lines);
    send(&mut sender, 1, 2);
    let received = poll_until(&mut lines, rows(1));
    assert_eq!(received.rows.len(), 1);
}
