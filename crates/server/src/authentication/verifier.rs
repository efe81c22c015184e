//! What proves a password without containing it.

use std::fmt;
use std::io;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::Mac;
use sha2::{Digest, Sha256};

use super::{Hash, are_equal, hmac, keyed, random};

/// How often a password is hashed, as PostgreSQL does.
const ITERATIONS: u32 = 4096;
/// A verifier that a client sends may ask for more, up to here: each login costs as many hashes.
const ITERATIONS_MAX: u32 = 1_000_000;
const SALT_BYTES: usize = 16;
const SALT_BYTES_MAX: usize = 256;
/// The longest password.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1024;

/// What proves a password without containing it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: Hash,
    pub server_key: Hash,
}

impl Verifier {
    /// Of a password, with a salt of its own.
    pub fn new(password: &str) -> io::Result<Verifier> {
        Ok(Verifier::with(password, &random::<SALT_BYTES>()?, ITERATIONS))
    }

    pub(super) fn with(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let salted = salted(password, salt, iterations);
        let client_key = hmac(&salted, b"Client Key");
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: Sha256::digest(client_key).into(),
            server_key: hmac(&salted, b"Server Key"),
        }
    }

    /// For a name that no user has, so that a stranger cannot tell: it looks the same each time, and proves nothing.
    pub fn of_nobody(name: &str, secret: &[u8]) -> io::Result<Verifier> {
        let salt = hmac(secret, name.as_bytes());
        Ok(Verifier {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: random()?,
            server_key: random()?,
        })
    }

    /// Whether this is the password.
    pub fn proves(&self, password: &str) -> bool {
        are_equal(&Verifier::with(password, &self.salt, self.iterations).stored_key, &self.stored_key)
    }
}

/// The password as both sides hash it: characters that look the same are the same. One that cannot be normalised counts as
/// it is, as in PostgreSQL.
fn normalized(password: &str) -> String {
    stringprep::saslprep(password).map_or_else(|_| password.to_owned(), |text| text.into_owned())
}

/// PBKDF2 with HMAC-SHA-256, of one block.
fn salted(password: &str, salt: &[u8], iterations: u32) -> Hash {
    let keyed = keyed(normalized(password).as_bytes());
    let mut last: Hash =
        keyed.clone().chain_update(salt).chain_update([0, 0, 0, 1]).finalize().into_bytes().into();
    let mut all = last;
    for _ in 1..iterations {
        last = keyed.clone().chain_update(last).finalize().into_bytes().into();
        all.iter_mut().zip(last).for_each(|(all, last)| *all ^= last);
    }
    all
}

impl fmt::Display for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(formatter, "SCRAM-SHA-256${}:{salt}${stored}:{server}", self.iterations)
    }
}

/// The text is not a verifier.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoVerifier;

impl FromStr for Verifier {
    type Err = NoVerifier;

    fn from_str(text: &str) -> Result<Verifier, NoVerifier> {
        let read = || {
            let (salting, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
            let (iterations, salt) = salting.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let bytes = |text: &str| BASE64.decode(text).ok();
            let iterations = iterations.parse().ok().filter(|count| (1..=ITERATIONS_MAX).contains(count))?;
            let salt = bytes(salt).filter(|salt| (1..=SALT_BYTES_MAX).contains(&salt.len()))?;
            let stored_key = bytes(stored)?.try_into().ok()?;
            let server_key = bytes(server)?.try_into().ok()?;
            Some(Verifier { iterations, salt, stored_key, server_key })
        };
        read().ok_or(NoVerifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_proved_by_its_verifier_only() {
        let verifier = Verifier::new("pässword").unwrap();
        assert!(verifier.proves("pässword"));
        // The same letters, composed differently (SASLprep).
        assert!(verifier.proves("pa\u{308}ssword"));
        for wrong in ["", "password", "Pässword", "pässword "] {
            assert!(!verifier.proves(wrong), "{wrong}");
        }
        assert!(verifier != Verifier::new("pässword").unwrap(), "each has a salt of its own");
        let text = verifier.to_string();
        assert!(!text.contains("ssword"));
        assert!(text.parse() == Ok(verifier));
        for wrong in
            ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", &text[..text.len() - 4], &text.replace('$', ":")]
        {
            assert!(wrong.parse::<Verifier>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn postgresql_computes_the_same() {
        // What PostgreSQL's own clients would send for a password, by another implementation.
        let theirs = postgres_protocol::password::scram_sha_256("pencil \u{e9}".as_bytes());
        let verifier: Verifier = theirs.parse().expect("a verifier");
        assert!(verifier.proves("pencil \u{e9}"));
        assert!(!verifier.proves("pencil e"));
    }

    #[test]
    fn nobody_looks_the_same_each_time_and_is_proved_by_nothing() {
        let (one, again) =
            (Verifier::of_nobody("eve", b"x").unwrap(), Verifier::of_nobody("eve", b"x").unwrap());
        assert_eq!((one.iterations, &one.salt), (again.iterations, &again.salt));
        assert_ne!(one.salt, Verifier::of_nobody("ada", b"x").unwrap().salt);
        assert!(one.stored_key != again.stored_key);
    }
}
