//! The address of a socket, and one type for TCP and Unix sockets.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tidemill_core::Cause;

use crate::tls::{TlsStream, server_name};

/// The address of a socket.
///
/// ```
/// use tidemill_connect::socket::SocketAddress;
/// assert_eq!(SocketAddress::Tcp("127.0.0.1:9000".into()).to_string(), "127.0.0.1:9000");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// TCP: `host:port`.
    Tcp(String),
    /// A Unix socket, by its path.
    Unix(PathBuf),
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Tcp(address) => formatter.write_str(address),
            SocketAddress::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

impl SocketAddress {
    /// The name that the certificate of what listens there must have.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, Cause> {
        match self {
            SocketAddress::Tcp(address) => server_name(address.rsplit_once(':').map_or("", |(host, _)| host)),
            SocketAddress::Unix(_) => Err(Cause::user("a Unix socket has no TLS; use TCP")),
        }
    }

    /// The TCP addresses behind a name, if they are on this machine or may be elsewhere.
    fn resolve(&self, address: &str, allow_remote: bool) -> Result<Vec<SocketAddr>, Cause> {
        let resolved = address.to_socket_addrs().map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Cause::user(format!("'{address}' is not an address; write host:port")),
            _ => Cause::operation(format!("'{address}' cannot be resolved: {error}")).with_source(error),
        })?;
        let resolved: Vec<SocketAddr> = resolved.collect();
        match resolved.iter().find(|address| !address.ip().is_loopback()) {
            Some(remote) if !allow_remote => Err(Cause::user(format!(
                "'{address}' ({}) is on another machine, and results are not encrypted without TLS; use 127.0.0.1, or \
                 set allow_remote = true",
                remote.ip()
            ))),
            _ => Ok(resolved),
        }
    }

    /// Checks the address without using it.
    pub(crate) fn check(&self, allow_remote: bool) -> Result<(), Cause> {
        match self {
            SocketAddress::Tcp(address) => self.resolve(address, allow_remote).map(drop),
            SocketAddress::Unix(_) => Ok(()),
        }
    }

    /// Connects to it.
    pub(crate) fn connect(&self, allow_remote: bool, wait: Duration) -> Result<Stream, Cause> {
        let failed = |error: io::Error| {
            Cause::operation(format!("cannot connect to '{self}': {error}")).with_source(error)
        };
        match self {
            SocketAddress::Unix(path) => UnixStream::connect(path).map(Stream::Unix).map_err(failed),
            SocketAddress::Tcp(address) => {
                let mut last = Cause::operation(format!("'{address}' does not resolve to an address"));
                for address in self.resolve(address, allow_remote)? {
                    match TcpStream::connect_timeout(&address, wait) {
                        Ok(stream) => {
                            stream.set_nodelay(true).map_err(failed)?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = failed(error),
                    }
                }
                Err(last)
            }
        }
    }

    /// Listens on it.
    pub(crate) fn listen(&self, allow_remote: bool) -> Result<Listener, Cause> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => Cause::user(format!("'{self}' is in use; choose another address")),
            ErrorKind::PermissionDenied | ErrorKind::AddrNotAvailable | ErrorKind::NotFound => {
                Cause::user(format!("cannot listen on '{self}': {error}; choose another address"))
                    .with_source(error)
            }
            _ => Cause::operation(format!("cannot listen on '{self}': {error}")).with_source(error),
        };
        match self {
            SocketAddress::Tcp(address) => {
                let addresses = self.resolve(address, allow_remote)?;
                TcpListener::bind(addresses.as_slice()).map(Listener::Tcp).map_err(failed)
            }
            SocketAddress::Unix(path) => {
                remove_abandoned(path);
                let listener = UnixListener::bind(path).map_err(failed)?;
                Ok(Listener::Unix(listener, path.clone()))
            }
        }
    }
}

/// Removes the socket of a process that has died, on which no one listens. Anything else at the path stays.
fn remove_abandoned(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    let refused =
        || UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if is_socket && refused() {
        // If that fails, binding reports why.
        let _ = std::fs::remove_file(path);
    }
}

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    /// Where it listens: with the chosen port, if port 0 was requested.
    pub fn address(&self) -> io::Result<SocketAddress> {
        Ok(match self {
            Listener::Tcp(listener) => SocketAddress::Tcp(listener.local_addr()?.to_string()),
            Listener::Unix(_, path) => SocketAddress::Unix(path.clone()),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // If it is left over, the next process that listens there removes it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(TlsStream),
    Unix(UnixStream),
}

impl Stream {
    /// The same connection, encrypted: what has connected shakes hands with what listens.
    pub fn connect_tls(self, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => TlsStream::connect(stream, config, name).map(Stream::Tls),
            other => Ok(other),
        }
    }

    /// The same connection, encrypted: what listens shakes hands with what has connected.
    pub fn accept_tls(self, config: Arc<ServerConfig>) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => TlsStream::accept(stream, config).map(Stream::Tls),
            other => Ok(other),
        }
    }

    /// Tells the other side that nothing more comes.
    pub fn end(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = self {
            // Whoever does not take the farewell sees the end of the connection all the same.
            let _ = stream.end();
        }
        self.shutdown(Shutdown::Write)
    }

    /// Another handle, by which to shut the connection down.
    pub fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Tls(stream) => stream.socket().try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Tls(stream) => stream.socket().shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }

    /// How long a read or a write may take.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Stream::Tls(stream) => {
                stream.socket().set_read_timeout(Some(timeout))?;
                stream.socket().set_write_timeout(Some(timeout))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Tls(stream) => stream.socket().set_nonblocking(is_nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(stream) => stream.flush(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }
}

/// The formats that can be sent line by line.
pub(crate) fn refuse_table(format: &crate::formats::encode::TextFormat) -> Result<(), Cause> {
    match format {
        crate::formats::encode::TextFormat::Table(_) => {
            Err(Cause::user("a socket sends lines of text; use the format csv or ndjson"))
        }
        _ => Ok(()),
    }
}
