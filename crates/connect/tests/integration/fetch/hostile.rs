//! Servers that do harm, or nothing.

use std::io::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_core::error::Fault;
use tidemill_core::source::{Polled, Source};

use crate::fetch::support::{PATIENCE, assert_told, drain, read, refusal, settings};
use tidemill_testing::file_server::{Server, Stream, say};

fn limited(server: &Server) -> FileSettings {
    let mut settings = settings(&server.url("a.csv?token=secret"));
    settings.fetch.bytes_max = 1 << 20;
    settings
}

/// Rows for ever.
fn endless(stream: &mut dyn Stream) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    loop {
        write!(stream, "1000\r\n{}\r\n", "1234567\n".repeat(512))?;
    }
}

#[test]
fn a_file_is_not_longer_than_allowed() {
    let server = Server::start(|_, stream| endless(stream));
    let message = refusal(limited(&server));
    assert_told(
        &message,
        &["/a.csv: the file is longer than that, and at most 1048576 are fetched; raise download_max"],
    );
    assert_eq!(read(limited(&server)).unwrap_err().fault, Fault::Resource);
    // Announced: nothing of it is read.
    let server =
        Server::start(|_, stream| write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"));
    assert_told(&refusal(limited(&server)), &["the file is 1000000000000 bytes long"]);
}

#[test]
fn the_columns_of_an_endless_file_are_found_in_its_beginning() {
    let server = Server::start(|_, stream| endless(stream));
    let schema = FileSource::infer(&mut FileSettings::new(server.url("a.csv"))).unwrap();
    assert_eq!(schema.fields().len(), 1);
}

#[test]
fn a_file_that_comes_byte_by_byte_is_given_up_in_the_end() {
    let server = Server::start(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
        loop {
            stream.write_all(b"1\n")?;
            stream.flush()?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut settings = limited(&server);
    settings.fetch.time_max = Duration::from_secs(1);
    assert_told(&refusal(settings), &["fetching took longer than 1s", "raise download_time_max"]);
}

#[test]
fn answers_that_are_no_files_are_refused() {
    let long = format!("X: {}\r\n", "x".repeat(10 << 20));
    let many = "X: y\r\n".repeat(10_000);
    let answers: [(&str, String, &str); 9] = [
        (
            "404 Not Found",
            String::new(),
            "the server answers 404 Not Found; there is no such file: check the URL",
        ),
        ("403 Forbidden", String::new(), "check the token in headers = '...', and its rights"),
        ("401 Unauthorized", String::new(), "check the token"),
        ("204 No Content", String::new(), "it gives no file"),
        ("206 Partial Content", "Content-Range: bytes 5-9/100\r\n".to_owned(), "another part of the file"),
        ("206 Partial Content", "Content-Range: secret\r\n".to_owned(), "an unknown part of the file"),
        ("200 OK", "Content-Encoding: br\r\n".to_owned(), "compresses the answer with 'br'"),
        ("200 OK", long, "message head is too large"),
        ("200 OK", many, "gave up after 5 attempts"),
    ];
    for (status, headers, why) in answers {
        let server = Server::start(move |_, stream| say(stream, status, &headers, b"secret"));
        assert_told(&refusal(limited(&server)), &["/a.csv: ", why]);
    }
    let server = Server::start(|_, stream| write!(stream, "HTTP/1.1 200 OK\r\n\r\nid\n1\n"));
    assert_told(&refusal(limited(&server)), &["does not tell where the file ends"]);
    let server = Server::start(|_, stream| stream.write_all(&[0x16, 0x03, 0x01, 0, 7, 0xff].repeat(1000)));
    assert_told(&refusal(limited(&server)), &["gave up after 5 attempts"]);
}

#[test]
fn a_bomb_is_unpacked_only_as_it_is_read() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(b"id\n1\n").unwrap();
    for _ in 0..64 {
        encoder.write_all(&vec![b'9'; 1 << 20]).unwrap();
    }
    encoder.write_all(b"\n2\n").unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let server = Server::of_file(bomb);
    let mut source = FileSource::open(limited(&server)).unwrap();
    assert_eq!(drain(&mut source).unwrap(), [1, 2]);
    assert_eq!(source.faults().count, 1, "the line that is too long");
}

#[test]
fn a_source_that_is_dropped_lets_go_of_the_server() {
    let (sender, left) = channel();
    let sender = parking_lot::Mutex::new(sender);
    let server = Server::start(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nid\n")?;
        stream.flush()?;
        let ended = stream.read(&mut [0]);
        sender.lock().send(ended.is_ok_and(|count| count == 0)).unwrap();
        Ok(())
    });
    let mut source = FileSource::open(settings(&server.url("a.csv"))).unwrap();
    let start = Instant::now();
    while source.progress().done == 0 {
        assert!(start.elapsed() < PATIENCE);
        assert!(matches!(source.poll(Duration::from_millis(10)).unwrap(), Polled::Nothing));
    }
    assert_eq!(source.progress().total, Some(200), "fetching, and reading");
    drop(source);
    left.recv_timeout(PATIENCE).expect("the connection ends");
}
