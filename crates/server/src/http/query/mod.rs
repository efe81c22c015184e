//! Questions by HTTP: a statement in, its rows out, as they come.
//!
//! Each question has a thread of its own, which plans, waits for rows and encodes them. Between it and the client stands a
//! bounded queue. When the client goes, the body of the answer is dropped, and that cancels the query.

mod body;
mod encoding;
mod pieces;
mod question;
mod worker;

use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tidemill_service::{Role, Session};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use self::body::{CancelWhenDropped, RowsBody};
pub(super) use self::encoding::Framing;
use self::pieces::{PieceReceiver, pieces};
use self::question::Question;
use self::worker::{AnswerHead, FinalPiece, Worker};
use super::answer::{Answer, Refusal, starting};
use super::shared::HttpState;
use crate::report::{QUERY_CANCELED, TOO_MANY_CONNECTIONS};
use crate::sessions::connections::end_at_once;
use crate::sessions::identity::Identity;

/// Answers a question.
pub(super) async fn answer(request: Request<Incoming>, shared: &HttpState, identity: &Identity) -> Answer {
    match begin(request, shared, identity).await {
        Ok(Begun { head, pieces, final_piece, cancel }) => {
            RowsBody::answer(head, pieces, final_piece, cancel)
        }
        Err(refusal) => refusal.answer(),
    }
}

/// An answer that has begun.
pub(super) struct Begun {
    /// What is said before it.
    pub head: AnswerHead,
    pub pieces: PieceReceiver,
    pub final_piece: FinalPiece,
    /// The question is cancelled when it is dropped.
    pub cancel: CancelWhenDropped,
}

/// Begins to answer a question.
pub(super) async fn begin(
    request: Request<Incoming>,
    shared: &HttpState,
    identity: &Identity,
) -> Result<Begun, Refusal> {
    let question = Question::read(request, &shared.options).await?;
    let Some(runtime) = shared.runtime.get() else {
        return Err(starting());
    };
    let Ok(permit) = Arc::clone(&shared.questions).try_acquire_owned() else {
        let message = format!("{} queries are already running over HTTP", shared.options.questions_max);
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, message)
            .with_hint("try again later, or close a subscription"));
    };
    let role = identity.role(runtime);
    let role = role.map_err(|report| Refusal { status: StatusCode::UNAUTHORIZED, report })?;
    let mut session = Session::new(runtime);
    // The server reads files with its own rights.
    session.set_opens_files(role == Role::Owner);
    session.set_opens_sources(role == Role::Owner);
    // Each sink runs by itself.
    session.set_checks_deadlines(true);
    let cancellation = session.cancellation();
    let (pieces, waiting) = pieces(session.unread_rows());
    let (begun, beginning) = oneshot::channel();
    let final_piece = FinalPiece::default();
    let time_max = question.time_max;
    let worker = Worker {
        session,
        role,
        question,
        begun: Some(begun),
        pieces,
        final_piece: final_piece.clone(),
        started: Instant::now(),
        unread_max: shared.options.unread_max,
        notices: Vec::new(),
    };
    // From here on, whoever goes cancels.
    let mut cancel = CancelWhenDropped::new(cancellation.clone());
    worker.start(permit)?;
    if let Some(time_max) = time_max {
        cancel.at_end(tokio::spawn(async move {
            sleep(time_max).await;
            end_at_once(&cancellation);
        }));
    }
    let gone = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "XX000", "the query's thread has ended");
    let begun = match time_max {
        // What is computed before its first row does not notice that it is cancelled.
        Some(time_max) => match timeout(time_max * 2, beginning).await {
            Ok(begun) => begun.map_err(|_| gone())?,
            Err(_) => {
                let message = format!("the query took longer than {} s", time_max.as_secs());
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, QUERY_CANCELED, message));
            }
        },
        None => beginning.await.map_err(|_| gone())?,
    };
    Ok(Begun { head: begun?, pieces: waiting, final_piece, cancel })
}
