//! Checks of keys and values that all providers make alike.

use super::CoordinatorError;

/// The longest key.
const KEY_BYTES_MAX: usize = 200;
/// The longest value; etcd refuses requests of more than 1.5 MiB.
const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// Checks what is to be written. All providers accept the same.
pub(super) fn check(place: &str, key: &str, value: &[u8]) -> Result<(), CoordinatorError> {
    let refused = |reason: String| Err(CoordinatorError::Refused { place: place.to_owned(), reason });
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(is_plain) {
        return refused(format!(
            "'{key}' cannot be a key; use 1 to {KEY_BYTES_MAX} letters, digits and any of / . _ -"
        ));
    }
    if value.len() > VALUE_BYTES_MAX {
        return refused(format!(
            "the value of '{key}' has {} bytes, and {VALUE_BYTES_MAX} are the most; split the record",
            value.len()
        ));
    }
    Ok(())
}

/// Returns whether a byte can be in a key. None of these needs quoting anywhere.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)
}

/// Refuses to send records and passwords in the clear to another machine.
pub(super) fn check_loopback(place: &str, host: &str) -> Result<(), CoordinatorError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = bare.parse().map_or(bare == "localhost", |ip: std::net::IpAddr| ip.is_loopback());
    if is_loopback {
        return Ok(());
    }
    Err(CoordinatorError::Refused {
        place: place.to_owned(),
        reason: format!(
            "{host} is another machine, and connections to coordinators are not encrypted yet; use one on this \
             machine, or a tunnel"
        ),
    })
}
