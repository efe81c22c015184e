//! A receiver of requests, written byte by byte: it shares no code with the sink.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Queue, Sender, channel};
use std::thread;
use std::time::Duration;

use tidemill_testing::request_head::read_head;

/// A request as it came.
#[derive(Debug)]
pub struct Posted {
    /// The first line.
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Posted {
    /// All values of a header.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).collect()
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

/// What it does with a request.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// Status and further header lines, each with its end.
    Status(u16, &'static str),
    /// The connection is closed without an answer.
    HangUp,
    /// An answer, and then the end of the connection, which is not announced.
    StatusThenHangUp(u16),
    /// Nothing, for as long as the test lasts.
    Silence,
}

/// A receiver that answers requests, one after the other, as it is told; when nothing is left, with 204.
pub struct Receiver {
    pub port: u16,
    posted: Queue<Posted>,
}

impl Receiver {
    pub fn start(replies: &[Reply]) -> Receiver {
        Receiver::with_layer(replies, |stream| Box::new(stream))
    }

    /// With another layer over each connection.
    pub fn with_layer(
        replies: &[Reply],
        layer: impl Fn(std::net::TcpStream) -> Box<dyn ReadWrite> + Send + 'static,
    ) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, posted) = channel();
        let mut replies = Vec::from(replies).into_iter();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let stream = layer(stream.unwrap());
                silent.extend(serve(stream, &sender, &mut replies));
            }
        });
        Receiver { port, posted }
    }

    /// The next request.
    pub fn next(&self) -> Posted {
        self.posted.recv_timeout(Duration::from_secs(60)).expect("a request comes")
    }

    /// That none has come.
    pub fn is_empty(&self) -> bool {
        self.posted.try_recv().is_err()
    }
}

pub trait ReadWrite: Read + Write + Send {}

impl<T: Read + Write + Send> ReadWrite for T {}

/// Serves a connection to its end; returns one that is to stay open.
fn serve(
    stream: Box<dyn ReadWrite>,
    sender: &Sender<Posted>,
    replies: &mut impl Iterator<Item = Reply>,
) -> Option<BufReader<Box<dyn ReadWrite>>> {
    let mut reader = BufReader::new(stream);
    while let Some(posted) = read(&mut reader) {
        sender.send(posted).unwrap();
        let reply = replies.next().unwrap_or(Reply::Status(204, ""));
        let (status, headers) = match reply {
            Reply::Status(status, headers) => (status, headers),
            Reply::StatusThenHangUp(status) => (status, ""),
            Reply::HangUp => return None,
            Reply::Silence => return Some(reader),
        };
        let body = if status == 204 { "" } else { "said\nby the receiver" };
        let text = format!("HTTP/1.1 {status} Some\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len());
        if reader.get_mut().write_all(text.as_bytes()).and_then(|()| reader.get_mut().flush()).is_err() {
            return None;
        }
        if matches!(reply, Reply::StatusThenHangUp(_)) {
            return None;
        }
    }
    None
}

fn read(reader: &mut impl BufRead) -> Option<Posted> {
    let (line, headers) = read_head(reader)?;
    let mut posted = Posted { line, headers, body: String::new() };
    let mut body = vec![0; posted.header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    posted.body = String::from_utf8(body).unwrap();
    Some(posted)
}
