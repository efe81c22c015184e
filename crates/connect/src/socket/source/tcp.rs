//! TCP: lines from programs on this machine or, if allowed, on others.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;
use tidemill_core::error::Cause;
use tidemill_core::{DelegatingSource, Source};

use super::client::Client;
use super::connection::Socket;
use super::listening::{Listener, Listening};
use super::{Peers, SocketSettings, SocketSource};
use crate::listen_policy::ListenPolicy;
use crate::tls::{TlsServer, TlsStream, server_name};
use crate::tokens::Tokens;

/// How long a server may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Rows of text over TCP: from everyone who connects, or from one server.
///
/// ```
/// use std::io::Write;
/// use std::net::TcpStream;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::formats::{DecoderSettings, Format};
/// use tidemill_connect::socket::{SocketSettings, TcpLines};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::{Polled, Source};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]));
/// let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut lines = TcpLines::listen("127.0.0.1:0", false, SocketSettings::new(Format::Json, decoder))?;
///
/// let mut sender = TcpStream::connect(lines.local_address().unwrap())?;
/// sender.write_all(b"{\"value\": 7}\n")?;
/// let Polled::Rows(rows) = lines.poll(Duration::from_secs(10))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 1);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Debug)]
pub struct TcpLines {
    source: SocketSource,
}

impl TcpLines {
    /// Listens at an address such as `127.0.0.1:7000`; port 0 takes any free one. Unless `allow_remote` is set, only
    /// addresses that other machines cannot reach are accepted, because anyone who reaches it can send rows. With it, a token
    /// or a certificate must be demanded, unless the settings are [`insecure`](SocketSettings::insecure).
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid or not allowed, or a setting is not supported; [`Cause::operation`] if
    /// it is in use.
    pub fn listen(address: &str, allow_remote: bool, settings: SocketSettings) -> Result<TcpLines, Cause> {
        let addresses = resolve(address).map_err(|error| unusable(address, &error))?;
        let place = format!("tcp {address}");
        let has_token = settings.token.is_some() || settings.token_file.is_some();
        let has_authority = settings.tls_server.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
        let insecure = settings.insecure;
        ListenPolicy { allow_remote, is_guarded: has_token || has_authority, insecure }
            .check(&place, &addresses)?;
        SocketSource::start(settings, |settings| {
            let listener = TcpListener::bind(addresses.as_slice())
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                // Accepted sockets inherit this from the listening one.
                .and_then(|listener| limit(&listener, settings.receive_bytes).map(|()| listener))
                .map_err(|error| {
                    Cause::operation(format!("{place}: cannot listen: {error}; choose another port"))
                        .with_source(error)
                })?;
            let tls = settings.tls_server.clone().map(TlsServer::open).transpose()?;
            let tokens = Tokens::open(settings.token.clone(), settings.token_file.clone(), &settings.source)?;
            let listening = Listening::new(Listener::Tcp(listener), place, settings, tls, tokens);
            Ok(Peers::Listening(Box::new(listening)))
        })
        .map(|source| TcpLines { source })
    }

    /// Connects to a server and reads what it sends. If the connection ends or cannot be made, tries again, after 100
    /// ms at first and at most 10 s. What the server sends in between is missed.
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid or a setting is not supported. [`Source::poll`] notices a server that
    /// cannot be reached.
    pub fn connect(address: &str, settings: SocketSettings) -> Result<TcpLines, Cause> {
        if !address.contains(':') {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "the port is missing");
            return Err(unusable(address, &error));
        }
        let (place, address) = (format!("tcp {address}"), address.to_owned());
        SocketSource::start(settings, |settings| {
            let (receive_bytes, tls) = (settings.receive_bytes, settings.tls_client.clone());
            let name = server_name(address.rsplit_once(':').map_or("", |(host, _)| host));
            let tls = tls.map(|tls| Ok::<_, Cause>((tls, name?))).transpose()?;
            if let Some((tls, _)) = &tls {
                // Files that cannot be used are a mistake, not a failing connection.
                tls.load()?;
            }
            // Looked up each time, for a name may move to another address.
            let connect = Box::new(move || {
                let stream = connect_to(&resolve(&address)?)?;
                limit(&stream, receive_bytes)?;
                let Some((tls, name)) = &tls else { return Ok(Socket::Tcp(stream)) };
                let config = tls.load().map_err(io::Error::other)?;
                TlsStream::connect(stream, config, name.clone()).map(Socket::Tls)
            });
            Ok(Peers::Server(Box::new(Client::new(connect, place, settings))))
        })
        .map(|source| TcpLines { source })
    }

    /// The address it listens at; `None` for a connection to a server.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self.source.listener()? {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// How much the connections hold at the moment that the query has not taken; at most
    /// [`SocketSettings::queue_bytes`], apart from what is being decoded.
    pub fn held_bytes(&self) -> usize {
        self.source.held_bytes()
    }

    /// Makes only these of the declared columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.source.set_projection(columns)
    }
}

impl DelegatingSource for TcpLines {
    fn inner(&self) -> &dyn Source {
        &self.source
    }

    fn inner_mut(&mut self) -> &mut dyn Source {
        &mut self.source
    }
}

pub(super) fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
    if addresses.is_empty() {
        Err(io::Error::new(io::ErrorKind::NotFound, "the name does not resolve to an address"))
    } else {
        Ok(addresses)
    }
}

/// Limits how much the system receives ahead of us, which would be lost with the process. By default it takes some
/// megabytes.
fn limit(socket: &impl AsFd, receive_bytes: usize) -> io::Result<()> {
    SockRef::from(socket).set_recv_buffer_size(receive_bytes)
}

fn connect_to(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name does not resolve to an address");
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn unusable(address: &str, error: &io::Error) -> Cause {
    Cause::user(format!(
        "tcp '{address}': not a valid address: {error}; write host:port, such as \
        127.0.0.1:7000"
    ))
}
