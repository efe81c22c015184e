//! However many senders there are, they hold no more than the queue of their source has room for.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidemill_connect::formats::Format;
use tidemill_connect::socket::SocketSettings;
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::source::{Polled, Source};

use crate::sockets::fixture::{connect, faults, listen, poll_until, rows, send, settings};

const QUEUE_BYTES: usize = 4 << 20;

/// `sender`, `value`, and 20 columns that no line has a value for.
fn wide(format: Format) -> SocketSettings {
    let mut wide = SocketSettings { queue_bytes: QUEUE_BYTES, ..settings(format) };
    let names =
        ["sender".to_owned(), "value".to_owned()].into_iter().chain((0..20).map(|n| format!("empty_{n}")));
    let fields = names.map(|name| Field::new(name, DataType::Int64, true));
    wide.decoder.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    wide
}

/// Polls until no connection holds anything and the condition holds.
fn poll_until_empty(source: &mut tidemill_connect::socket::TcpLines) {
    for _ in 0..3000 {
        if source.held_bytes() == 0 {
            return;
        }
        assert!(!matches!(source.poll(Duration::from_millis(10)), Ok(Polled::Ended) | Err(_)));
    }
    panic!("{} bytes are still held", source.held_bytes());
}

#[test]
fn many_senders_share_the_room_of_one_queue() {
    const SENDERS: i64 = 200;
    const LINES: i64 = 1000;
    let mut lines = listen(wide(Format::Json));
    // The system keeps no more than some 128 that are not accepted.
    let mut streams = Vec::new();
    for _ in 0..SENDERS {
        streams.push(connect(&lines));
        assert!(matches!(lines.poll(Duration::ZERO), Ok(Polled::Nothing)), "it is accepted");
    }
    let senders: Vec<_> = (0..SENDERS)
        .zip(streams)
        .map(|(sender, mut stream)| {
            thread::spawn(move || {
                let all: String = (0..LINES)
                    .map(|value| format!("{{\"sender\": {sender}, \"value\": {value}}}\n"))
                    .collect();
                stream.write_all(all.as_bytes()).unwrap();
                stream
            })
        })
        .collect();
    // As long as nobody takes rows, the queue fills up to its limit.
    let mut most = 0;
    for _ in 0..3000 {
        most = most.max(lines.held_bytes());
        if most > QUEUE_BYTES / 4 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(most > QUEUE_BYTES / 4, "the queue holds {most} bytes");
    let (mut count, mut sum, mut decoded) = (0, 0, 0);
    while count < SENDERS * LINES {
        most = most.max(lines.held_bytes());
        let Polled::Rows(rows) = lines.poll(Duration::from_secs(120)).unwrap() else {
            panic!("rows are missing")
        };
        decoded += rows.get_array_memory_size();
        count += rows.num_rows() as i64;
        let values = tidemill_core::arrow::array::cast::AsArray::as_primitive::<
            tidemill_core::arrow::array::types::Int64Type,
        >(rows.column(1).as_ref());
        sum += values.values().iter().sum::<i64>();
    }
    assert_eq!((count, sum), (SENDERS * LINES, SENDERS * LINES * (LINES - 1) / 2), "nothing is lost");
    assert!(most <= QUEUE_BYTES, "{most} bytes were held");
    assert!(decoded > 4 * QUEUE_BYTES, "{decoded} bytes would have fitted");
    senders.into_iter().for_each(|sender| drop(sender.join().unwrap()));
    poll_until_empty(&mut lines);
}

#[test]
fn records_without_an_end_make_room_for_others() {
    let mut lines = listen(wide(Format::Json));
    let mut hostile: Vec<_> = (0..20).map(|_| connect(&lines)).collect();
    let mut good = connect(&lines);
    assert!(matches!(lines.poll(Duration::ZERO), Ok(Polled::Nothing)), "all are accepted");
    let hostile = thread::spawn(move || {
        let begun = [b"{\"sender\": 1".as_slice(), &[b' '; 500_000]].concat();
        // Some of them are closed.
        hostile.iter_mut().for_each(|stream| drop(stream.write_all(&begun)));
        hostile
    });
    let received = poll_until(&mut lines, faults(10));
    assert!(received.fault().contains("closed in the middle of a record"), "{}", received.fault());
    assert!(lines.held_bytes() <= QUEUE_BYTES, "{}", lines.held_bytes());
    (0..5000).for_each(|value| send(&mut good, 2, value));
    assert_eq!(poll_until(&mut lines, rows(5000)).rows.len(), 5000);
    drop((hostile.join().unwrap(), good));
    poll_until_empty(&mut lines);
}

#[test]
fn what_a_connection_holds_is_free_again_when_it_ends() {
    let mut lines = listen(wide(Format::Json));
    for _ in 0..30 {
        let mut stream = connect(&lines);
        stream.write_all(&b"rubbish\n".repeat(200)).unwrap();
        stream.write_all(&[b'{'; 100_000]).unwrap();
        drop(stream);
        let received = poll_until(&mut lines, faults(201));
        assert_eq!((received.rows.len(), received.faults.count), (0, 201));
    }
    poll_until_empty(&mut lines);
}
