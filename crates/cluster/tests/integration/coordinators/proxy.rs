//! A proxy that loses connections at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use parking_lot::Mutex;

/// What happens to the next bytes of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are passed on, and so is the answer.
    Pass,
    /// They are lost, and the connection with them.
    LoseRequest,
    /// They arrive, and the connection is lost when the answer comes.
    LoseAnswer,
    /// The connection is lost, and they arrive when [`Proxy::release`] says so.
    Delay,
}

pub struct Proxy {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    fate: Fate,
    /// With what hears of each answer.
    delayed: Vec<(TcpStream, Vec<u8>, Receiver<()>)>,
}

impl Proxy {
    /// Starts a proxy of a server on this machine.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State { fate: Fate::Pass, delayed: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", server))) else {
                    return;
                };
                let shared = Arc::clone(&shared);
                thread::spawn(move || pass(client, server, &shared));
            }
        });
        Proxy { port, state }
    }

    /// Decides about the next bytes of a client; those after them pass.
    pub fn next(&self, fate: Fate) {
        self.state.lock().fate = fate;
    }

    /// Lets what was delayed arrive, and waits until it is answered.
    pub fn release(&self) {
        for (mut server, bytes, answered) in self.state.lock().delayed.drain(..) {
            // Those to earlier requests.
            answered.try_iter().for_each(drop);
            server.write_all(&bytes).unwrap();
            answered.recv().expect("an answer to what came late");
        }
    }
}

fn pass(mut client: TcpStream, mut server: TcpStream, state: &Mutex<State>) {
    let (mut back, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let is_lost = Arc::new(Mutex::new(false));
    let loses = Arc::clone(&is_lost);
    let (hears, answered) = channel();
    let answers = thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let _ = hears.send(());
            if *loses.lock() {
                break;
            }
            // The client of a delayed request has gone, but what the server says is waited for.
            let _ = back.write_all(&bytes[..count]);
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let fate = std::mem::replace(&mut state.lock().fate, Fate::Pass);
        match fate {
            Fate::Pass => {}
            Fate::LoseAnswer => *is_lost.lock() = true,
            Fate::LoseRequest => break,
            Fate::Delay => {
                let (kept, mut request) = (server.try_clone().unwrap(), bytes[..count].to_vec());
                while !is_whole(&request) {
                    let count = client.read(&mut bytes).unwrap();
                    assert!(count > 0, "the client has given up in the middle of a request");
                    request.extend_from_slice(&bytes[..count]);
                }
                state.lock().delayed.push((kept, request, answered));
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // An answer that is to be lost must have come before.
    if !*is_lost.lock() {
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    }
    let _ = answers.join();
}

/// Returns whether this is a whole request, of HTTP or of PostgreSQL's protocol.
fn is_whole(request: &[u8]) -> bool {
    if !request.starts_with(b"POST ") {
        let length = request.get(1..5).map(|length| u32::from_be_bytes(length.try_into().unwrap()));
        return length.is_some_and(|length| request.len() > length as usize);
    }
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
}
