//! The user's settings.

use std::fmt;
use std::time::Duration;

use crate::tls::TlsClientSettings;

/// What a request holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostBody {
    /// One JSON object per line (`application/x-ndjson`).
    #[default]
    Lines,
    /// A JSON array of objects.
    Array,
    /// One JSON object: each row is a request of its own.
    Row,
}

/// Where rows are posted, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpSinkSettings {
    /// `http://host:port/path` or `https://...`. Messages show it without its path, which holds the secret of many
    /// webhooks.
    pub url: String,
    /// The sink's name, a part of each request's `Idempotency-Key`.
    pub sink: String,
    /// What a request holds.
    pub body: PostBody,
    /// The most rows of a request.
    pub rows_max: usize,
    /// Headers of each request, by name; their values are never shown.
    pub headers: Vec<(String, String)>,
    /// Whom to trust, for `https`.
    pub tls: TlsClientSettings,
    /// Whether `http` may be used to reach other machines, where anyone between can read and change the rows.
    pub allow_remote: bool,
    /// How long a request may take, with its connection.
    pub timeout: Duration,
    /// How long to retry a request before the query fails.
    pub retry_for: Duration,
    /// What tells a durable query from all others. With it, the requests of a cycle that comes again after a crash have the
    /// same keys again. Without it, each run has its own.
    pub identity: Option<u64>,
}

impl HttpSinkSettings {
    /// The defaults: lines of JSON, up to 1000 rows in a request of at most 30 s, which is retried for 10 minutes.
    pub fn new(url: impl Into<String>, sink: impl Into<String>) -> HttpSinkSettings {
        HttpSinkSettings {
            url: url.into(),
            sink: sink.into(),
            body: PostBody::default(),
            rows_max: 1000,
            headers: Vec::new(),
            tls: TlsClientSettings::default(),
            allow_remote: false,
            timeout: Duration::from_secs(30),
            retry_for: Duration::from_secs(600),
            identity: None,
        }
    }
}

impl fmt::Debug for HttpSinkSettings {
    /// Without the URL and the values of headers, which may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut fields = formatter.debug_struct("HttpSinkSettings");
        fields.field("sink", &self.sink).field("body", &self.body).field("rows_max", &self.rows_max);
        fields.field("headers", &names).field("tls", &self.tls).field("allow_remote", &self.allow_remote);
        fields.field("timeout", &self.timeout).field("retry_for", &self.retry_for);
        fields.field("identity", &self.identity).finish_non_exhaustive()
    }
}
