//! What a client has sent and nobody has taken yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wire::{Request, RequestError};

/// Requests in the order in which they came, up to a number of bytes: the reader then waits.
pub(crate) struct Inbox {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<(Request, usize)>,
    bytes: usize,
    /// Nothing more comes; with the reason if it is an error.
    end: Option<Option<RequestError>>,
    /// Nobody takes anything any more.
    is_left: bool,
    /// Whether the session waits for its next request, and could do so without threads.
    may_rest: bool,
    /// Nothing comes for some time, and the session gives its threads back.
    rests: bool,
}

/// What a session gets that waits for its next request.
pub(crate) enum Next {
    Request(Request),
    /// Nothing more comes.
    End,
    /// Nothing comes for some time.
    Rest,
    /// Nothing has come for as long as it wanted to wait.
    Nothing,
}

impl Inbox {
    pub fn new(bytes_max: usize) -> Inbox {
        Inbox { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, when there is room for it; whether anybody takes it.
    pub fn push(&self, request: Request, bytes: usize) -> bool {
        let is_full = |state: &mut State| state.bytes > self.bytes_max && !state.is_left;
        let waited = self.changed.wait_while(self.lock(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        // A request without a text takes memory too.
        let bytes = bytes + 64;
        state.bytes += bytes;
        state.requests.push_back((request, bytes));
        self.changed.notify_all();
        !state.is_left
    }

    /// Nothing more comes.
    pub fn end(&self, error: Option<RequestError>) {
        self.lock().end = Some(error);
        self.changed.notify_all();
    }

    /// Whether the client has gone, or has sent something that is not a message.
    pub fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// The next request; `None` when nothing more comes.
    pub fn take(&self) -> Result<Option<Request>, RequestError> {
        match self.next(false, None)? {
            Next::Request(request) => Ok(Some(request)),
            Next::End | Next::Rest | Next::Nothing => Ok(None),
        }
    }

    /// As `take`, for a session that gives its threads back if nothing comes for some time, if it `may_rest`, and that has something else to
    /// do after its `patience`.
    pub fn next(&self, may_rest: bool, patience: Option<Duration>) -> Result<Next, RequestError> {
        let mut state = self.lock();
        state.may_rest = may_rest;
        let is_empty = |state: &mut State| state.requests.is_empty() && state.end.is_none() && !state.rests;
        let mut state = match patience {
            None => self.changed.wait_while(state, is_empty).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(state, patience, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.may_rest = false;
        if let Some((request, bytes)) = state.requests.pop_front() {
            state.bytes -= bytes;
            self.changed.notify_all();
            return Ok(Next::Request(request));
        }
        match state.end.as_mut().and_then(Option::take) {
            Some(error) => Err(error),
            None if state.rests => Ok(Next::Rest),
            None => Ok(if is_empty(&mut state) { Next::Nothing } else { Next::End }),
        }
    }

    /// Nothing has come for some time. Whether the session gives its threads back; then nothing may be added any more.
    pub fn rest(&self) -> bool {
        let mut state = self.lock();
        state.rests |= state.may_rest && state.requests.is_empty() && state.end.is_none();
        self.changed.notify_all();
        state.rests
    }

    /// Whether the session gives its threads back.
    pub fn rests(&self) -> bool {
        self.lock().rests
    }

    /// Nobody takes anything any more.
    pub fn leave(&self) {
        self.lock().is_left = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_session_rests_only_while_it_waits_for_its_next_request() {
        let inbox = Inbox::new(1000);
        assert!(!inbox.rest(), "it does something");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.next(true, None));
            while !inbox.rest() {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(matches!(waiting.join().unwrap(), Ok(Next::Rest)));
        });
        let inbox = Inbox::new(1000);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.next(false, None));
            thread::sleep(Duration::from_millis(20));
            assert!(!inbox.rest(), "it may not");
            assert!(inbox.push(Request::Sync, 0));
            assert!(matches!(waiting.join().unwrap(), Ok(Next::Request(Request::Sync))));
        });
        assert!(inbox.push(Request::Sync, 0));
        assert!(!inbox.rest(), "a request waits");
    }
}
