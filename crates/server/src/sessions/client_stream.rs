//! The connection to a client: TCP, and TLS over it once the client has asked for that.
//!
//! One thread reads while another one writes. The writer must not hold the state of TLS while it waits for a client that does not read, and the
//! reader must not wait at all once the session has begun: it reads for all clients.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv};
use rustls::{ServerConfig, ServerConnection};

/// Encrypted bytes that are read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Whether an operation may wait for the network, as long as the socket's time limits allow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Allowed,
    Never,
}

/// The connection to a client. References to it read and write.
pub(crate) struct ClientStream {
    socket: TcpStream,
    tls: OnceLock<Tls>,
}

struct Tls {
    connection: Mutex<ServerConnection>,
    /// Encrypted bytes that are to be sent. Held while they are sent, so that they go in the order in which they were made, and
    /// none is left out after a write that took too long. Taken before `connection`.
    sending: Mutex<VecDeque<u8>>,
}

impl ClientStream {
    pub fn new(socket: TcpStream) -> ClientStream {
        // An answer is one piece, and nothing follows that it could wait for.
        let _ = socket.set_nodelay(true);
        ClientStream { socket, tls: OnceLock::new() }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// What follows is encrypted. The handshake is done while the client's next message is read.
    pub fn encrypt(&self, config: Arc<ServerConfig>) -> io::Result<()> {
        let connection = Mutex::new(ServerConnection::new(config).map_err(io::Error::other)?);
        let is_first = self.tls.set(Tls { connection, sending: Mutex::default() }).is_ok();
        if is_first { Ok(()) } else { Err(io::Error::other("the connection is encrypted already")) }
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.get().is_some()
    }

    /// How long a write may wait until the client has read something.
    pub fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        self.socket.set_write_timeout(Some(time))
    }

    /// How long a read may wait.
    pub fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(time))
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has.
    pub fn read_ready(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer, Waiting::Never)
    }

    fn read(&self, buffer: &mut [u8], waiting: Waiting) -> io::Result<usize> {
        match self.tls.get() {
            None => receive(&self.socket, buffer, waiting),
            Some(tls) => tls.read(&self.socket, buffer, waiting),
        }
    }

    /// Says goodbye, and closes the connection.
    pub fn close(&self) {
        if let Some(tls) = self.tls.get() {
            tls.connection.lock().send_close_notify();
            // Whoever does not read has no room for it, and needs none.
            let _ = self.socket.set_write_timeout(Some(Duration::from_millis(100)));
            let _ = tls.send_rest(&self.socket, Waiting::Allowed);
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Read for &ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        ClientStream::read(self, buffer, Waiting::Allowed)
    }
}

impl Write for &ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls.get() {
            None => (&self.socket).write(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.tls.get() {
            None => Ok(()),
            Some(tls) => send(&self.socket, &mut tls.sending.lock(), Waiting::Allowed),
        }
    }
}

impl Tls {
    fn read(&self, socket: &TcpStream, buffer: &mut [u8], waiting: Waiting) -> io::Result<usize> {
        let mut encrypted = [0; PIECE_BYTES];
        loop {
            match self.connection.lock().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without a goodbye: what is incomplete is noticed by the messages' own lengths.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let count = receive(socket, &mut encrypted, waiting)?;
            let taken = self.take_in(&encrypted[..count]);
            taken.inspect_err(|_| drop(self.send_rest(socket, waiting)))?;
            self.send_rest(socket, waiting)?;
        }
    }

    /// Decrypts what was received; nothing: the connection has ended.
    fn take_in(&self, mut encrypted: &[u8]) -> io::Result<()> {
        let mut connection = self.connection.lock();
        loop {
            connection.read_tls(&mut encrypted)?;
            connection
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if encrypted.is_empty() {
                return Ok(());
            }
        }
    }

    fn write(&self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut sending = self.sending.lock();
        // Nothing is taken as long as there is no room.
        send(socket, &mut sending, Waiting::Allowed)?;
        let mut connection = self.connection.lock();
        let count = connection.writer().write(bytes)?;
        encrypt(&mut connection, &mut sending)?;
        drop(connection);
        match send(socket, &mut sending, Waiting::Allowed) {
            // It is taken; the next write waits on.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(count)
            }
            sent => sent.map(|()| count),
        }
    }

    /// Sends what TLS itself has to say. What would have to wait, and must not, goes with the next answer.
    fn send_rest(&self, socket: &TcpStream, waiting: Waiting) -> io::Result<()> {
        if !self.connection.lock().wants_write() {
            return Ok(());
        }
        let mut sending = match waiting {
            Waiting::Allowed => self.sending.lock(),
            Waiting::Never => match self.sending.try_lock() {
                Some(sending) => sending,
                None => return Ok(()),
            },
        };
        encrypt(&mut self.connection.lock(), &mut sending)?;
        match send(socket, &mut sending, waiting) {
            Err(error) if waiting == Waiting::Never && error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }
}

/// Reads what has come. A process that was stopped and continues, as after Ctrl-Z and `fg`, is interrupted while it waits.
fn receive(socket: &TcpStream, buffer: &mut [u8], waiting: Waiting) -> io::Result<usize> {
    let flags = match waiting {
        Waiting::Allowed => RecvFlags::empty(),
        Waiting::Never => RecvFlags::DONTWAIT,
    };
    loop {
        match recv(socket, &mut *buffer, flags) {
            Err(Errno::INTR) => {}
            received => return Ok(received?.0),
        }
    }
}

/// Adds what TLS has to send.
fn encrypt(connection: &mut ServerConnection, sending: &mut VecDeque<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(sending)?;
    }
    Ok(())
}

/// Sends all of it; after an error, what was not sent is still there.
fn send(socket: &TcpStream, sending: &mut VecDeque<u8>, waiting: Waiting) -> io::Result<()> {
    let flags = match waiting {
        Waiting::Allowed => SendFlags::NOSIGNAL,
        Waiting::Never => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    };
    while !sending.is_empty() {
        match rustix::net::send(socket, sending.as_slices().0, flags) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => drop(sending.drain(..count)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
