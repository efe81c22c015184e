//! Which database, and how to reach it: what a URL says.

use std::time::Duration;

use tidemill_core::Cause;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::{TlsClientSettings, TlsIdentity, TlsVerification};

/// The parameters of TLS, with the names and meanings of PostgreSQL's own programs.
const TLS_PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// A database that can be connected to.
#[derive(Clone)]
pub(super) struct Database {
    pub config: Config,
    pub tls: TlsClientSettings,
    /// The server's address, for messages.
    pub server: String,
}

impl Database {
    /// Parses a URL, or `host=... user=...`. Errors do not show the invalid part, because it may belong to the password.
    pub fn parse(url: &str) -> Result<Database, Cause> {
        let (rest, parameters) = without_tls(url);
        let mut config: Config = rest.parse().map_err(|_| {
            Cause::user(
                "the URL of the database cannot be read; write postgres://user:password@host:port/database, with \
                 %-codes for special characters",
            )
        })?;
        let tls = tls(&parameters, &mut config)?;
        let ports = config.get_ports();
        let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let server = hosts.collect::<Vec<String>>().join(",");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        if config.get_application_name().is_none() {
            config.application_name("tidemill");
        }
        config.keepalives_idle(Duration::from_secs(15)).keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(4);
        Ok(Database { config, tls, server })
    }
}

/// A parameter of TLS and its value.
type Parameter = (&'static str, String);

/// Takes the parameters of TLS out of a URL, or out of `name=value ...`.
fn without_tls(url: &str) -> (String, Vec<Parameter>) {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if !is_url {
        return without_tls_words(url);
    }
    let Some((front, query)) = url.split_once('?') else { return (url.to_owned(), Vec::new()) };
    let mut parameters = Vec::new();
    let mut others = Vec::new();
    for part in query.split('&') {
        match part.split_once('=').and_then(|(name, value)| Some((tls_parameter(name)?, value))) {
            Some((name, value)) => parameters.push((name, decoded(value))),
            None => others.push(part),
        }
    }
    let others = others.join("&");
    (if others.is_empty() { front.to_owned() } else { format!("{front}?{others}") }, parameters)
}

fn tls_parameter(name: &str) -> Option<&'static str> {
    TLS_PARAMETERS.into_iter().find(|known| *known == name)
}

/// The text behind %-codes; what is none stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = rest.get(1..3).and_then(|code| std::str::from_utf8(code).ok());
        match code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The same for `name = value name = 'value with \' and spaces'`.
fn without_tls_words(text: &str) -> (String, Vec<Parameter>) {
    let (mut others, mut parameters) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, length) = word(behind);
        match tls_parameter(name.trim()) {
            Some(name) => parameters.push((name, value)),
            None => {
                others.push_str(&rest[..name.len() + 1 + length]);
                others.push(' ');
            }
        }
        rest = &behind[length..];
    }
    others.push_str(rest);
    (others, parameters)
}

/// The value at the beginning of a text, and how many bytes it takes.
fn word(text: &str) -> (String, usize) {
    let start = text.len() - text.trim_start().len();
    let is_quoted = text[start..].starts_with('\'');
    let mut value = String::new();
    let mut characters = text[start..].char_indices().skip(usize::from(is_quoted));
    while let Some((place, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if is_quoted => return (value, start + place + 1),
            other if !is_quoted && other.is_whitespace() => return (value, start + place),
            other => value.push(other),
        }
    }
    (value, text.len())
}

