//! The body of an answer whose rows come.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, TRAILER};
use tidemill_service::Cancellation;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

use super::pieces::PieceReceiver;
use super::worker::{AnswerHead, FinalPiece, LEFT_OUT, NOTICE};
use crate::http::answer::Answer;
use crate::sessions::connections::end_at_once;

/// What was said before an answer breaks off gets this time to reach the connection.
const FLUSH_TIME: Duration = Duration::from_millis(100);

/// Cancels a query when nobody waits for its rows any more.
pub(in crate::http) struct CancelWhenDropped {
    cancellation: Cancellation,
    timer: Option<JoinHandle<()>>,
}

impl CancelWhenDropped {
    pub fn new(cancellation: Cancellation) -> CancelWhenDropped {
        CancelWhenDropped { cancellation, timer: None }
    }

    /// What is not needed any more then.
    pub fn at_end(&mut self, timer: JoinHandle<()>) {
        self.timer = Some(timer);
    }
}

impl Drop for CancelWhenDropped {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        end_at_once(&self.cancellation);
    }
}

/// Pieces as the query's thread makes them, then its last words.
pub(super) struct RowsBody {
    pieces: PieceReceiver,
    final_piece: FinalPiece,
    /// Why the answer breaks off, and when.
    broken: Option<(io::Error, Pin<Box<Sleep>>)>,
    _cancel: CancelWhenDropped,
}

impl RowsBody {
    pub fn answer(
        head: AnswerHead,
        pieces: PieceReceiver,
        final_piece: FinalPiece,
        cancel: CancelWhenDropped,
    ) -> Answer {
        let body = RowsBody { pieces, final_piece, broken: None, _cancel: cancel };
        let mut answer = Response::new(body.boxed_unsync());
        answer.headers_mut().insert(CONTENT_TYPE, head.content);
        if let Some(notice) = head.notice {
            answer.headers_mut().insert(NOTICE, notice);
        }
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer.headers_mut().append(TRAILER, LEFT_OUT.into());
        answer.headers_mut().append(TRAILER, NOTICE.into());
        answer
    }
}

impl Body for RowsBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.broken.is_none() {
            match std::task::ready!(self.pieces.poll(context)) {
                // A connection that breaks drops what is not on its way yet.
                Some(Err(error)) => self.broken = Some((error, Box::pin(sleep(FLUSH_TIME)))),
                piece => {
                    let piece = piece.transpose()?.or_else(|| self.final_piece.take());
                    let frame = piece.map(Frame::data);
                    let frame = frame.or_else(|| self.final_piece.take_trailers().map(Frame::trailers));
                    return Poll::Ready(frame.map(Ok));
                }
            }
        }
        if let Some((_, flushed)) = &mut self.broken {
            std::task::ready!(flushed.as_mut().poll(context));
        }
        Poll::Ready(self.broken.take().map(|(error, _)| Err(error)))
    }
}
