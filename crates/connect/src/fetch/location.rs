//! What a path says that leads to another machine.

use hyper::Uri;
use tidemill_core::Cause;

/// Whether a path leads to another machine, or would if its scheme were known.
pub(crate) fn is_remote(path: &str) -> bool {
    scheme(path).is_some()
}

/// What stands before `://`.
pub(super) fn scheme(path: &str) -> Option<&str> {
    let (scheme, _) = path.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// Where a file lies on another machine.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// `http://` or `https://`.
    Web(Uri),
    /// `s3://bucket/key`. The key may be a pattern, or begin the keys of a folder.
    Object { bucket: String, key: String },
}

impl Location {
    /// What the path says. Errors do not show the query or a password.
    pub fn parse(path: &str) -> Result<Location, Cause> {
        let scheme = scheme(path).unwrap_or_default().to_ascii_lowercase();
        match scheme.as_str() {
            "http" | "https" => web(path),
            "s3" | "s3a" => object(&path[scheme.len() + 3..]),
            "file" => Err(Cause::user("'file://' is not understood; write the path of the file alone")),
            "gs" | "gcs" => Err(Cause::user(
                "'gs://' is not understood; write s3://bucket/key with s3_endpoint = 'https://storage.googleapis.com' \
                 and an HMAC key",
            )),
            other => Err(Cause::user(format!(
                "files cannot be read from '{other}://'; use http://, https:// or s3://, or fetch the file first"
            ))),
        }
    }

    /// For messages: without query and password.
    pub fn shown(&self) -> String {
        match self {
            Location::Web(uri) => shown(uri),
            Location::Object { bucket, key } => format!("s3://{bucket}/{key}"),
        }
    }

    /// Whether it means all objects of a store that match.
    pub fn is_many(&self) -> bool {
        match self {
            Location::Web(_) => false,
            Location::Object { key, .. } => {
                key.is_empty() || key.ends_with('/') || key.contains(['*', '?', '['])
            }
        }
    }
}

/// A URL without query and password.
pub(super) fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}{}", uri.path())
}

fn web(path: &str) -> Result<Location, Cause> {
    let wrong = |why: &str| Err(Cause::user(format!("the URL cannot be used: {why}")));
    if path.split(['?', '#']).next().unwrap_or_default().contains('*') {
        return wrong("a web server does not tell which files match a pattern; name the file, or use s3://");
    }
    let path = path.split('#').next().unwrap_or_default();
    let Ok(uri) = path.parse::<Uri>() else {
        return wrong("it is not a URL; write https://host/file.csv, and %20 for a blank");
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return wrong("it has a user or password; give them in headers = 'Authorization: ...'");
    }
    if uri.path().ends_with('/') {
        return wrong(
            "it names a folder, and a web server does not tell its files; name the file, or use s3://",
        );
    }
    Ok(Location::Web(uri))
}

fn object(path: &str) -> Result<Location, Cause> {
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let is_name = bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if bucket.is_empty() || !is_name {
        return Err(Cause::user("the name of the bucket is missing or invalid; write s3://bucket/key"));
    }
    Ok(Location::Object { bucket: bucket.to_owned(), key: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Result<Location, String> {
        Location::parse(path).map_err(|cause| cause.message.to_string())
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        for (path, expected) in [
            ("https://host/a/b.csv?token=secret#part", "https://host/a/b.csv"),
            ("HTTP://host:81/b.csv", "http://host:81/b.csv"),
            ("http://[::1]:9/b.csv?x", "http://[::1]:9/b.csv"),
            ("s3://bucket/a/b c.csv", "s3://bucket/a/b c.csv"),
        ] {
            assert!(is_remote(path));
            assert_eq!(parse(path).unwrap().shown(), expected);
        }
        for path in ["a/b.csv", "/a://b", "1a://b", "c.csv"] {
            assert!(!is_remote(path), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_without_showing_it() {
        for (path, why) in [
            ("https://me:secret@host/a.csv", "it has a user or password"),
            ("https://host/*.csv?secret", "which files match a pattern"),
            ("https://host/folder/?secret", "it names a folder"),
            ("https://host?secret", "it names a folder"),
            ("https:///secret.csv", "it is not a URL"),
            ("https://host/a secret.csv", "it is not a URL"),
            ("ftp://host/secret", "from 'ftp://'"),
            ("file:///secret", "write the path of the file alone"),
            ("s3:///secret", "bucket is missing"),
            ("gs://bucket/secret", "s3_endpoint"),
        ] {
            let error = parse(path).map(|location| location.shown()).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{path}: {error}");
        }
    }

    #[test]
    fn a_key_may_mean_many_objects() {
        for (path, is_many) in [
            ("s3://b/a.csv", false),
            ("s3://b/a/", true),
            ("s3://b", true),
            ("s3://b/a/*.csv", true),
            ("s3://b/a/[ab].csv", true),
        ] {
            assert_eq!(parse(path).unwrap().is_many(), is_many, "{path}");
        }
    }
}
