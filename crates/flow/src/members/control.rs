//! The control connection between process 0 and another process: ordered messages, each with a kind and a length.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use parking_lot::Mutex;

/// The longest message: the state of one operator on one worker must fit into it.
const MESSAGE_BYTES_MAX: u64 = 1 << 36;

/// The sending end; several threads may use it.
pub(crate) struct ControlSender {
    stream: Mutex<TcpStream>,
    /// To close it while a thread is writing.
    closer: TcpStream,
}

impl ControlSender {
    pub fn new(stream: &TcpStream) -> io::Result<Self> {
        Ok(ControlSender { stream: Mutex::new(stream.try_clone()?), closer: stream.try_clone()? })
    }

    /// Sends a message. The receiving thread notices if the other end is gone.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(8 + message.len());
        frame.extend_from_slice(&(message.len() as u64).to_le_bytes());
        frame.extend_from_slice(message);
        self.stream.lock().write_all(&frame)
    }

    /// Ends both directions, and all waiting for them.
    pub fn close(&self) {
        let _ = self.closer.shutdown(Shutdown::Both);
    }
}

/// The next message; `None` at the end of the connection, whatever caused it.
pub(crate) fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        return None;
    }
    // Grows with what comes, not with what is announced.
    let mut message = Vec::new();
    let read = stream.take(length).read_to_end(&mut message).ok()?;
    (read as u64 == length).then_some(message)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn messages_come_whole_and_in_order() {
        let (one, mut other) = pair();
        let sender = ControlSender::new(&one).unwrap();
        let large = vec![5; 3 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| [&b"a"[..], b"", &large].map(|message| sender.send(message).unwrap()));
            assert_eq!(receive(&mut other).unwrap(), b"a");
            assert_eq!(receive(&mut other).unwrap(), b"");
            assert!(receive(&mut other).unwrap() == large);
        });
        sender.close();
        assert_eq!(receive(&mut other), None);
    }

    #[test]
    fn a_torn_or_immense_message_is_the_end() {
        for (length, body) in [(9_u64, &b"12345678"[..]), (u64::MAX, b"1"), (1 << 35, b"1")] {
            let (mut one, mut other) = pair();
            one.write_all(&length.to_le_bytes()).unwrap();
            one.write_all(body).unwrap();
            drop(one);
            assert_eq!(receive(&mut other), None);
        }
    }
}
