//! Follows a view in a store of another process, which may end and come back meanwhile.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::Cause;

use super::endpoint::{ANSWER_BYTES_MAX, Endpoint, LOOK, PATIENCE, Patient, received_rows};
use super::message::{FollowPosition, Request, decode_changes, receive_frame, send_frame};
use super::server::Changes;
use crate::version::Pause;

/// Follows a view of another process. Between two answers it can be left for any time; the other process keeps nothing for it.
///
/// If the process ends, a new connection continues behind the last cycle that was given completely, so no change is missed or
/// given twice. The rows of a cycle that was given in part are given again from its beginning.
pub struct RemoteFollower {
    endpoint: Arc<Endpoint>,
    view: String,
    /// Where a new connection continues; `None`: at the rows of the view, of which none were given.
    place: Option<FollowPosition>,
    link: Option<Link>,
}

struct Link {
    stream: UnixStream,
    /// When the changes were asked for that are still to come.
    asked: Option<Instant>,
}

/// Why there are no changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChanges {
    /// The process is away. It may come back: the next call tries it.
    Away(Cause),
    /// There will be none.
    Ended(Cause),
}

impl RemoteFollower {
    /// Follows a view of this name, from the rows on that it has at the first look.
    pub fn new(endpoint: &Arc<Endpoint>, view: &str) -> RemoteFollower {
        RemoteFollower { endpoint: Arc::clone(endpoint), view: view.to_owned(), place: None, link: None }
    }

    /// Up to where everything was given.
    pub fn place(&self) -> Option<FollowPosition> {
        self.place
    }

    /// Asks for changes, unless they were asked for already. Several processes are asked beside each other if all are asked before
    /// an answer is taken.
    ///
    /// # Errors
    /// If the process is away.
    pub fn ask(&mut self) -> Result<(), NoChanges> {
        let asked = self.try_ask();
        asked.map_err(|cause| self.is_away(cause))
    }

    fn try_ask(&mut self) -> Result<(), Cause> {
        let link = match &mut self.link {
            Some(link) => link,
            link => {
                let mut stream = self.endpoint.connect()?;
                stream.set_write_timeout(Some(PATIENCE))?;
                let follow = Request::Follow { view: self.view.clone(), after: self.place };
                send_frame(&mut stream, &follow.encode()?)?;
                link.insert(Link { stream, asked: None })
            }
        };
        if link.asked.is_none() {
            send_frame(&mut link.stream, &Request::Changes.encode()?)?;
            link.asked = Some(Instant::now());
        }
        Ok(())
    }

    /// The changes that were asked for, if they come within this time; `None`: they are still to come. It calls `pause` while it
    /// takes them.
    ///
    /// # Errors
    /// If the process is away or says nothing for 20 s, why it gives no more changes, and those of `pause`.
    pub fn answer(&mut self, time: Duration, pause: &mut Pause<'_>) -> Result<Option<Changes>, NoChanges> {
        let Some(Link { stream, asked: Some(since) }) = &self.link else { return Ok(None) };
        match begun(stream, time) {
            Ok(None) if since.elapsed() > PATIENCE => {
                let silent = format!("it has said nothing for {} s", PATIENCE.as_secs());
                Err(self.is_away(self.endpoint.away(&silent)))
            }
            Ok(None) => Ok(None),
            Ok(Some(first)) => self.rest(first, pause).map(Some),
            Err(error) => Err(self.is_away(self.endpoint.away(&reason(&error)))),
        }
    }

    fn rest(&mut self, first: u8, pause: &mut Pause<'_>) -> Result<Changes, NoChanges> {
        let Some(link) = &mut self.link else { return Err(NoChanges::Ended(Cause::bug("nobody was asked"))) };
        link.asked = None;
        let mut patient = Patient::new(&link.stream, pause);
        let received = received(first, &mut patient);
        match (received, patient.refused) {
            (_, Some(cause)) | (Ok(Err(cause)), None) => {
                self.link = None;
                Err(NoChanges::Ended(cause))
            }
            (Err(error), None) => Err(self.is_away(self.endpoint.away(&reason(&error)))),
            (Ok(Ok(changes)), None) => {
                // Whoever was given nothing yet begins with the rows that there are then.
                if changes.rows.is_some() || self.place.is_some() {
                    self.place = changes.place.or(self.place);
                }
                Ok(changes)
            }
        }
    }

    /// The connection is of no use any more.
    fn is_away(&mut self, cause: Cause) -> NoChanges {
        self.link = None;
        NoChanges::Away(cause)
    }
}

/// The first byte of an answer that begins within this time.
fn begun(mut stream: &UnixStream, time: Duration) -> io::Result<Option<u8>> {
    let mut first = [0];
    stream.set_read_timeout(Some(time.max(Duration::from_micros(1))))?;
    let read = stream.read_exact(&mut first);
    stream.set_read_timeout(Some(LOOK))?;
    match read {
        Ok(()) => Ok(Some(first[0])),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn received(first: u8, stream: &mut Patient<'_, '_>) -> io::Result<Result<Changes, Cause>> {
    let head = receive_frame(&mut [first].as_slice().chain(&mut *stream), ANSWER_BYTES_MAX)?;
    let head = decode_changes(&head).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let head = match head {
        Ok(head) => head,
        Err(cause) => return Ok(Err(cause)),
    };
    let rows = if head.has_rows { received_rows(stream)?.into_iter().next() } else { None };
    Ok(Ok(Changes { rows, place: head.place, is_over: head.is_over }))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it has ended".to_owned(),
        _ => error.to_string(),
    }
}
