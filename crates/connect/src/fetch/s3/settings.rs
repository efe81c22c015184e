//! Which store, and whose keys.

use std::fmt;

use hyper::Uri;
use tidemill_core::Cause;

use super::signature::Signer;

/// The store of `s3://` paths, and the keys for it. Without keys, requests are not signed: only public objects can be read.
///
/// ```
/// use tidemill_connect::fetch::S3Settings;
///
/// let minio = S3Settings {
///     endpoint: Some("http://127.0.0.1:9000".to_owned()),
///     access_key: Some("tidemill".to_owned()),
///     secret_key: Some("very secret".to_owned()),
///     ..S3Settings::default()
/// };
/// assert!(!format!("{minio:?}").contains("very secret"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct S3Settings {
    /// `https://host:port` of the store; `None`: that of Amazon in the region.
    pub endpoint: Option<String>,
    /// The region; `None`: `us-east-1`.
    pub region: Option<String>,
    /// Who asks.
    pub access_key: Option<String>,
    /// The key that signs.
    pub secret_key: Option<String>,
    /// What goes with keys that count for some hours only.
    pub session_token: Option<String>,
}

impl S3Settings {
    /// What the environment says, in the variables that all programs for S3 read: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`.
    ///
    /// ```
    /// let settings = tidemill_connect::fetch::S3Settings::from_environment();
    /// assert_eq!(settings.region.is_some(), ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| {
    ///     std::env::var(name).is_ok_and(|value| !value.is_empty())
    /// }));
    /// ```
    pub fn from_environment() -> S3Settings {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        S3Settings {
            endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            access_key: variable("AWS_ACCESS_KEY_ID"),
            secret_key: variable("AWS_SECRET_ACCESS_KEY"),
            session_token: variable("AWS_SESSION_TOKEN"),
        }
    }

    fn region(&self) -> &str {
        self.region.as_deref().unwrap_or("us-east-1")
    }

    /// The URL of an object, with the bucket in its path.
    pub(in crate::fetch) fn object(&self, bucket: &str, key: &str) -> Result<Uri, Cause> {
        self.url(&format!("/{bucket}/{}", encoded(key, true)))
    }

    /// The URL of a path, which is encoded, in the store.
    pub(in crate::fetch) fn url(&self, path: &str) -> Result<Uri, Cause> {
        let wrong = || {
            Cause::user(
                "the endpoint of the store cannot be used; write s3_endpoint = 'https://host' or 'http://host:port'",
            )
        };
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None if is_name(self.region()) => format!("https://s3.{}.amazonaws.com", self.region()),
            None => {
                return Err(Cause::user(
                    "the region has characters that no region has; write s3_region = 'eu-central-1'",
                ));
            }
        };
        let host: Uri = endpoint.parse().map_err(|_| wrong())?;
        let is_host = matches!(host.scheme_str(), Some("http" | "https"))
            && matches!(host.path(), "" | "/")
            && host.query().is_none()
            && host.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !is_host {
            return Err(wrong());
        }
        format!("{endpoint}{path}").parse().map_err(|_| wrong())
    }

    /// Who signs requests; `None`: nobody.
    pub(in crate::fetch) fn signer(&self) -> Result<Option<Signer>, Cause> {
        match (&self.access_key, &self.secret_key) {
            (Some(access_key), Some(secret_key)) => Ok(Some(Signer {
                access_key: access_key.clone(),
                secret_key: secret_key.clone(),
                session_token: self.session_token.clone(),
                region: self.region().to_owned(),
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(Cause::user(
                "the access key of the store needs its secret key; add s3_secret_key = '${AWS_SECRET_ACCESS_KEY}'",
            )),
            (None, Some(_)) => Err(Cause::user(
                "the secret key of the store needs its access key; add s3_access_key = '...'",
            )),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A text as S3 wants it in paths and queries: every byte that is neither letter, digit nor one of `-_.~` as `%XX`.
pub(in crate::fetch) fn encoded(text: &str, keeps_slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (byte == b'/' && keeps_slashes);
        if is_plain { encoded.push(char::from(byte)) } else { encoded.push_str(&format!("%{byte:02X}")) }
    }
    encoded
}

impl fmt::Debug for S3Settings {
    /// Without keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_keys = self.access_key.is_some() && self.secret_key.is_some();
        let mut fields = formatter.debug_struct("S3Settings");
        fields.field("endpoint", &self.endpoint).field("region", &self.region);
        fields.field("has_keys", &has_keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lie_where_they_should() {
        let mut settings = S3Settings::default();
        let object =
            |settings: &S3Settings| settings.object("bucket", "a/b c+ü.csv").map(|uri| uri.to_string());
        assert_eq!(
            object(&settings).unwrap(),
            "https://s3.us-east-1.amazonaws.com/bucket/a/b%20c%2B%C3%BC.csv"
        );
        settings.endpoint = Some("http://127.0.0.1:9000/".to_owned());
        assert_eq!(object(&settings).unwrap(), "http://127.0.0.1:9000/bucket/a/b%20c%2B%C3%BC.csv");
        for wrong in
            ["127.0.0.1:9000", "ftp://host", "http://host/path", "http://me:secret@host", "http://host?x"]
        {
            settings.endpoint = Some(wrong.to_owned());
            let error = object(&settings).unwrap_err().message.to_string();
            assert!(error.contains("endpoint of the store") && !error.contains("secret"), "{wrong}: {error}");
        }
        settings = S3Settings { region: Some("evil.example/".to_owned()), ..S3Settings::default() };
        assert!(object(&settings).unwrap_err().message.contains("region"));
    }

    #[test]
    fn one_key_needs_the_other() {
        let refused = |settings: &S3Settings| match settings.signer() {
            Ok(_) => panic!("one key is enough"),
            Err(cause) => cause.message.to_string(),
        };
        let mut settings = S3Settings { access_key: Some("a".to_owned()), ..S3Settings::default() };
        assert!(refused(&settings).contains("s3_secret_key"));
        settings = S3Settings { secret_key: Some("secret".to_owned()), ..S3Settings::default() };
        assert!(refused(&settings).contains("s3_access_key"));
        assert!(S3Settings::default().signer().unwrap().is_none());
    }
}
