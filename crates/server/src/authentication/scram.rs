//! The exchange by which a client proves that it knows a password (SCRAM-SHA-256, without channel binding).
//!
//! The server never learns the password, and the client learns that the server knows its verifier.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use super::{Hash, Verifier, are_equal, hmac, random};

const NONCE_BYTES: usize = 18;
/// More than any client's nonce has.
const NONCE_LENGTH_MAX: usize = 1024;

/// Why an exchange has failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScramError {
    /// A message is not one of the exchange.
    Malformed(&'static str),
    /// The client does not know the password.
    WrongPassword,
}

use ScramError::{Malformed, WrongPassword};

/// An exchange after its first message from the client.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// Whether and how the client wants channel binding, as it has written it.
    header: String,
    nonce: String,
    /// What both sides sign: so far, the first message of each.
    signed: String,
    first_answer: String,
}

impl Exchange {
    /// Reads the client's first message.
    pub fn begin(message: &[u8], verifier: Verifier) -> io::Result<Result<Exchange, ScramError>> {
        let nonce = BASE64.encode(random::<NONCE_BYTES>()?);
        Ok(Exchange::begin_with(message, verifier, &nonce))
    }

    fn begin_with(message: &[u8], verifier: Verifier, own_nonce: &str) -> Result<Exchange, ScramError> {
        let message = text(message)?;
        let (binding, rest) = message.split_once(',').ok_or(Malformed("the first message is too short"))?;
        // 'y': the client could, and rightly believes that the server cannot.
        if !matches!(binding, "n" | "y") {
            return Err(Malformed("channel binding is not supported"));
        }
        let (authorization, bare) =
            rest.split_once(',').ok_or(Malformed("the first message is too short"))?;
        if !authorization.is_empty() {
            return Err(Malformed("a user cannot log in on behalf of another one"));
        }
        // The name is that of the session's first message, as in PostgreSQL.
        let mut fields = bare.split(',');
        let (name, nonce) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let nonce = nonce.strip_prefix("r=").filter(|_| name.starts_with("n="));
        let nonce = nonce.ok_or(Malformed("the first message has no name and nonce"))?;
        let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if nonce.is_empty() || nonce.len() > NONCE_LENGTH_MAX || !is_printable {
            return Err(Malformed("the nonce is not valid"));
        }
        let nonce = format!("{nonce}{own_nonce}");
        let first_answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let signed = format!("{bare},{first_answer}");
        Ok(Exchange { verifier, header: format!("{binding},,"), nonce, signed, first_answer })
    }

    /// What the client is told.
    pub fn first_answer(&self) -> &str {
        &self.first_answer
    }

    /// Reads the client's last message, which proves the password; returns the last answer.
    pub fn finish(self, message: &[u8]) -> Result<String, ScramError> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(Malformed("the proof is missing"))?;
        let mut fields = without_proof.split(',');
        let (binding, nonce) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let header = binding.strip_prefix("c=").and_then(|binding| BASE64.decode(binding).ok());
        if header.as_deref() != Some(self.header.as_bytes()) {
            return Err(Malformed("the channel binding is not the one of the first message"));
        }
        if nonce.strip_prefix("r=") != Some(&self.nonce) {
            return Err(Malformed("the nonce is not the one of the first answer"));
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| Hash::try_from(proof).ok());
        let mut client_key = proof.ok_or(Malformed("the proof is not valid"))?;
        let signed = format!("{},{without_proof}", self.signed);
        let signature = hmac(&self.verifier.stored_key, signed.as_bytes());
        client_key.iter_mut().zip(signature).for_each(|(key, signature)| *key ^= signature);
        if !are_equal(&Sha256::digest(client_key).into(), &self.verifier.stored_key) {
            return Err(WrongPassword);
        }
        Ok(format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, signed.as_bytes()))))
    }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    std::str::from_utf8(message).map_err(|_| Malformed("a message is not text"))
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7677, section 3: user "user", password "pencil".
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with("pencil", &salt, 4096);
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let exchange = Exchange::begin_with(first, verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
        assert_eq!(
            exchange.first_answer(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(exchange.finish(last).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn another_implementation_of_the_client_is_understood() {
        let run = |password: &str, known: &str| {
            let mut client = ScramSha256::new(known.as_bytes(), ChannelBinding::unsupported());
            let begun = Exchange::begin(client.message(), Verifier::new(password).unwrap()).unwrap();
            let exchange = begun.unwrap();
            client.update(exchange.first_answer().as_bytes()).unwrap();
            let last = exchange.finish(client.message())?;
            client.finish(last.as_bytes()).expect("the client believes the server");
            Ok::<_, ScramError>(())
        };
        assert_eq!(run("geheim, ü", "geheim, ü"), Ok(()));
        assert_eq!(run("geheim", "Geheim"), Err(WrongPassword));
    }

    #[test]
    fn what_is_no_message_of_the_exchange_is_refused() {
        let verifier = || Verifier::new("x").unwrap();
        for first in [
            "",
            "n",
            "n,,",
            "n,a=other,n=,r=abc",
            "p=tls-server-end-point,,n=,r=abc",
            "n,,n=,r=",
            "n,,n=,r=a b",
        ] {
            let begun = Exchange::begin_with(first.as_bytes(), verifier(), "own");
            assert!(matches!(begun, Err(Malformed(_))), "{first}");
        }
        for last in
            ["", "c=biws,r=abcown", "c=eSws,r=abcown,p=AA==", "c=biws,r=abc,p=AA==", "c=biws,r=abcown,p=AA=="]
        {
            let exchange = Exchange::begin_with(b"n,,n=,r=abc", verifier(), "own").ok().unwrap();
            assert!(matches!(exchange.finish(last.as_bytes()), Err(Malformed(_))), "{last}");
        }
    }
}
