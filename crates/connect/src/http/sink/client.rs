//! One connection, over which one request at a time is sent.

use std::future::Future;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tidemill_core::Cause;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::target::{IDEMPOTENCY_KEY, Target};
use crate::http_client::{add_user_headers, header_text, reason_of, retry_after};
use crate::tls::{TlsClientSettings, failure, server_name};

/// How much of an answer is read; a receiver that says more loses its connection.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How much of an answer is shown.
const ANSWER_SHOWN: usize = 200;

/// How a request ended if it was not accepted.
#[derive(Debug)]
pub(super) enum Failure {
    /// Trying again may help; the receiver may say when.
    Lost { reason: String, wait: Option<Duration> },
    /// The receiver refuses what is in the request.
    Refused(String),
    /// Trying again would not help.
    Final(Cause),
}

/// A client of one receiver.
pub(super) struct Client {
    pub target: Target,
    pub tls: TlsClientSettings,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(target: Target, tls: TlsClientSettings) -> Client {
        Client { target, tls, connection: None }
    }

    /// Gives up the connection, which may be in the middle of a request.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Sends a request; returns if it was accepted.
    pub async fn post(
        &mut self,
        key: Option<&str>,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(), Failure> {
        let mut is_new = false;
        let mut connection = match self.connection.take() {
            Some(open) if !open.is_closed() => open,
            _ => {
                is_new = true;
                self.connect().await?
            }
        };
        let mut sent = self.send(&mut connection, key, content_type, body.clone()).await;
        if sent.is_err() && !is_new {
            // It was idle for too long, and the receiver has closed it.
            connection = self.connect().await?;
            sent = self.send(&mut connection, key, content_type, body).await;
        }
        let response = sent.map_err(|error| lost(&error))?;
        let status = response.status();
        let (location, wait) = (header_text(&response, &LOCATION), retry_after(&response));
        let (answer, is_whole) = answer(response).await;
        if is_whole {
            self.connection = Some(connection);
        }
        self.judge(status, location.as_deref(), wait, &answer)
    }

    async fn send(
        &self,
        connection: &mut SendRequest<Full<Bytes>>,
        key: Option<&str>,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response<Incoming>, hyper::Error> {
        connection.ready().await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.endpoint.path.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tidemill"));
        add_user_headers(headers, &self.target.headers);
        headers.insert(HOST, self.target.endpoint.authority.clone());
        if let Some(Ok(key)) = key.map(HeaderValue::from_str) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        connection.send_request(request).await
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let endpoint = &self.target.endpoint;
        let stream = TcpStream::connect((endpoint.bare_host(), endpoint.port))
            .await
            .map_err(|error| Failure::Lost { reason: format!("cannot connect: {error}"), wait: None })?;
        // Otherwise a short request waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        if !endpoint.is_https {
            return shaken(handshake(TokioIo::new(stream)).await);
        }
        let config = self.tls.load().map_err(Failure::Final)?;
        let name = server_name(&endpoint.host).map_err(Failure::Final)?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        shaken(handshake(TokioIo::new(connected.map_err(|error| self.untrusted(&error))?)).await)
    }

    /// A certificate stays as it is until someone changes something.
    fn untrusted(&self, error: &io::Error) -> Failure {
        match failure(error) {
            Some(reason) => Failure::Final(Cause::user(format!("{}: {reason}", self.target.place))),
            None => Failure::Lost { reason: format!("the TLS handshake failed: {error}"), wait: None },
        }
    }

    /// What an answer means.
    fn judge(
        &self,
        status: StatusCode,
        location: Option<&str>,
        wait: Option<Duration>,
        answer: &str,
    ) -> Result<(), Failure> {
        let told = format!("{}: it answers {status}{answer}", self.target.place);
        let stop = |remedy: &str| Err(Failure::Final(Cause::user(format!("{told}; {remedy}"))));
        match status.as_u16() {
            200..=299 => Ok(()),
            300..=399 => match location {
                // It may hold a secret, as the URL does; its host helps.
                Some(to) => stop(&format!("it has moved to {}; use that URL", without_path(to))),
                None => stop("redirections are not followed; use the URL where rows are accepted"),
            },
            401 | 403 | 407 => stop("check the token in the headers, and its rights"),
            404 | 405 | 410 => stop("check the URL: rows are not accepted there"),
            408 | 429 => Err(Failure::Lost { reason: format!("it answers {status}{answer}"), wait }),
            400..=499 => Err(Failure::Refused(told)),
            _ => Err(Failure::Lost { reason: format!("it answers {status}{answer}"), wait }),
        }
    }
}

/// Runs the connection beside the requests.
fn shaken<C>(
    shaken: hyper::Result<(SendRequest<Full<Bytes>>, C)>,
) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    C: Future<Output = hyper::Result<()>> + Send + 'static,
{
    let (sender, connection) = shaken.map_err(|error| lost(&error))?;
    tokio::spawn(async move {
        // The connection hands its failure to the requests that wait.
        let _ = connection.await;
    });
    Ok(sender)
}

fn lost(error: &hyper::Error) -> Failure {
    Failure::Lost { reason: reason_of(error), wait: None }
}

/// The beginning of an answer, for messages, and whether all of it was read.
async fn answer(response: Response<Incoming>) -> (String, bool) {
    let mut body = response.into_body();
    let (mut text, mut bytes) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (shown(&text), false) };
        let Some(data) = frame.data_ref() else { continue };
        bytes += data.len();
        if bytes > ANSWER_BYTES_MAX {
            return (shown(&text), false);
        }
        text.extend_from_slice(&data[..data.len().min(ANSWER_SHOWN.saturating_sub(text.len()))]);
    }
    (shown(&text), true)
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let printable = |character: char| if character.is_control() { ' ' } else { character };
    if words.is_empty() {
        String::new()
    } else {
        format!(" ({})", words.join(" ").chars().map(printable).collect::<String>())
    }
}

fn without_path(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end])
}
