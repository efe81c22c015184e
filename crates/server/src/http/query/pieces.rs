//! The queue between the thread of a question and the connection to its client.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::Bytes;
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
pub(super) struct PieceReceiver {
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
    fn change<T>(&self, change: impl FnOnce(&mut HeldBytes) -> T) -> (T, Result<(), Cause>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut held);
        let bytes = held.rows + held.pieces;
        (changed, held.unread.set(bytes))
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
        self.held.change(|held| held.rows = bytes).1
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
        if !self.held.change(has_room).0 {
            return Err(if self.is_closed() { NotTaken::Closed } else { NotTaken::Full(piece) });
        }
        self.pieces.try_send(Ok(piece)).map_err(|error| {
            let _ = self.held.change(|held| held.pieces -= bytes);
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
            let _ = self.held.change(|held| held.pieces += bytes);
            let _ = self.pieces.blocking_send(Ok(piece.into()));
        }
        let _ = self.pieces.blocking_send(Err(error));
    }
}

impl PieceReceiver {
    /// The next piece; `None` at the end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        // Whoever asks for another one has sent the last.
        let sent = std::mem::take(&mut self.being_sent);
        let _ = self.held.change(|held| held.pieces -= sent);
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        self.being_sent =
            piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, |piece| piece.len() as u64));
        Poll::Ready(piece)
    }
}
