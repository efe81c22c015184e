//! Who may reach an address at which rows are taken.

use std::net::SocketAddr;

use tidemill_core::Cause;

/// What a source that listens says about those who may send to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenPolicy {
    /// Whether other machines are let in.
    pub(crate) allow_remote: bool,
    /// Whether they must show a token or a certificate.
    pub(crate) is_guarded: bool,
    /// Whether they are let in without one.
    pub(crate) insecure: bool,
}

impl ListenPolicy {
    /// Refuses addresses that other machines can reach, unless they are let in and must show who they are. `place` is what
    /// listens there, for messages.
    ///
    /// # Errors
    /// [`Cause::user`].
    pub(crate) fn check(self, place: &str, addresses: &[SocketAddr]) -> Result<(), Cause> {
        let Some(remote) = addresses.iter().find(|address| !address.ip().is_loopback()) else {
            return Ok(());
        };
        if !self.allow_remote {
            return Err(Cause::user(format!(
                "{place}: other machines can reach {remote} and send rows; listen at 127.0.0.1, or set allow_remote \
                 (and a token)"
            )));
        }
        if self.is_guarded || self.insecure {
            Ok(())
        } else {
            Err(Cause::user(format!(
                "{place}: whoever reaches {remote} from another machine could send rows; demand a token or a \
                 certificate, or set insecure"
            )))
        }
    }
}
