//! The queue between the thread of a question and the connection to its client.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::Cause;
use tidemill_service::UnreadRows;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces of an answer that may wait for the client.
const PIECES_MAX: usize = 8;
/// Their bytes, or one piece if it has more.
const BYTES_MAX: u64 = 4 << 20;

type Piece = io::Result<Bytes>;

/// Hands over pieces.
pub(super) struct PieceSender {
    pieces: Sender<Piece>,
    held: Held,
}

/// Takes pieces.
pub(in crate::http) struct PieceReceiver {
    pieces: Receiver<Piece>,
    held: Held,
    /// The bytes of the piece that is being sent.
    being_sent: u64,
}

/// Why a piece is not taken.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// There is no room yet.
    Full(Bytes),
    /// The client is gone.
    Closed,
}

/// What is held for the client. It is counted until it is sent, also when the thread has ended.
#[derive(Clone)]
struct Held(Arc<Mutex<HeldBytes>>);

struct HeldBytes {
    unread: UnreadRows,
    /// Of the rows that are being encoded.
    rows: u64,
    /// Of the pieces that wait or are being sent.
    pieces: u64,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        self.0.lock()
    }

    /// Changes the numbers, and gives what `change` gives.
    fn change<T>(&self, change: impl FnOnce(&mut HeldBytes) -> T) -> T {
        let mut held = self.lock();
        let changed = change(&mut held);
        let bytes = held.rows + held.pieces;
        held.unread.set(bytes);
        changed
    }
}

/// A queue for the pieces of an answer. They count as unread.
pub(super) fn pieces(unread: UnreadRows) -> (PieceSender, PieceReceiver) {
    let (sender, receiver) = channel(PIECES_MAX);
    let held = Held(Arc::new(Mutex::new(HeldBytes { unread, rows: 0, pieces: 0 })));
    let sender = PieceSender { pieces: sender, held: held.clone() };
    (sender, PieceReceiver { pieces: receiver, held, being_sent: 0 })
}

impl PieceSender {
    /// Says how many bytes the rows have that are being encoded.
    ///
    /// # Errors
    /// If the process would hold more than it may.
    pub fn hold_rows(&self, bytes: u64) -> Result<(), Cause> {
        self.held.change(|held| held.rows = bytes);
        self.held.lock().unread.check()
    }

    /// Whether the client is gone.
    pub fn is_closed(&self) -> bool {
        self.pieces.is_closed()
    }

    /// Hands over a piece if there is room for it.
    pub fn try_send(&self, piece: Bytes) -> Result<(), NotTaken> {
        let bytes = piece.len() as u64;
        let has_room = |held: &mut HeldBytes| {
            let has_room = held.pieces == 0 || held.pieces + bytes <= BYTES_MAX;
            held.pieces += if has_room { bytes } else { 0 };
            has_room
        };
        // Its rows are counted already; whether there is memory for both is seen with the next rows.
        if !self.held.change(has_room) {
            return Err(if self.is_closed() { NotTaken::Closed } else { NotTaken::Full(piece) });
        }
        self.pieces.try_send(Ok(piece)).map_err(|error| {
            self.held.change(|held| held.pieces -= bytes);
            match error {
                TrySendError::Full(Ok(piece)) => NotTaken::Full(piece),
                _ => NotTaken::Closed,
            }
        })
    }

    /// Ends the answer where it is, after this piece.
    pub fn break_off(&self, piece: Vec<u8>, error: io::Error) {
        if !piece.is_empty() {
            let bytes = piece.len() as u64;
            self.held.change(|held| held.pieces += bytes);
            let _ = self.pieces.blocking_send(Ok(piece.into()));
        }
        let _ = self.pieces.blocking_send(Err(error));
    }
}

/// The rows go with the thread; its pieces stay until they are sent.
impl Drop for PieceSender {
    fn drop(&mut self) {
        self.held.change(|held| held.rows = 0);
    }
}

impl PieceReceiver {
    /// The next piece; `None` at the end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        // Whoever asks for another one has sent the last.
        let sent = std::mem::take(&mut self.being_sent);
        self.held.change(|held| held.pieces -= sent);
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        self.being_sent = match &piece {
            Some(Ok(piece)) => piece.len() as u64,
            _ => 0,
        };
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tidemill_service::{Runtime, Session};
    use tidemill_sql::Planner;

    use super::*;

    fn next(receiver: &mut PieceReceiver) -> Option<usize> {
        match receiver.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => Some(piece?.unwrap().len()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn pieces_wait_up_to_their_bytes_and_count_until_they_are_sent() {
        let runtime = Runtime::new(Planner::new());
        let (sender, mut receiver) = pieces(Session::new(&runtime).unread_rows());
        let large = || Bytes::from(vec![0; 3 << 20]);
        sender.hold_rows(1000).unwrap();
        sender.try_send(large()).unwrap();
        assert!(matches!(sender.try_send(large()), Err(NotTaken::Full(piece)) if piece.len() == 3 << 20));
        assert_eq!(runtime.unread_bytes(), (3 << 20) + 1000);
        assert_eq!(next(&mut receiver), Some(3 << 20));
        assert_eq!(runtime.unread_bytes(), (3 << 20) + 1000, "it is being sent");
        drop(sender);
        assert_eq!(runtime.unread_bytes(), 3 << 20, "the rows went with their thread");
        assert_eq!(next(&mut receiver), None);
        assert_eq!(runtime.unread_bytes(), 0);
    }

    #[test]
    fn a_piece_that_is_larger_than_all_may_be_waits_alone() {
        let runtime = Runtime::new(Planner::new());
        let (sender, mut receiver) = pieces(Session::new(&runtime).unread_rows());
        sender.try_send(Bytes::from(vec![0; 5 << 20])).unwrap();
        assert!(matches!(sender.try_send(Bytes::from_static(b"x")), Err(NotTaken::Full(_))));
        assert_eq!(next(&mut receiver), Some(5 << 20));
        drop(receiver);
        assert!(matches!(sender.try_send(Bytes::from_static(b"x")), Err(NotTaken::Closed)));
    }
}
