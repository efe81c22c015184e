//! What the head of an answer says about the file behind it.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, LAST_MODIFIED,
    TRANSFER_ENCODING,
};
use hyper::{Response, StatusCode};
use tidemill_core::Cause;

use super::exchange::Exchange;
use super::failure::{Failure, refused};
use crate::http_client::header_text;

/// How much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// What a file is expected to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Rows of text. It may be compressed.
    Text,
    /// Any lines, those of a web page, too.
    Lines,
    /// Parquet or Arrow IPC, whose bytes must come as they are.
    Columns,
}

/// The bytes of a file that an answer brings: from where, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: u64,
    /// The length of the whole file; `None`: not told.
    pub total: Option<u64>,
}

/// Checks that an answer brings the file, or a part of it.
pub(super) async fn checked(
    exchange: &Exchange,
    response: Response<Incoming>,
    content: Content,
) -> Result<(Response<Incoming>, Extent), Failure> {
    if !matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
        return Err(refusal(exchange, response).await);
    }
    let shown = &exchange.shown;
    let stop = |why: String| Err(Failure::Final(Cause::user(format!("{shown}: {why}"))));
    let encoding = header_text(&response, &CONTENT_ENCODING).unwrap_or_default().to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => {}
        // It is recognised by its first bytes, as in a file.
        "gzip" | "x-gzip" | "zstd" | "aws-chunked" if content != Content::Columns => {}
        other => {
            return stop(format!(
                "the server compresses the answer with '{other}' although it was asked not to; let it send the \
                 file as it is"
            ));
        }
    }
    let kind = header_text(&response, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    if kind.starts_with("text/html") && content != Content::Lines {
        return stop(
            "the server answers with a web page, not with a file; check the URL, and whether it asks for a login"
                .to_owned(),
        );
    }
    let announced = header_text(&response, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let is_chunked =
        header_text(&response, &TRANSFER_ENCODING).is_some_and(|coding| coding.contains("chunked"));
    if announced.is_none() && !is_chunked {
        return stop(
            "the server does not tell where the file ends, so a broken transfer would not be noticed; fetch it with \
             another program, and read that file"
                .to_owned(),
        );
    }
    let extent = match response.status() {
        StatusCode::OK => Extent { start: 0, total: announced },
        _ => match header_text(&response, &CONTENT_RANGE).as_deref().and_then(range) {
            Some(extent) => extent,
            None => return stop("the server answers with an unknown part of the file".to_owned()),
        },
    };
    match extent.total.filter(|total| *total > exchange.bytes_max()) {
        Some(total) => Err(Failure::Final(too_long(exchange, &format!("{total} bytes long")))),
        None => Ok((response, extent)),
    }
}

pub(super) fn too_long(exchange: &Exchange, length: &str) -> Cause {
    Cause::resource(format!(
        "{}: the file is {length}, and at most {} are fetched; raise download_max",
        exchange.shown,
        exchange.bytes_max()
    ))
}

/// `bytes 0-9/100`, or `bytes 0-9/*`.
fn range(text: &str) -> Option<Extent> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (start.trim().parse::<u64>().ok()?, end.trim().parse::<u64>().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse::<u64>().ok()?),
    };
    (start <= end && total.is_none_or(|total| end < total)).then_some(Extent { start, total })
}

/// What tells one version of a file from another, exactly.
pub(super) fn version(response: &Response<Incoming>) -> Option<HeaderValue> {
    let headers = response.headers();
    let strong = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| headers.get(LAST_MODIFIED)).cloned()
}

/// What an answer means that brings no file. A store says it in its body.
pub(super) async fn refusal(exchange: &Exchange, response: Response<Incoming>) -> Failure {
    let plain = refused(&exchange.shown, &response);
    if !exchange.is_store || matches!(plain, Failure::Lost { .. }) {
        return plain;
    }
    let region = response.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
    let region =
        region.filter(|region| region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    let region = region.map(str::to_owned);
    let status = response.status();
    let body =
        tokio::time::timeout(exchange.timeout(), beginning(response.into_body())).await.unwrap_or_default();
    let code = code(&body).unwrap_or_default();
    let remedy = match (code, region) {
        ("NoSuchKey", _) => "there is no such object: check the key".to_owned(),
        ("NoSuchBucket", _) => "there is no such bucket: check its name, s3_endpoint and s3_region".to_owned(),
        ("InvalidAccessKeyId", _) => "the store does not know the access key: check s3_access_key".to_owned(),
        ("SignatureDoesNotMatch", _) => "the secret key is another one: check s3_secret_key".to_owned(),
        ("ExpiredToken" | "InvalidToken", _) => "the session token has expired or is wrong: get new keys".to_owned(),
        ("RequestTimeTooSkewed", _) => "the clock of this machine is wrong: set it".to_owned(),
        (_, Some(region)) if status != StatusCode::FORBIDDEN && status != StatusCode::NOT_FOUND => {
            format!("the bucket is in another region: s3_region = '{region}'")
        }
        ("PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed", None) => {
            "the bucket is in another region: set s3_region".to_owned()
        }
        _ if status == StatusCode::FORBIDDEN => {
            "check s3_access_key, s3_secret_key and what they may read; without them only public objects can be read"
                .to_owned()
        }
        _ => return plain,
    };
    let code = if code.is_empty() { String::new() } else { format!(" ({code})") };
    Failure::Final(Cause::user(format!("{}: the store answers {status}{code}; {remedy}", exchange.shown)))
}

/// The beginning of a body.
async fn beginning(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
        if bytes.len() > REFUSAL_BYTES_MAX || body.is_end_stream() {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The code of an error in S3's XML.
fn code(xml: &str) -> Option<&str> {
    let code = xml.split_once("<Code>")?.1.split_once("</Code>")?.0;
    (code.len() < 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_or_refused() {
        let extent = |start, total| Some(Extent { start, total });
        assert_eq!(range("bytes 5-9/10"), extent(5, Some(10)));
        assert_eq!(range("bytes 5-9/*"), extent(5, None));
        for wrong in
            ["", "bytes 5-9", "bytes 9-5/10", "bytes 5-10/10", "bytes */10", "lines 0-1/2", "bytes -1-2/3"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn codes_are_words() {
        assert_eq!(code("<Error><Code>NoSuchKey</Code><Message>x</Message></Error>"), Some("NoSuchKey"));
        assert_eq!(code("<Error><Code>a b</Code></Error>"), None);
        assert_eq!(code("<Error>"), None);
    }
}
