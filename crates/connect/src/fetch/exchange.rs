//! One request for a file, through its redirects, up to the head of the answer.

use std::future::Future;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, IF_RANGE,
    LOCATION, RANGE, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tidemill_core::Cause;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::failure::{Failure, broken, is_redirect, lost};
use super::location::Location;
use super::s3::Signer;
use super::settings::FetchSettings;
use super::target::{Reach, Target};
use crate::http_client::{add_user_headers, header_text, user_headers};
use crate::tls::{failure, server_name};

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 5;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// What the source says itself.
const OWN_HEADERS: [HeaderName; 7] =
    [CONTENT_LENGTH, CONNECTION, HOST, TRANSFER_ENCODING, RANGE, IF_RANGE, ACCEPT_ENCODING];

/// Where a file is asked for, and how.
#[derive(Clone)]
pub(super) struct Exchange {
    first: Target,
    headers: HeaderMap,
    signer: Option<Signer>,
    /// Whether it is a store, whose redirects name another region.
    pub is_store: bool,
    settings: FetchSettings,
    /// The file, for messages.
    pub shown: String,
}

/// Which bytes of a file are asked for.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// `bytes=...`
    pub range: String,
    /// If the file is still the same, by this mark of its version; else all of it.
    pub version: Option<HeaderValue>,
}

impl Exchange {
    /// Checks settings and location. Nobody is asked.
    pub fn new(place: &Location, settings: &FetchSettings) -> Result<Exchange, Cause> {
        match place {
            Location::Web(uri) => Exchange::of(uri, place.shown(), settings),
            Location::Object { bucket, key } => {
                Exchange::of_store(&settings.s3.object(bucket, key)?, place.shown(), settings)
            }
        }
    }

    /// Of a store's URL.
    pub fn of_store(uri: &Uri, shown: String, settings: &FetchSettings) -> Result<Exchange, Cause> {
        let plain = Exchange::of(uri, shown, settings)?;
        Ok(Exchange { signer: settings.s3.signer()?, is_store: true, ..plain })
    }

    fn of(uri: &Uri, shown: String, settings: &FetchSettings) -> Result<Exchange, Cause> {
        let first = Target::new(uri)?;
        let headers = user_headers(&settings.headers, &OWN_HEADERS, "source")?;
        if first.endpoint.is_https {
            // A file that cannot be used is a mistake, not a failing connection.
            settings.tls.load()?;
        }
        Ok(Exchange { first, headers, signer: None, is_store: false, settings: settings.clone(), shown })
    }

    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    pub fn bytes_max(&self) -> u64 {
        self.settings.bytes_max
    }

    /// The answer to a request for the file, or a part of it.
    pub async fn get(&self, part: Option<&Part>) -> Result<Response<Incoming>, Failure> {
        let mut target = self.first.clone();
        let mut first_reach = None;
        for _ in 0..=REDIRECTS_MAX {
            let (mut connection, reach) = self.in_time(self.connect(&target)).await?;
            let first_reach = *first_reach.get_or_insert(reach);
            if reach > first_reach {
                return Err(Failure::Final(Cause::user(format!(
                    "{}: the server redirects to {}, which lies in the network of this machine; name that URL yourself \
                     if you trust it",
                    self.shown, target.shown
                ))));
            }
            let request = self.request(&target, part)?;
            let response = self.in_time(async {
                connection.ready().await.map_err(|error| broken(&error))?;
                connection.send_request(request).await.map_err(|error| broken(&error))
            });
            let response = response.await?;
            match header_text(&response, &LOCATION)
                .filter(|_| is_redirect(response.status()) && !self.is_store)
            {
                Some(next) => target = target.redirected(&next)?,
                None => return Ok(response),
            }
        }
        Err(Failure::Final(Cause::user(format!(
            "{}: more than {REDIRECTS_MAX} redirects; use the URL where the file lies",
            self.shown
        ))))
    }

    /// The next piece of an answer's body; `None`: it is at its end.
    pub async fn next_piece(&self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        loop {
            let Ok(frame) = tokio::time::timeout(self.timeout(), body.frame()).await else {
                return Err(lost(format!("the server sent nothing for {:?} (timeout)", self.timeout())));
            };
            let Some(frame) = frame else { return Ok(None) };
            // What stands behind the body does not belong to the file.
            if let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    async fn in_time<T>(&self, run: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.settings.timeout, run).await {
            Ok(done) => done,
            Err(_) => Err(lost(format!("no answer within {:?} (timeout)", self.settings.timeout))),
        }
    }

    fn request(&self, target: &Target, part: Option<&Part>) -> Result<Request<Empty<Bytes>>, Cause> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = target.endpoint.path.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tidemill"));
        // What is stored is wanted as it is.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(Part { range, version }) = part {
            headers
                .insert(RANGE, HeaderValue::from_str(range).map_err(|error| Cause::bug(error.to_string()))?);
            if let Some(version) = version {
                headers.insert(IF_RANGE, version.clone());
            }
        }
        // Another server must not learn what is meant for this one.
        if target.is_same_server(&self.first) {
            add_user_headers(headers, &self.headers);
        }
        headers.insert(HOST, target.endpoint.authority.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        // A store's redirects are not followed.
        if let Some(signer) = &self.signer {
            signer.sign(&mut request)?;
        }
        Ok(request)
    }

    async fn connect(&self, target: &Target) -> Result<(SendRequest<Empty<Bytes>>, Reach), Failure> {
        let endpoint = &target.endpoint;
        let stream = TcpStream::connect((endpoint.bare_host(), endpoint.port)).await.map_err(|error| {
            lost(format!("cannot connect to {}:{}: {error}", endpoint.host, endpoint.port))
        })?;
        let reach = Reach::of(stream.peer_addr().map_err(|error| lost(error.to_string()))?.ip());
        if !endpoint.is_https {
            self.check_unencrypted(target, reach)?;
            return Ok((started(TokioIo::new(stream)).await?, reach));
        }
        let config = self.settings.tls.load()?;
        let name = server_name(&endpoint.host)?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
            match failure(&error) {
                // A certificate stays as it is until someone changes something.
                Some(reason) => Failure::Final(Cause::user(format!("{}: {reason}", target.shown))),
                None => lost(format!("the TLS handshake failed: {error}")),
            }
        })?;
        Ok((started(TokioIo::new(stream)).await?, reach))
    }

    /// Refuses to tell secrets to everyone on the way.
    fn check_unencrypted(&self, target: &Target, reach: Reach) -> Result<(), Failure> {
        let is_told = !self.headers.is_empty() && target.is_same_server(&self.first);
        if !is_told || self.settings.allow_remote || reach == Reach::Machine {
            return Ok(());
        }
        Err(Failure::Final(Cause::user(format!(
            "{}: http:// is not encrypted, and the headers would be sent to another machine; use https://, or set \
             allow_remote = true",
            self.shown
        ))))
    }
}

/// Runs a connection beside its request.
async fn started<S>(stream: S) -> Result<SendRequest<Empty<Bytes>>, Failure>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (sender, connection) = builder.handshake(stream).await.map_err(|error| broken(&error))?;
    tokio::spawn(async move {
        // The connection hands its failure to the request that waits.
        let _ = connection.await;
    });
    Ok(sender)
}
