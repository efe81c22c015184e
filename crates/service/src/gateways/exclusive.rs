//! A gateway that gets orders from one session.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use tidemill_engine::Cause;

use super::control::{Answer, Order, PATIENCE};
use super::gateway::{Gateway, Owed, State};
use crate::backoff::Backoff;
use crate::catalog::record::CatalogRecord;

/// How often one looks whether an answer is waited for any longer.
const LOOK: Duration = Duration::from_millis(50);

/// A gateway that gets orders from one session. Others wait.
pub(crate) struct Exclusive<'a> {
    gateway: &'a Gateway,
    owed: MutexGuard<'a, Owed>,
    server: Arc<UnixStream>,
    stage: Stage,
    /// How many answers are still to come to what this session has sent. Those that it does not take are owed.
    pending: u32,
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
    ///
    /// # Errors
    /// As for [`exclusive`](Gateway::exclusive) and [`Exclusive::apply`].
    pub fn apply(
        &self,
        is_cancelled: &dyn Fn() -> bool,
        records: impl FnOnce(u64) -> (Vec<CatalogRecord>, u64),
    ) -> Result<(), Cause> {
        let owed = self.free_for_orders(is_cancelled)?;
        let Some(mut exclusive) = self.taken(owed) else { return Ok(()) };
        match exclusive.apply(records) {
            Err(_) if exclusive.has_ended => Ok(()),
            applied => applied,
        }
    }

    /// Takes it for orders of one session.
    ///
    /// # Errors
    /// If it is away, or the statement is cancelled while the gateway begins or carries out orders of another session.
    pub fn exclusive(&self, is_cancelled: &dyn Fn() -> bool) -> Result<Exclusive<'_>, Cause> {
        let owed = self.free_for_orders(is_cancelled)?;
        self.taken(owed)
            .ok_or_else(|| self.named(Cause::operation(format!("it is away: {}", self.problem()))))
    }

    /// Waits until it can take an order.
    fn free_for_orders(&self, is_cancelled: &dyn Fn() -> bool) -> Result<MutexGuard<'_, Owed>, Cause> {
        let backoff = Backoff::up_to(LOOK);
        loop {
            match self.try_orders() {
                Some(owed) => return Ok(owed),
                None if is_cancelled() => {
                    return Err(self.named(Cause::operation(
                        "it begins or carries out another order, and the statement was cancelled before it got its own",
                    )));
                }
                None => thread::sleep(backoff.wait()),
            }
        }
    }

    /// It, for a session; `None`: it is away.
    fn taken<'a>(&'a self, owed: MutexGuard<'a, Owed>) -> Option<Exclusive<'a>> {
        let (server, _) = self.here()?;
        Some(Exclusive { gateway: self, owed, server, stage: Stage::None, pending: 0, has_ended: false })
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
        order.send(&self.server).map_err(|error| self.lost(&error))?;
        // A replacement that is not known to be prepared may have failed already. Then its decision has no answer.
        let is_answered = !matches!(order, Order::Commit | Order::Abort) || self.stage == Stage::Ready;
        self.pending += u32::from(is_answered);
        Ok(())
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
                Ok(Some(answer)) => {
                    self.pending = self.pending.saturating_sub(1);
                    return Ok(Some(answer));
                }
                Ok(None) if is_cancelled() => return Ok(None),
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
            None => Err(Cause::operation("the statement was cancelled, and nothing has changed")),
        }
    }

    /// Decides whether a replacement counts. What comes of it is its [`outcome`](Exclusive::outcome).
    pub fn decide(&mut self, counts: bool) {
        let decision = if counts { Order::Commit } else { Order::Abort };
        if self.stage != Stage::None && self.send(&decision).is_err() {
            self.stage = Stage::None;
        }
    }

    /// Waits for what comes of a decision; `None`: the replacement was not prepared, or the process begins again.
    pub fn outcome(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.stage, Stage::None) {
            Stage::None | Stage::Failed => return None,
            Stage::Ordered => match self.answer(&|| false).ok()?? {
                Answer::Ready(_) => self.pending += 1,
                _ => return None,
            },
            Stage::Ready => {}
        }
        match self.answer(&|| false).ok()?? {
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

impl Drop for Exclusive<'_> {
    /// Whoever comes next skips the answers that are still to come.
    fn drop(&mut self) {
        self.owed.0 += self.pending;
    }
}
