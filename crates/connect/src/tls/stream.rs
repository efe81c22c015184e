//! TLS over a socket of the standard library, for threads that wait in their reads.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

/// How long a handshake may take altogether.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// One of the two sides of a connection.
pub(crate) enum TlsStream {
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl TlsStream {
    /// The side that connects. The socket's read timeout is changed.
    pub fn connect(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<TlsStream> {
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        TlsStream::Client(Box::new(StreamOwned::new(connection, socket))).shake_hands()
    }

    /// The side that listens. The socket's read timeout is changed.
    pub fn accept(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsStream> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        TlsStream::Server(Box::new(StreamOwned::new(connection, socket))).shake_hands()
    }

    /// The socket beneath.
    pub fn socket(&self) -> &TcpStream {
        match self {
            TlsStream::Client(stream) => &stream.sock,
            TlsStream::Server(stream) => &stream.sock,
        }
    }

    /// Tells the other side that nothing more comes.
    pub fn end(&mut self) -> io::Result<()> {
        match self {
            TlsStream::Client(stream) => stream.conn.send_close_notify(),
            TlsStream::Server(stream) => stream.conn.send_close_notify(),
        }
        self.flush()
    }

    /// Not left to the first read: a side that sends byte after byte could then take for ever.
    fn shake_hands(mut self) -> io::Result<TlsStream> {
        match self.try_to_shake_hands() {
            Ok(()) => Ok(self),
            Err(error) => {
                // Others may hold the socket, too; the other side is to see the end now.
                let _ = self.socket().shutdown(Shutdown::Both);
                Err(error)
            }
        }
    }

    fn try_to_shake_hands(&mut self) -> io::Result<()> {
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        while self.is_handshaking() {
            self.write_tls()?;
            if !self.is_handshaking() {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake took too long"));
            }
            self.socket().set_read_timeout(Some(left))?;
            match self.read_tls() {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_retried(&error) => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = self.process() {
                // The alert says to the other side what was wrong.
                let _ = self.write_tls();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        self.flush()
    }

    fn is_handshaking(&self) -> bool {
        match self {
            TlsStream::Client(stream) => stream.conn.is_handshaking(),
            TlsStream::Server(stream) => stream.conn.is_handshaking(),
        }
    }

    fn read_tls(&mut self) -> io::Result<usize> {
        match self {
            TlsStream::Client(stream) => stream.conn.read_tls(&mut stream.sock),
            TlsStream::Server(stream) => stream.conn.read_tls(&mut stream.sock),
        }
    }

    fn process(&mut self) -> Result<(), rustls::Error> {
        match self {
            TlsStream::Client(stream) => stream.conn.process_new_packets().map(drop),
            TlsStream::Server(stream) => stream.conn.process_new_packets().map(drop),
        }
    }

    fn write_tls(&mut self) -> io::Result<()> {
        match self {
            TlsStream::Client(stream) => {
                while stream.conn.wants_write() {
                    stream.conn.write_tls(&mut stream.sock)?;
                }
            }
            TlsStream::Server(stream) => {
                while stream.conn.wants_write() {
                    stream.conn.write_tls(&mut stream.sock)?;
                }
            }
        }
        Ok(())
    }
}

fn is_retried(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Read for TlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            TlsStream::Client(stream) => stream.read(bytes),
            TlsStream::Server(stream) => stream.read(bytes),
        };
        match read {
            // Many programs close without the farewell of TLS. Whether a line is complete shows at its end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TlsStream::Client(stream) => stream.write(bytes),
            TlsStream::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            TlsStream::Client(stream) => stream.flush(),
            TlsStream::Server(stream) => stream.flush(),
        }
    }
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("TlsStream").field(self.socket()).finish()
    }
}
