//! Servers for tests, on free ports.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tidemill_server::{HttpOptions, HttpServer, Server, ServerOptions};
use tidemill_service::{Runtime, Session};
use tidemill_sql::{Planner, parse};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, NoTls};

/// Something that should have happened long ago has not.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn serve() -> Server {
    serve_with(ServerOptions::default())
}

pub fn serve_runtime(runtime: &Runtime) -> Server {
    Server::start(runtime, "127.0.0.1:0".parse().unwrap(), ServerOptions::default()).unwrap()
}

pub fn serve_with(options: ServerOptions) -> Server {
    let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Server::start(&Runtime::new(Planner::new()), any_port, options).unwrap()
}

/// Runs what a client does.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A session of a server without users.
pub async fn connect(server: &Server) -> Client {
    try_connect(server).await.unwrap()
}

/// The same, if the server accepts it.
pub async fn try_connect(server: &Server) -> Result<Client, Error> {
    Ok(watched(server).await?.0)
}

/// The same, with what ends its connection.
pub async fn watched(server: &Server) -> Result<(Client, JoinHandle<Result<(), Error>>), Error> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user("me").dbname("db");
    let (client, connection) = config.connect(NoTls).await?;
    Ok((client, tokio::spawn(connection)))
}

/// Waits until something holds.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} does not come to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// HTTP over a runtime, on a free port.
pub fn serve_http(runtime: &Runtime, options: HttpOptions) -> HttpServer {
    let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::start(any_port, options).unwrap();
    server.serve(runtime).unwrap();
    server
}

/// What a server has answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends a request as it is, and reads until the server closes the connection.
pub fn send(address: SocketAddr, request: &str) -> Answered {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    answered(&bytes)
}

/// Takes an answer apart.
pub fn answered(bytes: &[u8]) -> Answered {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_owned() };
    Answered { status, head: head.to_owned(), body }
}

/// The chunks of a body as one text; up to where it breaks off.
fn joined(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
        text.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or("");
    }
    text
}

pub fn get(address: SocketAddr, path: &str) -> Answered {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// Executes statements, and starts the materialized views among them by name, as a server does.
pub fn start(runtime: &Runtime, name: &str, statements: &str) {
    let mut session = Session::new(runtime);
    for statement in parse(statements, "test").unwrap() {
        session.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let pipeline = session.pipeline_of(&[name]).unwrap_or_else(|error| panic!("{error}"));
    runtime.start(name, pipeline, false).unwrap();
}
