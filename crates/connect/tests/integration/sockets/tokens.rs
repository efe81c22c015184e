//! Tokens: the first line of a connection, or of a datagram.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use tidemill_connect::formats::Format;
use tidemill_connect::socket::{TcpLines, UdpLines, UdpSettings};
use tidemill_core::source::{Polled, Source};

use crate::sockets::fixture::*;

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

/// A file of tokens, which is replaced as a whole.
struct TokenFile(tempfile::TempDir);

impl TokenFile {
    fn new(text: &str) -> TokenFile {
        let file = TokenFile(tempfile::tempdir().unwrap());
        file.write(text);
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("tokens")
    }

    fn write(&self, text: &str) {
        let new = self.0.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&new, self.path()).unwrap();
    }
}

#[test]
fn connections_have_the_names_and_rights_of_their_tokens_and_end_with_them() {
    let file = TokenFile::new("ada sesame clicks,orders\nbob melon\neve pear orders\n");
    let mut settings = settings(Format::Json);
    (settings.token_file, settings.source) = (Some(file.path()), "clicks".to_owned());
    let mut source = TcpLines::listen("127.0.0.1:0", false, settings).unwrap();
    let address = source.local_address().unwrap();
    let send = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let mut ada = send("sesame\n{\"value\":1}\nrubbish\n");
    assert!(until(&mut source, 1, 1)[0].contains(" (ada), line 2: "), "the sender has a name");
    let mut bob = send("melon\n{\"value\":2}\n");
    until(&mut source, 1, 0);
    let _eve = send("pear\n");
    let told = until(&mut source, 0, 1);
    assert!(told[0].contains("the token of 'eve' is not for this source"), "{told:?}");

    // Ada's token goes, bob's is no longer for this source, and a new one comes.
    file.write("bob melon orders\nzoe plum clicks\n");
    let told = until(&mut source, 0, 2).concat();
    for name in ["(ada): closed, because its token", "(bob): closed, because its token"] {
        assert!(told.contains(name), "{told}");
    }
    for stream in [&mut ada, &mut bob] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
    }
    let mut zoe = send("plum\n{\"value\":3}\n");
    until(&mut source, 1, 0);
    let _again = send("sesame\n{\"value\":4}\n");
    assert!(until(&mut source, 0, 1)[0].contains("not a token that is known here"));
    // A file that cannot be used closes nobody.
    file.write("nonsense\n");
    std::thread::sleep(Duration::from_millis(2500));
    zoe.write_all(b"{\"value\":5}\n").unwrap();
    until(&mut source, 1, 0);
}

#[test]
fn tokens_of_datagrams_have_rights_and_are_replaced_while_they_come() {
    let file = TokenFile::new("ada sesame\neve pear orders\n");
    let mut udp = UdpSettings::new(Format::Json, settings(Format::Json).decoder);
    (udp.token_file, udp.source) = (Some(file.path()), "clicks".to_owned());
    let mut source = UdpLines::listen("127.0.0.1:0", false, udp).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = source.local_address();
    let send = |text: &str| assert_eq!(socket.send_to(text.as_bytes(), address).unwrap(), text.len());
    send("sesame\n{\"value\":1}");
    send("pear\n{\"value\":2}");
    assert!(until(&mut source, 1, 1).concat().contains("for this source"));
    file.write("ada melon\n");
    // The file is looked at once a second. Until then, the old token is known.
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE);
        send("sesame\n{\"value\":3}");
        let polled = source.poll(Duration::from_millis(50)).unwrap();
        if source.faults().count > 0 {
            break;
        }
        assert!(matches!(polled, Polled::Rows(_) | Polled::Nothing));
    }
    while let Polled::Rows(_) = source.poll(Duration::from_millis(200)).unwrap() {}
    send("melon\n{\"value\":4}");
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
    send("melon\n{\"value\":\"x\"}\n");
    let told = until(&mut source, 3, 3);
    assert!(told.concat().contains(" (bob), line 4: column 'value'"), "{told:?}");
    assert!(told.concat().contains("their first line is not a token that is known here"), "{told:?}");
    assert!(!told.concat().contains("sesame"));
}
