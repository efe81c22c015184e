//! Signatures of requests: version 4 of Amazon's, for requests without a body.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use ring::{digest, hmac};
use tidemill_core::Cause;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Signs requests with a secret key.
#[derive(Clone)]
pub(in crate::fetch) struct Signer {
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
    pub region: String,
}

impl Signer {
    /// Adds the headers that say who asks. `Host` must be there.
    pub fn sign<B>(&self, request: &mut Request<B>) -> Result<(), Cause> {
        self.sign_at(request, SystemTime::now())
    }

    fn sign_at<B>(&self, request: &mut Request<B>, now: SystemTime) -> Result<(), Cause> {
        let wrong = |_| Cause::user("the keys of the store have characters that no header can have");
        let time = timestamp(now)?;
        let empty = hexadecimal(digest::digest(&digest::SHA256, b"").as_ref());
        let headers = request.headers_mut();
        headers.insert(DATE, HeaderValue::from_str(&time).map_err(wrong)?);
        headers.insert(CONTENT, HeaderValue::from_str(&empty).map_err(wrong)?);
        if let Some(token) = &self.session_token {
            let mut token = HeaderValue::from_str(token).map_err(wrong)?;
            token.set_sensitive(true);
            headers.insert(TOKEN, token);
        }
        // What is signed: all headers of the store, and what says whom and what is asked.
        let is_signed =
            |name: &HeaderName| name == HOST || name == "range" || name.as_str().starts_with("x-amz-");
        let signed = request.headers().iter().filter(|(name, _)| is_signed(name));
        let mut signed: Vec<(&str, &str)> =
            signed.map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default().trim())).collect();
        signed.sort_unstable();
        let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let mut canonical =
            format!("GET\n{}\n{}\n", request.uri().path(), request.uri().query().unwrap_or_default());
        for (name, value) in &signed {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{empty}");
        let scope = format!("{}/{}/s3/aws4_request", &time[..8], self.region);
        let hash = hexadecimal(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let signature = self.signature(&scope, &format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}"));
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            self.access_key
        );
        let mut value = HeaderValue::from_str(&value).map_err(wrong)?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The key goes through the parts of the scope.
    fn signature(&self, scope: &str, text: &str) -> String {
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in scope.split('/').chain([text]) {
            let signing = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&signing, part.as_bytes()).as_ref().to_vec();
        }
        hexadecimal(&key)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `20130524T000000Z`.
fn timestamp(time: SystemTime) -> Result<String, Cause> {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let time = i64::try_from(seconds).ok().and_then(timestamp_s_to_datetime);
    let time = time.ok_or_else(|| Cause::user("the clock of this machine is wrong: set it"))?;
    Ok(time.format("%Y%m%dT%H%M%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The example in Amazon's documentation.
    #[test]
    fn a_known_request_has_the_known_signature() {
        let signer = Signer {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
            region: "us-east-1".to_owned(),
        };
        let mut request = Request::new(());
        *request.uri_mut() = "/test.txt".parse().unwrap();
        request.headers_mut().insert(HOST, HeaderValue::from_static("examplebucket.s3.amazonaws.com"));
        request.headers_mut().insert("range", HeaderValue::from_static("bytes=0-9"));
        signer.sign_at(&mut request, at(1_369_353_600)).unwrap();
        let value = request.headers()[AUTHORIZATION].to_str().unwrap();
        assert_eq!(
            value,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_795_454_851, "20261123T172731Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(at(seconds)).unwrap(), expected);
        }
    }
}
