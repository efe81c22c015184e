//! Which addresses may be listened on.

use std::net::SocketAddr;

use tidemill_engine::Cause;

/// What keeps strangers out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protection {
    pub has_users: bool,
    pub is_encrypted: bool,
    /// It was asked for that nothing does.
    pub is_insecure: bool,
}

/// Refuses an address that other machines reach, unless strangers are kept out or that was asked for.
pub(crate) fn check(address: SocketAddr, protection: Protection) -> Result<(), Cause> {
    if address.ip().is_loopback() || protection.is_insecure {
        return Ok(());
    }
    let (missing, remedy) = match (protection.has_users, protection.is_encrypted) {
        (true, true) => return Ok(()),
        (false, _) => (
            "there are no users, so everybody could do everything",
            "start the server on 127.0.0.1 first, and CREATE USER name PASSWORD '...' ROLE owner",
        ),
        (true, false) => (
            "what is sent there would not be encrypted",
            "`tidemill serve` takes a certificate and its key: --tls-cert FILE --tls-key FILE",
        ),
    };
    Err(Cause::user(format!(
        "{address} can be reached from other machines, and {missing}; {remedy}. Or stay on 127.0.0.1, which others \
         reach through an SSH tunnel"
    )))
}
