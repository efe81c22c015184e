//! An agent that posts numbered requests, and sends one again until it has an answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Far longer than a restart takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// Posts bodies in their order, from a thread of its own.
pub struct Sender {
    answered: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Where requests go, and what they contain.
#[derive(Clone, Copy)]
pub struct Form {
    /// The path of each request.
    pub path: &'static str,
    /// The content type of each request.
    pub content_type: &'static str,
}

/// Points, with times in milliseconds.
pub const LINE_PROTOCOL: Form = Form { path: "/api/v2/write?precision=ms", content_type: "text/plain" };

impl Sender {
    /// Posts line protocol.
    pub fn start(port: u16, client: &'static str, bodies: Vec<String>) -> Sender {
        Sender::start_as(LINE_PROTOCOL, port, client, bodies)
    }

    /// Posts in another form. A body is made when the one before it has been answered.
    pub fn start_as<B>(form: Form, port: u16, client: &'static str, bodies: B) -> Sender
    where
        B: IntoIterator<Item = String> + Send + 'static,
    {
        let answered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&answered);
        let thread = thread::spawn(move || {
            let mut connection = None;
            for (sequence, body) in bodies.into_iter().enumerate() {
                until_answered(&mut connection, form, port, client, sequence, &body);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Sender { answered, thread }
    }

    /// How many requests were answered.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// Waits until all bodies are answered.
    pub fn join(self) {
        self.thread.join().expect("the sender does not panic");
    }
}

fn until_answered(
    connection: &mut Option<BufReader<TcpStream>>,
    form: Form,
    port: u16,
    client: &str,
    sequence: usize,
    body: &str,
) {
    let start = Instant::now();
    loop {
        match post(connection, form, port, client, sequence, body) {
            Ok(204) => return,
            Ok(503) => *connection = None,
            Ok(status) => panic!("request {sequence} was answered {status}"),
            Err(_) => *connection = None,
        }
        assert!(start.elapsed() < PATIENCE, "request {sequence} has no answer");
        thread::sleep(Duration::from_millis(5));
    }
}

fn post(
    connection: &mut Option<BufReader<TcpStream>>,
    form: Form,
    port: u16,
    client: &str,
    sequence: usize,
    body: &str,
) -> std::io::Result<u16> {
    if connection.is_none() {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        *connection = Some(BufReader::new(stream));
    }
    let stream = connection.as_mut().expect("it is there");
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\nX-Tidemill-Client: {client}\r\n\
         X-Tidemill-Sequence: {sequence}\r\nContent-Length: {}\r\n\r\n",
        form.path,
        form.content_type,
        body.len()
    );
    stream.get_mut().write_all((head + body).as_bytes())?;
    read_status(stream)
}

fn read_status(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().expect("a status");
        } else if let Some(bytes) = text.strip_prefix("content-length:") {
            length = bytes.trim().parse().expect("a length");
        } else if text.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    Ok(status)
}
