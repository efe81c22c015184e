//! Subscriptions over WebSockets: the events that others get by server-sent events, each as a message (decision 0114).
//!
//! A client sends nothing but the end. That nobody listens any more is noticed by pings.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tidemill_connect::http::{ConnectionSlot, RequestsEnd};
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::answer::{Answer, Refusal, error, whole};
use super::handshake::{self, KNOWN_VERSION, VERSION};
use super::query::{self, Begun, Framing};
use super::shared::HttpState;
use crate::report::Report;
use crate::sessions::identity::Identity;

const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
/// The longest message of a client: it has nothing to say but that it goes.
const MESSAGE_BYTES_MAX: usize = 4096;
/// How often a client is asked whether it is there. It is not if it has said nothing until the next time.
const PING: Duration = Duration::from_secs(30);
/// How long a client may take to say that it has understood the end.
const FAREWELL: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Answers a request for a WebSocket.
pub(super) async fn answer(
    mut request: Request<Incoming>,
    shared: &HttpState,
    identity: &Identity,
) -> Answer {
    let accepted = match handshake::accepted(&request) {
        Ok(accepted) => accepted,
        Err(refusal) => {
            let mut answer = refusal.answer();
            answer.headers_mut().insert(VERSION, KNOWN_VERSION);
            return answer;
        }
    };
    // It keeps its slot, although it is no longer a connection for requests.
    let slot = request.extensions_mut().remove::<Arc<ConnectionSlot>>();
    if let Some(requests) = request.extensions_mut().remove::<RequestsEnd>() {
        requests.end();
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let begun = query::begin(request, shared, identity).await;
    tokio::spawn(serve(upgrade, begun, slot));
    let mut answer = whole(StatusCode::SWITCHING_PROTOCOLS, HeaderValue::from_static(""), Bytes::new());
    let headers = answer.headers_mut();
    headers.clear();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = accepted.parse() {
        headers.insert(ACCEPT, accepted);
    }
    answer
}

/// Serves a WebSocket until one side ends it. Its slot is kept until then.
async fn serve(upgrade: OnUpgrade, begun: Result<Begun, Refusal>, slot: Option<Arc<ConnectionSlot>>) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(%error, "a connection has not become a WebSocket"),
    };
    let limits = WebSocketConfig::default()
        .read_buffer_size(MESSAGE_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let socket = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(limits)).await;
    let told = match begun {
        Ok(begun) => follow(&mut socket, begun).await,
        Err(refusal) => refuse(&mut socket, &refusal.report).await,
    };
    if let Err(error) = told {
        tracing::debug!(%error, "a WebSocket broke");
    }
    drop(slot);
}

type SendOutcome = Result<(), tokio_tungstenite::tungstenite::Error>;

/// Tells why nothing comes. Pages cannot read an answer that is not a WebSocket.
async fn refuse(socket: &mut Socket, report: &Report) -> SendOutcome {
    socket.send(text(Framing::Message.event("error", &error(report)).into())).await?;
    let code = match report.code.get(..2) {
        Some("53" | "55" | "58") => CloseCode::Again,
        Some("XX") => CloseCode::Error,
        _ => CloseCode::Policy,
    };
    end(socket, code, report.code).await
}

/// Sends events as they come.
async fn follow(socket: &mut Socket, begun: Begun) -> SendOutcome {
    let Begun { mut pieces, final_piece, cancel: _cancel, .. } = begun;
    let mut pings = interval_at(Instant::now() + PING, PING);
    let mut is_there = true;
    loop {
        tokio::select! {
            piece = poll_fn(|context| pieces.poll(context)) => match piece {
                Some(Ok(piece)) => socket.send(text(piece)).await?,
                Some(Err(_)) => return end(socket, CloseCode::Error, "it breaks off").await,
                None => {
                    return match final_piece.take() {
                        Some(error) => {
                            socket.send(text(error)).await?;
                            end(socket, CloseCode::Policy, "it has failed").await
                        }
                        None => end(socket, CloseCode::Normal, "it has ended").await,
                    };
                }
            },
            message = socket.next() => match message.transpose()? {
                None | Some(Message::Close(_)) => return Ok(()),
                Some(Message::Text(_) | Message::Binary(_)) => {
                    return end(socket, CloseCode::Unsupported, "a subscription takes no messages").await;
                }
                Some(_) => is_there = true,
            },
            _ = pings.tick() => {
                if !std::mem::take(&mut is_there) {
                    return Ok(());
                }
                socket.send(Message::Ping(Bytes::new())).await?;
            }
        }
    }
}

/// An event as a message.
fn text(event: Bytes) -> Message {
    Utf8Bytes::try_from(event.clone()).map_or(Message::Binary(event), Message::Text)
}

/// Says why nothing more comes, and waits for the client to say that it knows.
async fn end(socket: &mut Socket, code: CloseCode, reason: &'static str) -> SendOutcome {
    socket.close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) })).await?;
    let understood = async { while let Some(Ok(_)) = socket.next().await {} };
    // Unread bytes would turn the end into a reset, and what was said last would be lost.
    let _ = tokio::time::timeout(FAREWELL, understood).await;
    Ok(())
}
