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
use super::write::{Writer, WriterReport};
use crate::feed::{Feed, spawn};
use crate::feed_entry::{ChunkReceiver, FeedEntry};
use crate::feed_state::FeedState;
use crate::source_reader::SourceReader;

/// How many batches may be handed on without being read from the journal again.
pub(crate) const BATCHES_HANDED_ON: usize = 64;

/// Starts to feed a durable source into its gateway.
pub(super) fn start(
    source: DurableSource,
    stream: (StreamWriter, StreamReader),
    gateway: Gateway,
    start: FeedStart,
) -> Result<Feed, Cause> {
    let (streams, name) = (gateway.streams().to_vec(), gateway.source().to_owned());
    let (of_writer, source_threads) = (gateway.pool_entry(), source.source.threads());
    let of_forwarder = of_writer.clone();
    let state = Arc::new(FeedState::default());
    let handed_on = (BATCHES_HANDED_ON, &state);
    let (writer, forwarder) = parts(source, stream, (gateway, &streams), handed_on, start);
    state.set_source(&name);
    let intake = spawn("intake", move || {
        let _membership = of_writer.join_with(source_threads);
        writer.run();
    })?;
    let forward = spawn("forward", move || {
        let _member = of_forwarder.join();
        forwarder.run();
    })?;
    let threads = vec![intake, forward];
    Ok(Feed::of(state, threads))
}

/// The two halves of a feed, which hand on at most this many batches, and report to a state.
pub(crate) fn parts<E: ChunkReceiver>(
    source: DurableSource,
    (writer, reader): (StreamWriter, StreamReader),
    (gateway, streams): (E, &[SchemaRef]),
    (batches_handed_on, state): (usize, &Arc<FeedState>),
    start: FeedStart,
) -> (Writer, Forwarder<E>) {
    let state = Arc::clone(state);
    state.set_held_back(gateway.held_back());
    let told = Arc::new(WriterReport::default());
    let (sender, queue) = bounded(batches_handed_on);
    let forwarder = Forwarder {
        journal: reader,
        progress: writer.progress(),
        queue,
        entry: FeedEntry::new((gateway, streams), &source.feed, start.watermark, start.now),
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
