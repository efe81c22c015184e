//! Posts that nobody needs to get: each replaces the one before.

use std::time::Duration;

use tidemill_core::Cause;
use tokio::time::timeout;

use super::client::{Client, Failure};
use super::settings::HttpSinkSettings;
use super::target::Target;

/// Posts bodies to a URL, over one connection.
///
/// ```
/// use tidemill_connect::http::Poster;
///
/// assert!(Poster::new("http://127.0.0.1:4318/v1/metrics").is_ok());
/// assert!(Poster::new("127.0.0.1:4318").is_err());
/// ```
pub struct Poster {
    client: Client,
}

impl Poster {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL leads nowhere.
    pub fn new(url: &str) -> Result<Poster, Cause> {
        let settings = HttpSinkSettings { allow_remote: true, ..HttpSinkSettings::new(url, "") };
        Ok(Poster { client: Client::new(Target::new(&settings)?, settings.tls) })
    }

    /// Where the posts go, without the path.
    pub fn place(&self) -> &str {
        &self.client.target.place
    }

    /// Posts a body, within a time.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub async fn post(
        &mut self,
        content_type: &'static str,
        body: Vec<u8>,
        time: Duration,
    ) -> Result<(), Cause> {
        let failed = match timeout(time, self.client.post(None, content_type, body.into())).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Lost { reason: format!("no answer within {time:?}"), wait: None },
        };
        self.client.disconnect();
        Err(match failed {
            Failure::Lost { reason, .. } => Cause::operation(format!("{}: {reason}", self.place())),
            Failure::Refused(reason) => Cause::user(reason),
            Failure::Final(cause) => cause,
        })
    }
}
