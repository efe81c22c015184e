//! A proxy before the server that cuts a connection around a COMMIT.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before COMMIT comes to the server.
    Before,
    /// After it has come there, before it is answered.
    After,
}

/// Forwards to a server; cuts the first `count` connections that send a COMMIT. Returns its port and how many are left
/// to be cut.
pub fn start(server_port: u16, cut: Cut, count: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let left = Arc::new(AtomicUsize::new(count));
    let cuts = left.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, cuts) = (client.unwrap(), cuts.clone());
            let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { continue };
            std::thread::spawn(move || forward(client, server, cut, &cuts));
        }
    });
    (port, left)
}

fn forward(mut client: TcpStream, mut server: TcpStream, cut: Cut, left: &AtomicUsize) {
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let is_commit = buffer[..length].windows(7).any(|bytes| bytes == b"COMMIT\0");
        let is_cut = is_commit
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_cut {
            // No answer goes back from here on.
            client.shutdown(Shutdown::Both).unwrap();
        }
        let goes_on = !is_cut || cut == Cut::After;
        if goes_on && server.write_all(&buffer[..length]).is_err() {
            break;
        }
        if is_cut {
            std::thread::sleep(Duration::from_millis(50));
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}
