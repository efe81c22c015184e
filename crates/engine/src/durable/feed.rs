//! The feed of a durable source. One thread takes rows in and journals them, another forwards them to the engine. The
//! first never waits for the second: what the engine cannot take yet is read from the journal later.

use std::sync::Arc;

use crossbeam_channel::bounded;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::Gateway;
use tidemill_journal::{StreamReader, StreamWriter};

use super::DurableSource;
use super::feed_start::FeedStart;
use super::forward::Forwarder;
use super::protocol::Forwarding;
use super::write::{Told, Writer};
use crate::entrance::{Entrance, Entry};
use crate::feed::{Feed, spawn};
use crate::feed_state::FeedState;
use crate::source_reader::SourceReader;

/// How many batches may be handed on without being read from the journal again.
const BATCHES_HANDED_ON: usize = 64;

/// Starts to feed a durable source into its gateway.
pub(super) fn start(
    source: DurableSource,
    stream: (StreamWriter, StreamReader),
    gateway: Gateway,
    start: FeedStart,
) -> Result<Feed, Cause> {
    let (streams, name) = (gateway.streams().to_vec(), gateway.source().to_owned());
    let (writer, forwarder) = parts(source, stream, (gateway, &streams), BATCHES_HANDED_ON, start);
    let state = Arc::clone(&forwarder.state);
    state.set_source(&name);
    let threads = vec![spawn("intake", move || writer.run())?, spawn("forward", move || forwarder.run())?];
    Ok(Feed::of(state, threads))
}

/// The two halves of a feed, which hand on at most this many batches.
pub(super) fn parts<E: Entrance>(
    source: DurableSource,
    (writer, reader): (StreamWriter, StreamReader),
    (gateway, streams): (E, &[SchemaRef]),
    batches_handed_on: usize,
    start: FeedStart,
) -> (Writer, Forwarder<E>) {
    let state = Arc::new(FeedState::default());
    let told = Arc::new(Told::default());
    let (sender, queue) = bounded(batches_handed_on);
    let forwarder = Forwarder {
        journal: reader,
        progress: writer.progress(),
        queue,
        entry: Entry::new((gateway, streams), &source.feed, start.watermark, start.now),
        forwarding: Forwarding::from(start.position),
        replay_end: start.replay_end,
        skipped: start.skipped.clone(),
        state: Arc::clone(&state),
        told: Arc::clone(&told),
    };
    let DurableSource { source, sync, feed, .. } = source;
    let time_ns = feed.event_time.map_or(i64::MIN, |event_time| event_time.before(start.replay_watermark));
    let source = SourceReader::new(source, &feed, streams, time_ns, start.now);
    let writer = Writer::new(source, writer, sync, sender, (state, told), start);
    (writer, forwarder)
}
