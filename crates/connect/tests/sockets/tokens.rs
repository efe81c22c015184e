//! Tokens: the first line of a connection, or of a datagram.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use tidemill_connect::formats::Format;
use tidemill_connect::socket::{TcpLines, UdpLines, UdpSettings};
use tidemill_core::source::{Polled, Source};

use crate::fixture::*;

const PATIENCE: Duration = Duration::from_secs(120);

/// Polls until there are as many rows and faults as wanted; the faults.
fn until(source: &mut dyn Source, rows: usize, faults: u64) -> Vec<String> {
    let (start, mut found, mut count, mut samples) = (Instant::now(), 0, 0, Vec::new());
    while found < rows || count < faults {
        assert!(start.elapsed() < PATIENCE, "{found} rows, {samples:?}");
        if let Polled::Rows(batch) = source.poll(Duration::from_millis(20)).unwrap() {
            found += batch.num_rows();
        }
        let new = source.faults();
        count += new.count;
        samples.extend(new.samples);
    }
    assert_eq!((found, count), (rows, faults), "{samples:?}");
    samples
}

#[test]
fn a_connection_begins_with_a_token() {
    let mut settings = settings(Format::Json);
    settings.token = Some("sesame".to_owned());
    let mut source = TcpLines::listen("127.0.0.1:0", false, settings).unwrap();
    let address = source.local_address().unwrap();
    let send = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        // Who is refused may be cut off while he sends.
        let _ = stream.write_all(text.as_bytes());
        stream
    };
    let _open = send("sesame\r\n{\"value\":1}\n{\"value\":2}\n");
    until(&mut source, 2, 0);
    for wrong in ["sesam\n7\n", "sesame2\n7\n", "7\nsesame\n", "\n7\n", " sesame\n7\n"] {
        let _open = send(wrong);
        let told = until(&mut source, 0, 1);
        assert!(
            told[0].contains("its first line is not a token that is known here")
                && !told[0].contains("sesam"),
            "{told:?}"
        );
    }
    drop(send("sesame"));
    assert!(until(&mut source, 0, 1)[0].contains("it ended before a token came"));
    let _long = send(&"x".repeat(10_000));
    assert!(until(&mut source, 0, 1)[0].contains("not a token"));
    // One that comes in pieces.
    let mut slow = send("ses");
    slow.flush().unwrap();
    slow.write_all(b"ame").unwrap();
    slow.write_all(b"\n{\"value\":3}\n").unwrap();
    until(&mut source, 1, 0);
}

#[test]
fn a_datagram_begins_with_a_token_of_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "ada sesame\nbob melon\n").unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let wanted = settings(Format::Json);
    let mut udp = UdpSettings::new(Format::Json, wanted.decoder);
    udp.token_file = Some(file.path().to_owned());
    let mut source = UdpLines::listen("127.0.0.1:0", false, udp).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = source.local_address();
    let send = |text: &str| assert_eq!(socket.send_to(text.as_bytes(), address).unwrap(), text.len());
    send("sesame\n{\"value\":1}\n{\"value\":2}");
    send("melon\r\n{\"value\":3}\n");
    send("4\n");
    send("sesame");
    send("");
    let told = until(&mut source, 3, 2);
    assert!(told.concat().contains("their first line is not a token that is known here"), "{told:?}");
    assert!(!told.concat().contains("sesame"));
}
