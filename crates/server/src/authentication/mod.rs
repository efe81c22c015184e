//! Who a client is: passwords, without ever keeping one.
//!
//! The catalogue keeps a [`Verifier`] for each user, as SCRAM-SHA-256 (RFC 5802, RFC 7677) defines it: whoever steals it cannot
//! log in with it, and must compute thousands of hashes for each password that he tries.

mod attempts;
mod scram;
mod verifier;

pub(crate) use self::attempts::LoginAttempts;
pub(crate) use self::scram::{Exchange, ScramError};
pub(crate) use self::verifier::{PASSWORD_BYTES_MAX, Verifier};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// SHA-256's size.
type Hash = [u8; 32];

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length will do")
}

/// The HMAC of a text.
pub(crate) fn hmac(key: &[u8], text: &[u8]) -> Hash {
    keyed(key).chain_update(text).finalize().into_bytes().into()
}

/// Whether two hashes are equal, in a time that does not tell where they differ.
fn are_equal(one: &Hash, other: &Hash) -> bool {
    let differing = one.iter().zip(other).fold(0, |differing, (one, other)| differing | (one ^ other));
    std::hint::black_box(differing) == 0
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
