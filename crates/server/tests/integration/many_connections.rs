//! Clients that come at once, and those for which there is no room.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{PATIENCE, run, serve_with, try_connect, wait_until};
use futures_util::future::join_all;
use tidemill_server::ServerOptions;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Connections that may be there without a session.
const BEGINNING_MAX: usize = 64;

/// Each of them has a file in this process twice, at both ends; so there are not more of them.
#[test]
fn hundreds_of_clients_that_come_at_once_are_all_served() {
    let connections_max = 5 * BEGINNING_MAX;
    let server = serve_with(ServerOptions { connections_max, ..ServerOptions::default() });
    run(async {
        let clients = join_all((0..connections_max).map(|_| try_connect(&server))).await;
        let clients: Vec<Client> = clients.into_iter().map(|client| client.unwrap()).collect();
        let numbers = join_all(clients.iter().map(|client| client.query_one("SELECT 7 AS n", &[]))).await;
        assert!(numbers.into_iter().all(|row| row.unwrap().get::<_, i64>(0) == 7));
        let Err(error) = try_connect(&server).await else { panic!("there is one session too many") };
        let error = error.as_db_error().expect("the server says why");
        assert_eq!(error.code(), &SqlState::TOO_MANY_CONNECTIONS);
        assert_eq!(error.message(), format!("the server already has {connections_max} sessions"));
        assert!(error.hint().unwrap().contains("--connections"));
    });
    wait_until("the end of all sessions", || server.sessions() == 0);
}

#[test]
fn clients_that_never_begin_keep_no_others_away() {
    let server = serve_with(ServerOptions { startup_timeout: PATIENCE * 10, ..ServerOptions::default() });
    // Some say nothing, and some begin to say something.
    let connect_only = |index: usize| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&b"\0\0\0\x11\0\x03\0\0user"[..index % 9]).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..2 * BEGINNING_MAX).map(connect_only).collect();
    run(async {
        for _ in 0..5 {
            let client = try_connect(&server).await.expect("the oldest makes room");
            assert_eq!(client.query_one("SELECT 7 AS n", &[]).await.unwrap().get::<_, i64>(0), 7);
        }
    });
    drop(silent);
}

#[test]
fn a_server_that_has_no_room_to_begin_ends_at_once() {
    let server = serve_with(ServerOptions { startup_timeout: PATIENCE * 10, ..ServerOptions::default() });
    let silent: Vec<TcpStream> =
        (0..=BEGINNING_MAX).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| server.stop());
        let start = std::time::Instant::now();
        while !ending.is_finished() {
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    drop(silent);
}
