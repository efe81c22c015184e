//! Bodies: read and decompressed within limits. They take room in the queue as they grow.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use tidemill_core::error::chain;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::HttpSettings;
use super::answer::Refusal;

/// The unit of the queue's room.
pub(super) const ROOM_BYTES: usize = 1024;

/// A body, and its share of the queue.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) room: OwnedSemaphorePermit,
}

/// Reads a body.
pub(super) async fn read(
    mut incoming: Incoming,
    is_gzip: bool,
    settings: &HttpSettings,
    room: &Arc<Semaphore>,
) -> Result<Body, Refusal> {
    let most = settings.body_bytes_max;
    // What the header announces: there is no need to wait for the bytes.
    if incoming.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let mut body = Body { bytes: Vec::new(), room: take_room(room, 0, settings.queue_wait).await? };
    let reading = async {
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| {
                let reason = chain(&error).join(": ");
                Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {reason}"))
            })?;
            let Some(data) = frame.data_ref() else { continue };
            if body.bytes.len() + data.len() > most {
                return Err(too_large(most));
            }
            grow(&mut body, data.len(), room, settings.queue_wait).await?;
            body.bytes.extend_from_slice(data);
        }
        Ok(())
    };
    match timeout(settings.body_timeout, reading).await {
        Err(_) => return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
        Ok(read) => read?,
    }
    if is_gzip {
        let packed = std::mem::take(&mut body.bytes);
        inflate(&packed, &mut body, settings, room).await?;
    }
    Ok(body)
}

/// Decompresses piece by piece, so that a decompression bomb cannot grow, and other connections do not wait long.
async fn inflate(
    packed: &[u8],
    body: &mut Body,
    settings: &HttpSettings,
    room: &Arc<Semaphore>,
) -> Result<(), Refusal> {
    let mut decoder = MultiGzDecoder::new(packed);
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = decoder.read(&mut piece).map_err(|cause| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not valid gzip: {cause}"))
        })?;
        if count == 0 {
            return Ok(());
        }
        if body.bytes.len() + count > settings.body_bytes_max {
            return Err(too_large(settings.body_bytes_max));
        }
        grow(body, count, room, settings.queue_wait).await?;
        body.bytes.extend_from_slice(&piece[..count]);
        tokio::task::yield_now().await;
    }
}

async fn grow(body: &mut Body, bytes: usize, room: &Arc<Semaphore>, wait: Duration) -> Result<(), Refusal> {
    let needed = (body.bytes.len() + bytes).div_ceil(ROOM_BYTES);
    if needed > body.room.num_permits() {
        body.room.merge(take_room(room, needed - body.room.num_permits(), wait).await?);
    }
    Ok(())
}

/// Room in the queue; even an empty body takes some.
async fn take_room(
    room: &Arc<Semaphore>,
    needed: usize,
    wait: Duration,
) -> Result<OwnedSemaphorePermit, Refusal> {
    let permits = u32::try_from(needed.max(1)).unwrap_or(u32::MAX);
    match timeout(wait, Arc::clone(room).acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the query is behind; send the request again later",
        )),
    }
}

fn too_large(most: usize) -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body has more than {most} bytes; send smaller ones"),
    )
}
