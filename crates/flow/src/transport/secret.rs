//! Random secrets, compared in constant time.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};

/// The bytes of a secret.
pub(crate) const SECRET_BYTES: usize = 32;

/// A random secret of one run.
#[derive(Clone)]
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A new secret, from the operating system.
    pub fn random() -> io::Result<Secret> {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Secret(bytes))
    }

    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Whether someone knows it. Examines all bytes, whatever the first ones are.
    pub fn is(&self, claimed: &[u8; SECRET_BYTES]) -> bool {
        let differences =
            self.0.iter().zip(claimed).fold(0, |all, (own, other)| black_box(all | (own ^ other)));
        differences == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_random_and_every_bit_counts() {
        let secret = Secret::random().unwrap();
        assert!(secret.is(secret.bytes()));
        assert!(!secret.is(Secret::random().unwrap().bytes()));
        for bit in 0..SECRET_BYTES * 8 {
            let mut other = *secret.bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!secret.is(&other), "bit {bit}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
