//! A server of files, written byte by byte: it shares no code with what fetches them. Each request has a connection of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::request_head::read_head;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path and query.
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// All values of a header.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// The bytes that are asked for.
    pub fn range(&self, length: usize) -> Option<std::ops::Range<usize>> {
        let (start, end) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (start, end) {
            ("", last) => length - last.parse::<usize>().unwrap().min(length)..length,
            (first, "") => first.parse().unwrap()..length,
            (first, last) => first.parse().unwrap()..(last.parse::<usize>().unwrap() + 1).min(length),
        })
    }
}

/// A connection, with TLS or without.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Answers a request on its connection.
pub type Answer = dyn Fn(&Request, &mut dyn Stream) -> io::Result<()> + Send + Sync;

/// A server whose answers a test decides.
pub struct Server {
    /// Where it listens.
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server that answers each request so.
    pub fn start(
        answer: impl Fn(&Request, &mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        Server::with_layer(|stream| Box::new(stream), answer)
    }

    /// With another layer over each connection.
    pub fn with_layer(
        layer: impl Fn(TcpStream) -> Box<dyn Stream> + Send + 'static,
        answer: impl Fn(&Request, &mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (known, answer) = (Arc::clone(&requests), Arc::new(answer) as Arc<Answer>);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (known, answer, stream) =
                    (Arc::clone(&known), Arc::clone(&answer), layer(stream.unwrap()));
                thread::spawn(move || serve(stream, &known, &*answer));
            }
        });
        Server { port, requests }
    }

    /// One that has a single file, and can send parts of it.
    pub fn of_file(content: impl Into<Vec<u8>>) -> Server {
        let content = content.into();
        Server::start(move |request, stream| part(request, stream, &content, "\"one\""))
    }

    /// Returns the address of a path of this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }
}

fn serve(stream: Box<dyn Stream>, known: &Mutex<Vec<Request>>, answer: &Answer) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else { return };
    known.lock().push(request.clone());
    // Who requested it may be gone.
    let _ = answer(&request, reader.get_mut()).and_then(|()| reader.get_mut().flush());
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let (line, headers) = read_head(reader)?;
    Some(Request { path: line.split(' ').nth(1)?.to_owned(), headers })
}

/// A whole answer. Its further header lines have their ends.
pub fn say(stream: &mut dyn Stream, status: &str, headers: &str, body: &[u8]) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len())?;
    stream.write_all(body)
}

/// The part of a file that is asked for, or all of it.
pub fn part(request: &Request, stream: &mut dyn Stream, content: &[u8], version: &str) -> io::Result<()> {
    let is_same = request.header("if-range").is_none_or(|known| known == version);
    match request.range(content.len()).filter(|_| is_same) {
        Some(range) => {
            let headers = format!(
                "ETag: {version}\r\nContent-Range: bytes {}-{}/{}\r\n",
                range.start,
                range.end - 1,
                content.len()
            );
            say(stream, "206 Partial Content", &headers, &content[range])
        }
        None => say(stream, "200 OK", &format!("ETag: {version}\r\n"), content),
    }
}
