//! TLS: certificates and keys from PEM files, for what listens ([`TlsServer`]) and for what connects
//! ([`TlsClientSettings`]).
//!
//! Implemented by rustls with `ring`. A side that names `authorities` checks the other side's certificate against
//! them: a server then demands one from each client, and a client no longer trusts the system's authorities. Versions
//! are 1.2 and 1.3.
//!
//! [`failure`] tells why a handshake failed in words that say what to do.

mod client;
mod failure;
mod pem;
mod server;
mod stream;
mod verification;

use std::path::PathBuf;
use std::sync::Arc;

pub use client::{TlsClientSettings, server_name};
pub use failure::failure;
pub use server::{TlsServer, TlsServerSettings};
pub(crate) use stream::{HANDSHAKE_TIMEOUT, TlsStream};
pub use verification::TlsVerification;

/// How a side shows who it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    /// A PEM file with its certificate, followed by those of the authorities between it and a known one.
    pub certificates: PathBuf,
    /// A PEM file with the certificate's key, which others may not be able to read.
    pub key: PathBuf,
}

/// The only provider of cryptography.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
