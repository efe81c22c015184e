//! What a client has sent and nobody has taken yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wire::{Message, Request, RequestError};

/// Requests in the order in which they came, up to a number of bytes: the reader then waits. `S` is what is kept of the session while it waits for
/// its next request without a thread: it is parked here.
pub(crate) struct Inbox<S> {
    bytes_max: usize,
    state: Mutex<State<S>>,
    changed: Condvar,
}

struct State<S> {
    requests: VecDeque<Message>,
    bytes: usize,
    /// Nothing more comes; with the reason if it is an error.
    end: Option<Option<RequestError>>,
    /// Nobody takes anything any more.
    is_left: bool,
    /// The session waits for its next request, without a thread.
    parked: Option<S>,
}

/// What a session gets that waits for its next request.
pub(crate) enum Next {
    Request(Request),
    /// Nothing more comes.
    End,
    /// Nothing is there, and the session can wait without a thread.
    Rest,
    /// Nothing has come for as long as it wanted to wait.
    Nothing,
}

impl<S> State<S> {
    /// Whether nothing is there that the session can continue with.
    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.end.is_none()
    }
}

impl<S> Inbox<S> {
    pub fn new(bytes_max: usize) -> Self {
        let (requests, bytes) = (VecDeque::new(), 0);
        let state = State { requests, bytes, end: None, is_left: false, parked: None };
        Inbox { bytes_max, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, when there is room for it; whether anybody takes it. There is none before the session continues, if it is parked: `wake`
    /// sees to that.
    pub fn push(&self, message: Message, wake: impl FnOnce(S)) -> bool {
        let is_full = |state: &mut State<S>| state.bytes > self.bytes_max && !state.is_left;
        let mut state = self.lock();
        if is_full(&mut state)
            && let Some(parked) = state.parked.take()
        {
            drop(state);
            wake(parked);
            state = self.lock();
        }
        let mut state = self.changed.wait_while(state, is_full).unwrap_or_else(PoisonError::into_inner);
        state.bytes += message.bytes();
        state.requests.push_back(message);
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

    /// As `take`, for a session that does not wait on its thread if it `may_rest`, and otherwise has something else to do after its `patience`.
    pub fn next(&self, may_rest: bool, patience: Option<Duration>) -> Result<Next, RequestError> {
        let is_empty = |state: &mut State<S>| state.is_empty();
        let mut state = self.lock();
        if !may_rest {
            state = match patience {
                None => self.changed.wait_while(state, is_empty).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.changed.wait_timeout_while(state, patience, is_empty);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if let Some(message) = state.requests.pop_front() {
            state.bytes -= message.bytes();
            self.changed.notify_all();
            drop(state);
            return Ok(Next::Request(message.read()?));
        }
        match state.end.as_mut().and_then(Option::take) {
            Some(error) => Err(error),
            None if state.end.is_some() => Ok(Next::End),
            None => Ok(if may_rest { Next::Rest } else { Next::Nothing }),
        }
    }

    /// Whether something is there that the session can continue with.
    pub fn has_next(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The session waits here for its next request. It comes back if one is there already.
    pub fn park(&self, idle: S) -> Option<S> {
        let mut state = self.lock();
        match state.is_empty() {
            true => {
                state.parked = Some(idle);
                None
            }
            false => Some(idle),
        }
    }

    /// The session that is parked here, if something is there that it can continue with.
    pub fn wake(&self) -> Option<S> {
        let mut state = self.lock();
        if state.is_empty() { None } else { state.parked.take() }
    }

    /// Nothing has come for some time. The session that is parked here, if it waits for its next request.
    pub fn rest(&self) -> Option<S> {
        let mut state = self.lock();
        if state.is_empty() { state.parked.take() } else { None }
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

    use super::*;
    use crate::wire::read_message;

    /// The message of a client that asks whether everything is done, as long as this.
    fn sync(bytes: usize) -> Message {
        let announced = (bytes as u32 + 4).to_be_bytes();
        let message = [b"S", &announced[..], &vec![0; bytes]].concat();
        read_message(&mut &*message, bytes).unwrap().unwrap()
    }

    /// Stands for a session.
    const SESSION: u32 = 7;

    fn nobody(_: u32) {
        panic!("nobody is parked");
    }

    #[test]
    fn a_session_is_parked_only_while_nothing_is_there() {
        let inbox = Inbox::new(1000);
        assert!(inbox.park(SESSION).is_none());
        assert!(inbox.wake().is_none(), "nothing has come");
        assert!(inbox.push(sync(0), nobody));
        assert!(inbox.rest().is_none(), "a request waits");
        let woken = inbox.wake().expect("a request has come");
        assert!(inbox.wake().is_none(), "it goes on already");
        let woken = inbox.park(woken).expect("a request waits");
        assert!(matches!(inbox.next(true, None), Ok(Next::Request(Request::Sync))));
        assert!(matches!(inbox.next(true, None), Ok(Next::Rest)));
        assert!(inbox.park(woken).is_none());
        assert!(inbox.rest().is_some(), "nothing comes");
    }

    #[test]
    fn the_end_wakes_a_session() {
        let inbox = Inbox::new(1000);
        assert!(inbox.park(SESSION).is_none());
        inbox.end(None);
        assert!(inbox.rest().is_none(), "it hears of the end first");
        let woken = inbox.wake().expect("the connection has ended");
        assert!(matches!(inbox.next(true, None), Ok(Next::End)));
        assert!(inbox.park(woken).is_some(), "nothing will wake it");
    }

    #[test]
    fn a_session_that_is_parked_goes_on_before_its_reader_waits_for_room() {
        let inbox = Inbox::new(10);
        assert!(inbox.park(SESSION).is_none());
        // A request has come that is longer than all that may wait.
        assert!(inbox.push(sync(100), nobody));
        thread::scope(|scope| {
            let takes = |_| {
                scope.spawn(|| while !matches!(inbox.take(), Ok(None)) {});
            };
            assert!(inbox.push(sync(100), takes), "its room is made");
            inbox.end(None);
        });
    }

    #[test]
    fn a_session_in_the_middle_of_something_waits_as_long_as_its_patience() {
        let inbox = Inbox::<u32>::new(1000);
        assert!(matches!(inbox.next(false, Some(Duration::from_millis(1))), Ok(Next::Nothing)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.next(false, None));
            assert!(inbox.push(sync(0), nobody));
            assert!(matches!(waiting.join().unwrap(), Ok(Next::Request(Request::Sync))));
        });
    }
}
