//! Rows as text to sockets: to every reader that connects, or to one server.

mod address;
mod client;
mod reader;
mod server;

pub use address::SocketAddress;
pub use client::{SocketClientSettings, SocketClientSink, SocketClientStatus};
pub use server::{SocketServerSettings, SocketServerSink, SocketServerStatus};
