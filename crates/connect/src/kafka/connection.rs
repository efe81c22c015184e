//! How brokers are reached: their addresses, TLS and a login.

use std::fmt;

use rdkafka::ClientConfig;
use tidemill_core::Cause;

use crate::tls::{TlsClientSettings, TlsVerification};

/// How a client shows who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KafkaMechanism {
    /// The password itself. Anyone on the way can read it, unless there is TLS.
    Plain,
    /// SCRAM-SHA-256: the password is never sent.
    #[default]
    ScramSha256,
    /// SCRAM-SHA-512: the password is never sent.
    ScramSha512,
}

impl KafkaMechanism {
    fn name(self) -> &'static str {
        match self {
            KafkaMechanism::Plain => "PLAIN",
            KafkaMechanism::ScramSha256 => "SCRAM-SHA-256",
            KafkaMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A user of the brokers (SASL). `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaLogin {
    /// How the client shows that it knows the password.
    pub mechanism: KafkaMechanism,
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
}

impl fmt::Debug for KafkaLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("KafkaLogin");
        shown.field("mechanism", &self.mechanism).field("user", &self.user).finish_non_exhaustive()
    }
}

/// Which brokers, and how they are reached.
///
/// ```
/// use tidemill_connect::kafka::{KafkaConnection, KafkaLogin, KafkaMechanism};
/// use tidemill_connect::tls::TlsClientSettings;
///
/// let login = KafkaLogin {
///     mechanism: KafkaMechanism::ScramSha512,
///     user: "reports".into(),
///     password: "a secret".into(),
/// };
/// let connection = KafkaConnection {
///     tls: Some(TlsClientSettings::default()),
///     login: Some(login),
///     ..KafkaConnection::from("broker.example.org:9093")
/// };
/// assert!(!format!("{connection:?}").contains("a secret"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaConnection {
    /// Brokers to ask first, as `host:port,host:port`.
    pub brokers: String,
    /// Whom it trusts, and what it shows; `None`: connections are not encrypted. The files are read when the client is
    /// made.
    pub tls: Option<TlsClientSettings>,
    /// Who it is; `None`: the brokers ask nobody, or ask for a certificate.
    pub login: Option<KafkaLogin>,
}

impl From<&str> for KafkaConnection {
    fn from(brokers: &str) -> KafkaConnection {
        KafkaConnection { brokers: brokers.to_owned(), tls: None, login: None }
    }
}

impl From<&String> for KafkaConnection {
    fn from(brokers: &String) -> KafkaConnection {
        KafkaConnection::from(brokers.as_str())
    }
}

impl KafkaConnection {
    /// The settings of a client.
    ///
    /// # Errors
    /// [`Cause::user`] if a file of TLS cannot be used.
    pub(super) fn client(&self) -> Result<ClientConfig, Cause> {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", &self.brokers).set("client.id", "tidemill");
        let protocol = match (&self.tls, &self.login) {
            (None, None) => "plaintext",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), None) => "ssl",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        client.set("security.protocol", protocol);
        if let Some(tls) = &self.tls {
            encrypt(&mut client, tls)?;
        }
        if let Some(login) = &self.login {
            client.set("sasl.mechanism", login.mechanism.name());
            client.set("sasl.username", &login.user).set("sasl.password", &login.password);
        }
        Ok(client)
    }
}

fn encrypt(client: &mut ClientConfig, tls: &TlsClientSettings) -> Result<(), Cause> {
    // Checks the files: the errors of librdkafka name neither the file nor the remedy.
    tls.load()?;
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    match &tls.authorities {
        Some(authorities) => client.set("ssl.ca.location", path(authorities)),
        // As for all other connections, where the system looks for its authorities can be said in the environment.
        None => match std::env::var("SSL_CERT_FILE") {
            Ok(file) => client.set("ssl.ca.location", file),
            Err(_) => client.set("ssl.ca.location", "probe"),
        },
    };
    if let Some(own) = &tls.identity {
        client.set("ssl.certificate.location", path(&own.certificates));
        client.set("ssl.key.location", path(&own.key));
    }
    match tls.verification {
        TlsVerification::Full => client.set("ssl.endpoint.identification.algorithm", "https"),
        TlsVerification::Authority => client.set("ssl.endpoint.identification.algorithm", "none"),
        TlsVerification::Nothing => client.set("enable.ssl.certificate.verification", "false"),
    };
    Ok(())
}
