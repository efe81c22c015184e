//! The feed of a durable source: one thread takes in and journals, another forwards to the engine. The first never
//! waits for the second: what the engine cannot take yet is read from the journal later.

use std::sync::Arc;

use crossbeam_channel::bounded;
use tidemill_core::Clock;
use tidemill_core::error::Cause;
use tidemill_flow::Gateway;
use tidemill_journal::{StreamReader, StreamWriter};

use super::DurableSource;
use super::forward::Forwarder;
use super::write::{Ending, Writer};
use crate::feed::{Feed, FeedState, spawn};
use crate::intake::Intake;

/// Batches that are handed on without being read from the journal again.
const BATCHES_HANDED_ON: usize = 64;

/// Starts to feed a durable source into its gateway, from this position, with this watermark.
pub(super) fn start(
    source: DurableSource,
    (writer, reader): (StreamWriter, StreamReader),
    gateway: Gateway,
    clock: Arc<dyn Clock>,
    (position, watermark): (u64, i64),
) -> Result<Feed, Cause> {
    let state = Arc::new(FeedState::default());
    let ending = Arc::new(Ending::default());
    let (sender, queue) = bounded(BATCHES_HANDED_ON);
    let intake = Intake::new(&source.feed, gateway.streams()).resumed(watermark);
    let forwarder = Forwarder {
        journal: reader,
        progress: writer.progress(),
        queue,
        gateway,
        intake,
        idle_after: source.feed.idle_after,
        next: position,
        state: Arc::clone(&state),
        ending: Arc::clone(&ending),
    };
    let writer = Writer::new(source.source, writer, source.sync, sender, clock, Arc::clone(&state), ending);
    let threads = vec![spawn("intake", move || writer.run())?, spawn("forward", move || forwarder.run())?];
    Ok(Feed::of(state, threads))
}