/// What the parameters say. Without any, TLS is used if the server offers it, and nothing is checked: as `psql` does.
fn tls(parameters: &[Parameter], config: &mut Config) -> Result<TlsClientSettings, Cause> {
    let get = |name: &str| {
        let found = parameters.iter().rev().find(|(given, _)| *given == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let authorities = get("sslrootcert");
    let identity = match (get("sslcert"), get("sslkey")) {
        (None, None) => None,
        (Some(certificates), Some(key)) => {
            Some(TlsIdentity { certificates: certificates.into(), key: key.into() })
        }
        _ => return Err(Cause::user("sslcert and sslkey belong together: name the certificate and its key")),
    };
    let mode = get("sslmode").unwrap_or("prefer");
    let (uses, verification) = match mode {
        "disable" => (SslMode::Disable, TlsVerification::Nothing),
        "prefer" => (SslMode::Prefer, TlsVerification::Nothing),
        // As in libpq: who names an authority wants it checked.
        "require" if authorities.is_some() => (SslMode::Require, TlsVerification::Authority),
        "require" => (SslMode::Require, TlsVerification::Nothing),
        "verify-ca" => (SslMode::Require, TlsVerification::Authority),
        "verify-full" => (SslMode::Require, TlsVerification::Full),
        other => {
            return Err(Cause::user(format!(
                "unknown sslmode '{other}'; choose disable, prefer, require, verify-ca or verify-full"
            )));
        }
    };
    if authorities.is_some() && uses != SslMode::Require {
        return Err(Cause::user(format!(
            "sslrootcert has no effect with sslmode={mode}, which checks nothing; write sslmode=verify-full"
        )));
    }
    config.ssl_mode(uses);
    let authorities = authorities.filter(|path| *path != "system").map(Into::into);
    Ok(TlsClientSettings { authorities, identity, verification })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tls_are_taken_out_of_both_forms() {
        let url = "postgres://me:a%3Fb@host/db?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fmy%20ca.pem";
        let words = "host=host user = me password='a?b' sslmode = verify-full dbname=db connect_timeout=3 \
                     sslrootcert='/etc/my ca.pem'";
        for text in [url, words] {
            let found = Database::parse(text).unwrap();
            assert_eq!(
                found.tls.authorities.as_deref(),
                Some(std::path::Path::new("/etc/my ca.pem")),
                "{text}"
            );
            assert_eq!(found.tls.verification, TlsVerification::Full, "{text}");
            assert_eq!(found.config.get_ssl_mode(), SslMode::Require, "{text}");
            assert_eq!(found.config.get_password(), Some(b"a?b".as_slice()), "{text}");
            assert_eq!(found.config.get_dbname(), Some("db"), "{text}");
            assert_eq!(found.config.get_connect_timeout(), Some(&Duration::from_secs(3)), "{text}");
            assert_eq!(found.server, "host:5432", "{text}");
        }
    }

    #[test]
    fn modes_mean_what_they_mean_to_psql() {
        let of = |parameters: &str| {
            let found = Database::parse(&format!("postgres://me@host/db?{parameters}"))?;
            Ok((found.config.get_ssl_mode(), found.tls.verification))
        };
        let refused =
            |parameters: &str| of(parameters).map_err(|cause: Cause| cause.message.to_string()).unwrap_err();
        use TlsVerification::{Authority, Full, Nothing};
        assert_eq!(of(""), Ok((SslMode::Prefer, Nothing)));
        assert_eq!(of("sslmode=disable"), Ok((SslMode::Disable, Nothing)));
        assert_eq!(of("sslmode=require"), Ok((SslMode::Require, Nothing)));
        assert_eq!(of("sslmode=require&sslrootcert=ca.pem"), Ok((SslMode::Require, Authority)));
        assert_eq!(of("sslmode=verify-ca&sslrootcert=ca.pem"), Ok((SslMode::Require, Authority)));
        assert_eq!(of("sslmode=verify-full&sslrootcert=system"), Ok((SslMode::Require, Full)));
        assert!(refused("sslmode=verify_full").starts_with("unknown sslmode 'verify_full'; choose"));
        assert!(refused("sslrootcert=ca.pem").starts_with("sslrootcert has no effect with sslmode=prefer"));
        assert!(refused("sslmode=require&sslcert=me.pem").starts_with("sslcert and sslkey belong together"));
    }
}
