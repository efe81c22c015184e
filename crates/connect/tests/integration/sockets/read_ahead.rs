//! How much is taken from a sender that the query has not seen: it would be lost with the process.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidemill_connect::formats::Format;
use tidemill_connect::socket::UnixLines;
use tidemill_core::source::{Polled, Source};

use crate::sockets::fixture::{connect, listen, settings};

const LINE: &[u8] = b"{\"sender\": 1, \"value\": 1}\n";

/// Writes until the reader has taken nothing for a while; returns the number of bytes.
fn fill(stream: &mut impl Write) -> usize {
    let lines = LINE.repeat(100);
    let mut taken = 0;
    while let Ok(count) = stream.write(&lines[taken % LINE.len()..]) {
        taken += count;
    }
    taken
}

#[test]
fn a_connection_is_not_read_far_ahead_of_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let mut lines = UnixLines::listen(&path, settings(Format::Json)).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // Accepts the connection.
    assert!(matches!(lines.poll(Duration::from_millis(1)).unwrap(), Polled::Nothing));
    let taken = fill(&mut stream);
    // The system's buffer of a Unix socket has some 200 KB; two reads of 128 KiB, and one that waits for room.
    assert!(taken < 1024 * 1024, "{taken} bytes were taken");

    // It proceeds as the query does, and nothing is lost.
    drop(stream);
    let mut rows = 0;
    while rows < taken / LINE.len() {
        if let Polled::Rows(more) = lines.poll(Duration::from_secs(120)).unwrap() {
            rows += more.num_rows();
        }
    }
    assert_eq!(rows, taken / LINE.len());
}

#[test]
fn a_tcp_connection_is_not_read_far_ahead_either() {
    let mut lines = listen(settings(Format::Json));
    let mut stream = connect(&lines);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(matches!(lines.poll(Duration::from_millis(1)).unwrap(), Polled::Nothing));
    // Of this the larger part is in the sender's own buffer, which is the system's to choose: megabytes on one machine.
    let taken = fill(&mut stream);
    assert!(taken < 8 * 1024 * 1024, "{taken} bytes were taken");
}
