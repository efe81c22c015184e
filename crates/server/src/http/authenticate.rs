//! Asks HTTP clients for name and password (Basic), once there are users.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tidemill_service::Runtime;
use tokio::sync::Semaphore;

use super::answer::{Answer, Refusal};
use crate::authentication::{LoginAttempts, Verifier, hmac, random};
use crate::report::{INVALID_AUTHORIZATION, INVALID_PASSWORD, TOO_MANY_CONNECTIONS};
use crate::sessions::identity::Identity;

/// Headers that are known to be right; then all are forgotten.
const KNOWN_MAX: usize = 256;
/// Passwords that are hashed at the same time.
const HASHING_MAX: usize = 2;
/// How long a request waits while others at its address give wrong passwords.
const TURN_WAIT: Duration = Duration::from_secs(8);
/// How often it is checked whether its turn has come.
const LOOK: Duration = Duration::from_millis(20);
/// The longest header that is looked at.
const HEADER_BYTES_MAX: usize = 4096;
/// How a client is asked.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"tidemill\", charset=\"UTF-8\"");

/// Who may ask by HTTP.
pub(super) struct Authentication {
    attempts: LoginAttempts,
    /// Headers that were right, as their HMAC under `key`, with the name and what was the user's verifier then. A program that
    /// asks each second does not cost thousands of hashes each time.
    known: Mutex<HashMap<[u8; 32], (String, String)>>,
    key: [u8; 32],
    hashing: Arc<Semaphore>,
    /// Whether nobody is asked as long as there are no users.
    asks_nobody: bool,
}

impl Authentication {
    pub fn new(asks_nobody: bool) -> std::io::Result<Authentication> {
        Ok(Authentication {
            attempts: LoginAttempts::default(),
            known: Mutex::default(),
            key: random()?,
            hashing: Arc::new(Semaphore::new(HASHING_MAX)),
            asks_nobody,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], (String, String)>> {
        self.known.lock()
    }

    /// Who sends a request. Refuses it if he has not said who he is, or not the truth.
    pub async fn check(
        &self,
        request: &Request<Incoming>,
        runtime: Option<&Runtime>,
        address: IpAddr,
    ) -> Result<Identity, Answer> {
        let Some(runtime) = runtime.filter(|runtime| runtime.has_users()) else {
            return if self.asks_nobody {
                Ok(Identity::Anybody)
            } else {
                let message = "there are no users, so the server answers only its own machine";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(Refusal::new(status, INVALID_AUTHORIZATION, message).answer())
            };
        };
        let header = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let Some(header) = header.filter(|header| header.len() <= HEADER_BYTES_MAX) else {
            let refusal = Refusal::new(
                StatusCode::UNAUTHORIZED,
                INVALID_AUTHORIZATION,
                "a name and a password are needed",
            );
            return Err(challenge(&refusal.with_hint("send them with the request: curl -u name:password")));
        };
        let digest = hmac(&self.key, header);
        let known = self.known().get(&digest).cloned();
        if let Some((name, verifier)) = known
            && runtime.user(&name).is_some_and(|user| user.verifier == verifier)
        {
            return Ok(Identity::User(name));
        }
        self.prove(header, digest, runtime, address).await
    }

    async fn prove(
        &self,
        header: &[u8],
        digest: [u8; 32],
        runtime: &Runtime,
        address: IpAddr,
    ) -> Result<Identity, Answer> {
        let wrong =
            |message: &str| challenge(&Refusal::new(StatusCode::UNAUTHORIZED, INVALID_PASSWORD, message));
        let Some((name, password)) = name_and_password(header) else {
            return Err(wrong("the request's Authorization is not of the kind Basic"));
        };
        if !self.waits_for_turn(address, &name).await {
            let message = format!("too many wrong passwords came from {address}");
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_CONNECTIONS, message);
            return Err(refusal.with_hint("try again in some seconds").answer());
        }
        let user = runtime.user(&name);
        let kept = user.as_ref().map_or_else(String::new, |user| user.verifier.clone());
        // A name that nobody has takes as long as one that somebody has.
        let verifier = kept.parse().or_else(|_| Verifier::of_nobody(&name, &self.key));
        let Ok(verifier) = verifier else {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Refusal::new(status, "58000", "there are no random numbers").answer());
        };
        let _room = self.hashing.acquire().await;
        let proved = tokio::task::spawn_blocking(move || verifier.proves(&password)).await.unwrap_or(false);
        if proved && user.is_some() {
            let mut known = self.known();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(digest, (name.clone(), kept));
            return Ok(Identity::User(name));
        }
        tracing::warn!(user = name, %address, "a login by HTTP has failed");
        tokio::time::sleep(self.attempts.failed(address, &name, Instant::now())).await;
        Err(wrong("the name or the password is wrong"))
    }
}

impl Authentication {
    /// Waits until a password is looked at, as somebody else may be guessing from the same address; whether that came in time.
    async fn waits_for_turn(&self, address: IpAddr, name: &str) -> bool {
        let until = Instant::now() + TURN_WAIT;
        while !self.attempts.admits(address, name, Instant::now()) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

fn challenge(refusal: &Refusal) -> Answer {
    let mut answer = refusal.answer();
    answer.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
    answer
}

fn name_and_password(header: &[u8]) -> Option<(String, String)> {
    let header = std::str::from_utf8(header).ok()?;
    let (kind, encoded) = header.split_once(' ')?;
    let decoded = kind.eq_ignore_ascii_case("basic").then(|| BASE64.decode(encoded.trim()).ok())??;
    let decoded = String::from_utf8(decoded).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_read_from_the_header() {
        let read = |header: &str| name_and_password(header.as_bytes());
        let expected = Some(("Aladdin".to_owned(), "open:sesame".to_owned()));
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ=="), expected);
        assert_eq!(read("basic QWxhZGRpbjpvcGVuOnNlc2FtZQ=="), expected);
        for wrong in ["", "Basic", "Bearer QWxhZGRpbjpvcGVu", "Basic !!", "Basic QWxhZGRpbg==", "Basic /w=="]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
