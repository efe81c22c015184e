//! Sockets: text over TCP, Unix sockets and UDP. The sources listen for many senders or connect to one server, and so do
//! the sinks for their readers.

mod sink;
mod source;

pub use sink::{
    SocketAddress, SocketClientSettings, SocketClientSink, SocketClientStatus, SocketServerSettings,
    SocketServerSink, SocketServerStatus,
};
pub use source::{SocketSettings, TcpLines, UdpLines, UdpSettings, UnixLines};
