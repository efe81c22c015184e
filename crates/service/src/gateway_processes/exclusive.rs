//! A gateway that gets orders from one session.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tidemill_engine::Cause;

use super::control::{Answer, Order, PATIENCE};
use super::gateway::{Gateway, Owed, State};
use crate::catalog_record::CatalogRecord;

/// How often one looks whether an answer is waited for any longer.
const LOOK: Duration = Duration::from_millis(50);

/// A gateway that gets orders from one session. Others wait.
pub(crate) struct Exclusive<'a> {
    gateway: &'a Gateway,
    owed: MutexGuard<'a, Owed>,
    server: Arc<UnixStream>,
    stage: Stage,
    /// Whether the process has ended meanwhile.
    has_ended: bool,
}

/// How far a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// It is being prepared.
    Ordered,
    /// It waits for the decision.
    Ready,
    /// It cannot be prepared.
    Failed,
}

impl Gateway {
    /// Applies what it does not have yet: the records behind a version, and others. One that is away gets all when it begins.
    pub fn apply(&self, records: impl FnOnce(u64) -> (Vec<CatalogRecord>, u64)) -> Result<(), Cause> {
        let Ok(mut exclusive) = self.exclusive() else { return Ok(()) };
        match exclusive.apply(records) {
            Err(_) if exclusive.has_ended => Ok(()),
            applied => applied,
        }
    }

    /// Takes it for orders of one session.
    ///
    /// # Errors
    /// If it is away.
    pub fn exclusive(&self) -> Result<Exclusive<'_>, Cause> {
        let owed = self.orders();
        match self.here() {
            Some((server, _)) => {
                Ok(Exclusive { gateway: self, owed, server, stage: Stage::None, has_ended: false })
            }
            None => Err(self.named(Cause::operation(format!("it is away: {}", self.problem())))),
        }
    }
}

impl Exclusive<'_> {
    /// What messages call it.
    pub fn name(&self) -> &str {
        self.gateway.name()
    }

    /// An error with the name of the gateway.
    pub fn named(&self, cause: Cause) -> Cause {
        self.gateway.named(cause)
    }

    /// Sends an order. Its answer is to be taken.
    ///
    /// # Errors
    /// If the process hangs or has ended. Then it begins again, with all definitions.
    pub fn send(&mut self, order: &Order) -> Result<(), Cause> {
        if let Order::Replace(_) = order {
            self.stage = Stage::Ordered;
        }
        order.send(&self.server).map_err(|error| self.lost(&error))
    }

    /// The answer to the last order; `None`: it is not waited for any longer.
    ///
    /// # Errors
    /// As for [`send`](Exclusive::send).
    pub fn answer(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<Option<Answer>, Cause> {
        let mut heard = Instant::now();
        loop {
            match Answer::receive_within(&self.server, LOOK) {
                Ok(Some(Answer::AtWork)) => heard = Instant::now(),
                Ok(Some(_)) if self.owed.0 > 0 => self.owed.0 -= 1,
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) if is_cancelled() => {
                    self.owed.0 += 1;
                    return Ok(None);
                }
                Ok(None) if heard.elapsed() > PATIENCE => {
                    let text = format!("it has shown no sign of work for {} s", PATIENCE.as_secs());
                    return Err(self.lost(&io::Error::new(io::ErrorKind::TimedOut, text)));
                }
                Ok(None) => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Waits until a replacement is prepared.
    ///
    /// # Errors
    /// Why it cannot be, or that it is not waited for any longer.
    pub fn ready(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<Option<String>, Cause> {
        match self.answer(is_cancelled)? {
            Some(Answer::Ready(folder)) => {
                self.stage = Stage::Ready;
                Ok(folder)
            }
            Some(Answer::Failed(cause)) => {
                self.stage = Stage::Failed;
                Err(self.named(cause))
            }
            Some(_) => Err(self.named(Cause::bug("it answers what it was not asked"))),
            None => {
                // Its answer is taken when it is decided.
                self.owed.0 -= 1;
                Err(Cause::operation("the statement was cancelled, and nothing has changed"))
            }
        }
    }

    /// Decides whether a replacement counts, and waits for what comes of it; `None`: it was not prepared, or the process begins
    /// again.
    pub fn decide(&mut self, counts: bool) -> Option<String> {
        let stage = std::mem::replace(&mut self.stage, Stage::None);
        if stage == Stage::None {
            return None;
        }
        self.send(if counts { &Order::Commit } else { &Order::Abort }).ok()?;
        let mut answer = || self.answer(&|| false).ok().flatten();
        let last = match stage {
            Stage::Ordered => match answer()? {
                Answer::Ready(_) => answer()?,
                failed => failed,
            },
            Stage::Ready => answer()?,
            Stage::None | Stage::Failed => return None,
        };
        match last {
            Answer::Said(text) => Some(text),
            _ => None,
        }
    }

    /// Applies what the gateway does not have yet: the records behind a version, and others.
    ///
    /// # Errors
    /// Why it cannot, or that it hangs. One that has ended gets everything when it begins again.
    pub fn apply(&mut self, records: impl FnOnce(u64) -> (Vec<CatalogRecord>, u64)) -> Result<(), Cause> {
        let Some((_, version)) = self.gateway.here() else { return Ok(()) };
        let (records, newest) = records(version);
        self.send(&Order::Apply(records))?;
        let answer = self.answer(&|| false)?;
        self.set_version(newest);
        match answer {
            Some(Answer::Done) => Ok(()),
            Some(Answer::Failed(cause)) => Err(self.named(cause)),
            _ => Err(self.named(Cause::bug("it answers what it was not asked"))),
        }
    }

    /// The gateway has this version of the catalogue.
    pub fn set_version(&self, newest: u64) {
        if let State::Here { version, .. } = &mut *self.gateway.state() {
            *version = newest;
        }
    }

    /// The process is of no use any more: it begins again, with all definitions.
    fn lost(&mut self, error: &io::Error) -> Cause {
        if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) {
            let cause = Cause::operation(format!("its process hangs: {error}; it is started again"));
            self.gateway.give_up(&self.server, cause.clone());
            return self.named(cause);
        }
        self.has_ended = true;
        let _ = self.server.shutdown(Shutdown::Both);
        self.named(Cause::operation("its process has ended, and is started again"))
    }
}
