//! The thread that stores the rows of a fragment.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use arrow_array::RecordBatch;
use tidemill_core::{Cause, SnapshotWriter};

use crate::store_state::Published;
use crate::writer::StoreWriter;

/// How many cycles a fragment may be given before their versions are taken: it stores one while the next is divided.
pub(super) const CYCLES_QUEUED: usize = 4;

/// The rows that a cycle has brought to a fragment.
pub(super) struct Part {
    pub cycle: u64,
    pub rows: Vec<RecordBatch>,
    /// Whether there are rows in any fragment.
    pub has_rows: bool,
    /// The largest time of the rows of all fragments.
    pub latest: i64,
}

enum Order {
    Append(Part),
    /// Writes what a snapshot has of the fragment behind what was written before, and sends that back.
    Manifest(SnapshotWriter, SyncSender<Result<SnapshotWriter, Cause>>),
}

/// A thread with the writer of a fragment. It ends when this is dropped.
pub(super) struct FragmentThread {
    orders: Option<SyncSender<Order>>,
    published: Receiver<Result<Arc<Published>, Cause>>,
    thread: Option<JoinHandle<()>>,
}

impl FragmentThread {
    /// Starts it.
    pub fn start(fragment: usize, writer: StoreWriter) -> Result<FragmentThread, Cause> {
        let (orders, queue) = sync_channel(CYCLES_QUEUED);
        // There is room for what every cycle in the queue publishes, so it never waits here.
        let (publishing, published) = sync_channel(CYCLES_QUEUED);
        let thread = Builder::new().name(format!("fragment-{fragment}"));
        let thread = thread.spawn(move || run(writer, &queue, &publishing)).map_err(|error| {
            Cause::resource(format!(
                "the thread of fragment {fragment} cannot be started: {error}; raise the limit on threads, or define \
                 fewer fragments"
            ))
            .with_source(error)
        })?;
        Ok(FragmentThread { orders: Some(orders), published, thread: Some(thread) })
    }

    /// Gives it the rows of a cycle. It waits if the queue is full.
    pub fn append(&self, part: Part) -> Result<(), Cause> {
        self.send(Order::Append(part))
    }

    /// What it has published after the oldest cycle whose version was not taken yet. It waits for it.
    pub fn published(&self) -> Result<Arc<Published>, Cause> {
        self.published.recv().map_err(|_| has_ended())?
    }

    /// Writes what a snapshot has of the fragment when all its complete chunks are kept.
    pub fn write_manifest(&self, writer: SnapshotWriter) -> Result<SnapshotWriter, Cause> {
        let (sender, written) = sync_channel(1);
        self.send(Order::Manifest(writer, sender))?;
        written.recv().map_err(|_| has_ended())?
    }

    fn send(&self, order: Order) -> Result<(), Cause> {
        let orders = self.orders.as_ref().ok_or_else(has_ended)?;
        orders.send(order).map_err(|_| has_ended())
    }
}

impl Drop for FragmentThread {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // If it has panicked, whoever waited for it was told.
            let _ = thread.join();
        }
    }
}

fn run(
    mut writer: StoreWriter,
    queue: &Receiver<Order>,
    publishing: &SyncSender<Result<Arc<Published>, Cause>>,
) {
    while let Ok(order) = queue.recv() {
        match order {
            Order::Append(Part { cycle, rows, has_rows, latest }) => {
                writer.raise_latest(latest);
                let appended = writer.append_part(cycle, &rows, has_rows);
                // Memory that the rows share with others is free before the next ones come.
                drop(rows);
                let published = appended.map(|()| writer.shared.current.load());
                if publishing.send(published).is_err() {
                    return;
                }
            }
            Order::Manifest(mut snapshot, sender) => {
                let written = writer.write_manifest(&mut snapshot).map(|()| snapshot);
                // Whoever asked may be gone.
                let _ = sender.send(written);
            }
        }
    }
}

fn has_ended() -> Cause {
    Cause::bug("the thread of a store's fragment has ended")
}
