//! How files are fetched.

use std::fmt;
use std::time::Duration;

use super::s3::S3Settings;
use crate::tls::TlsClientSettings;

/// How files are fetched from other machines, and how much of them.
///
/// ```
/// use tidemill_connect::fetch::FetchSettings;
///
/// let mut settings = FetchSettings::default();
/// settings.headers.push(("Authorization".to_owned(), "Bearer secret".to_owned()));
/// assert!(!format!("{settings:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// Headers of each request, by name; their values are never shown. Another host, to which a server redirects, does not get
    /// them.
    pub headers: Vec<(String, String)>,
    /// Whom to trust, for `https`, and who this side is.
    pub tls: TlsClientSettings,
    /// Whether headers may be sent to other machines over `http`, where anyone between can read them.
    pub allow_remote: bool,
    /// How long a server may be silent.
    pub timeout: Duration,
    /// How long it may take to fetch a file, with all attempts.
    pub time_max: Duration,
    /// How long a file may be, in bytes.
    pub bytes_max: u64,
    /// The store of `s3://` paths.
    pub s3: S3Settings,
}

impl Default for FetchSettings {
    /// No headers, the system's authorities, 30 s of silence, an hour and 10 GB for each file; Amazon's store without keys.
    fn default() -> FetchSettings {
        FetchSettings {
            headers: Vec::new(),
            tls: TlsClientSettings::default(),
            allow_remote: false,
            timeout: Duration::from_secs(30),
            time_max: Duration::from_secs(3600),
            bytes_max: 10_000_000_000,
            s3: S3Settings::default(),
        }
    }
}

impl fmt::Debug for FetchSettings {
    /// Without the values of headers, which may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut fields = formatter.debug_struct("FetchSettings");
        fields.field("headers", &names).field("tls", &self.tls).field("allow_remote", &self.allow_remote);
        fields.field("timeout", &self.timeout).field("time_max", &self.time_max);
        fields.field("bytes_max", &self.bytes_max).field("s3", &self.s3).finish()
    }
}
