//! What a client has sent and nobody has taken yet.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::postgres::wire::{Message, Request, RequestError};

/// Requests in the order in which they came. Beyond a number of bytes, the client is not read on until most of them are taken. `S` is what is
/// kept of the session while it waits for its next request without a thread: it is parked here.
pub(crate) struct Inbox<S> {
    bytes_max: usize,
    /// Has the client read on.
    read_on: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State<S>>,
    changed: Condvar,
}

struct State<S> {
    requests: VecDeque<Message>,
    bytes: usize,
    /// Nothing more comes; with the reason if it is an error.
    end: Option<Option<RequestError>>,
    /// Whether the client is not read because there was no room.
    is_held_up: bool,
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
    pub fn new(bytes_max: usize, read_on: Box<dyn Fn() + Send + Sync>) -> Self {
        let (requests, bytes, is_held_up, is_left) = (VecDeque::new(), 0, false, false);
        let state = State { requests, bytes, end: None, is_held_up, is_left, parked: None };
        Inbox { bytes_max, read_on, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock()
    }

    /// Whether there is room for more. If not, the client is read on when there is.
    pub fn has_room(&self) -> bool {
        let mut state = self.lock();
        state.is_held_up = state.bytes > self.bytes_max && !state.is_left;
        !state.is_held_up
    }

    /// Adds a request.
    pub fn push(&self, message: Message) {
        let mut state = self.lock();
        if state.is_left {
            return;
        }
        state.bytes += message.bytes();
        state.requests.push_back(message);
        self.changed.notify_all();
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
            match patience {
                None => self.changed.wait_while(&mut state, is_empty),
                Some(patience) => drop(self.changed.wait_while_for(&mut state, is_empty, patience)),
            }
        }
        if let Some(message) = state.requests.pop_front() {
            state.bytes -= message.bytes();
            let has_room = state.is_held_up && state.bytes <= self.bytes_max / 2;
            state.is_held_up &= !has_room;
            drop(state);
            if has_room {
                (self.read_on)();
            }
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
        if state.is_empty() {
            state.parked = Some(idle);
            None
        } else {
            Some(idle)
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
        let mut state = self.lock();
        state.is_left = true;
        state.requests = VecDeque::new();
        state.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::postgres::wire::Framing;

    fn message(kind: u8, bytes: usize) -> Message {
        let announced = (bytes as u32 + 4).to_be_bytes();
        let message = [&[kind], &announced[..], &vec![0; bytes]].concat();
        Framing::new(bytes).next(&mut &*message).unwrap().unwrap()
    }

    /// The message of a client that asks whether everything is done.
    fn sync() -> Message {
        message(b'S', 0)
    }

    /// So many bytes of a copy.
    fn data(bytes: usize) -> Message {
        message(b'd', bytes)
    }

    /// Stands for a session.
    const SESSION: u32 = 7;

    /// An inbox, and how often the client was read on.
    fn inbox(bytes_max: usize) -> (Inbox<u32>, Arc<AtomicUsize>) {
        let read_on = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&read_on);
        let count = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        (Inbox::new(bytes_max, Box::new(count)), read_on)
    }

    #[test]
    fn a_session_is_parked_only_while_nothing_is_there() {
        let inbox = inbox(1000).0;
        assert!(inbox.park(SESSION).is_none());
        assert!(inbox.wake().is_none(), "nothing has come");
        inbox.push(sync());
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
        let inbox = inbox(1000).0;
        assert!(inbox.park(SESSION).is_none());
        inbox.end(None);
        assert!(inbox.rest().is_none(), "it hears of the end first");
        let woken = inbox.wake().expect("the connection has ended");
        assert!(matches!(inbox.next(true, None), Ok(Next::End)));
        assert!(inbox.park(woken).is_some(), "nothing will wake it");
    }

    #[test]
    fn a_client_is_read_on_when_most_of_what_it_sent_is_taken() {
        let (inbox, read_on) = inbox(10_000);
        let mut sent = 0;
        while inbox.has_room() {
            inbox.push(data(200));
            sent += 1;
        }
        assert!(sent > 1);
        let mut taken = 0;
        while read_on.load(Ordering::SeqCst) == 0 {
            assert!(matches!(inbox.take(), Ok(Some(Request::CopyData(_)))));
            taken += 1;
        }
        assert!(taken < sent && taken * 2 >= sent, "{taken} of {sent}");
        assert!(inbox.has_room());
        (taken..sent).for_each(|_| drop(inbox.take()));
        assert_eq!(read_on.load(Ordering::SeqCst), 1, "once");
    }

    #[test]
    fn a_message_that_is_longer_than_the_room_is_taken_in() {
        let (inbox, read_on) = inbox(10);
        assert!(inbox.park(SESSION).is_none());
        inbox.push(data(100));
        assert!(!inbox.has_room());
        assert!(inbox.wake().is_some());
        assert!(matches!(inbox.take(), Ok(Some(Request::CopyData(_)))));
        assert_eq!(read_on.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_nobody_takes_is_not_kept() {
        let (inbox, _) = inbox(10);
        inbox.push(data(100));
        inbox.leave();
        inbox.push(data(100));
        assert!(!inbox.has_next() && inbox.has_room());
    }

    #[test]
    fn a_session_in_the_middle_of_something_waits_as_long_as_its_patience() {
        let inbox = inbox(1000).0;
        assert!(matches!(inbox.next(false, Some(Duration::from_millis(1))), Ok(Next::Nothing)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.next(false, None));
            inbox.push(sync());
            assert!(matches!(waiting.join().unwrap(), Ok(Next::Request(Request::Sync))));
        });
    }
}
