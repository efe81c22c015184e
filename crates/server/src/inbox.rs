//! What a client has sent and nobody has taken yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
        let is_empty = |state: &mut State| state.requests.is_empty() && state.end.is_none();
        let waited = self.changed.wait_while(self.lock(), is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some((request, bytes)) = state.requests.pop_front() {
            state.bytes -= bytes;
            self.changed.notify_all();
            return Ok(Some(request));
        }
        match state.end.as_mut().and_then(Option::take) {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// Nobody takes anything any more.
    pub fn leave(&self) {
        self.lock().is_left = true;
        self.changed.notify_all();
    }
}
