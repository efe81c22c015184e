//! The open connections, and what cancels the query of each.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_service::Cancellation;

use crate::sessions::activity::{Activity, Ending};
use crate::sessions::client_stream::ClientStream;

/// The open connections.
pub(crate) struct Connections {
    sessions_max: usize,
    /// When the server began.
    began: SystemTime,
    state: Mutex<State>,
    /// A connection has become a session or is closed, or the server ends.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    last_process: i32,
    open: BTreeMap<i32, Open>,
}

struct Open {
    secret: i32,
    /// Shared with the thread that serves it: a copy would be one more open file.
    stream: Arc<ClientStream>,
    /// When it has begun.
    session: Option<OpenSession>,
    since: Instant,
    /// Whether it was closed to make room for another.
    is_closed: bool,
}

/// A client whose session has not begun this long after it has connected makes room for another.
const BEGINNING_MIN: Duration = Duration::from_millis(500);
/// How often it is checked whether a connection has been beginning for that long.
const LOOK: Duration = Duration::from_millis(50);

struct OpenSession {
    cancellation: Cancellation,
    activity: Activity,
    /// Whether another session has ended it.
    is_ended: bool,
}

/// What identifies a connection: a client that knows both numbers may cancel its query.
pub(crate) struct ConnectionKey {
    pub process: i32,
    pub secret: i32,
}

impl Open {
    /// Whether its session is still to begin.
    fn is_beginning(&self) -> bool {
        self.session.is_none() && !self.is_closed
    }
}

impl State {
    /// Closes the connection that has been beginning for the longest, if that is long enough; whether there is one.
    fn close_slowest(&mut self) -> bool {
        let beginning = self.open.values_mut().filter(|open| open.is_beginning());
        let Some(slowest) = beginning.min_by_key(|open| open.since) else { return false };
        if slowest.since.elapsed() < BEGINNING_MIN {
            return false;
        }
        slowest.is_closed = true;
        let _ = slowest.stream.socket().shutdown(Shutdown::Both);
        true
    }
}

impl Connections {
    pub fn new(sessions_max: usize) -> Connections {
        Connections {
            sessions_max,
            began: SystemTime::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Returns when the server began.
    pub fn began(&self) -> SystemTime {
        self.began
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until fewer than this number of connections are not sessions yet, or the server ends; whether that came in time.
    /// While there are so many, the one that has been beginning for the longest makes room.
    pub fn wait_for_beginning(&self, beginning_max: usize, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let beginning = state.open.values().filter(|open| open.is_beginning()).count();
            if beginning < beginning_max || state.is_stopping || state.close_slowest() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.changed.wait_for(&mut state, left.min(LOOK));
        }
    }

    pub fn sessions(&self) -> usize {
        self.lock().open.values().filter(|open| open.session.is_some()).count()
    }

    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    pub fn add(&self, stream: Arc<ClientStream>) -> ConnectionKey {
        let mut state = self.lock();
        let process = loop {
            state.last_process = state.last_process.checked_add(1).unwrap_or(1);
            if !state.open.contains_key(&state.last_process) {
                break state.last_process;
            }
        };
        // The hash of nothing under keys that the system has drawn.
        let secret = RandomState::new().build_hasher().finish() as i32;
        let open = Open { secret, stream, session: None, since: Instant::now(), is_closed: false };
        state.open.insert(process, open);
        ConnectionKey { process, secret }
    }

    /// Begins the session of a connection; whether there is room for it.
    pub fn begin(&self, cancellation: Cancellation, activity: Activity) -> bool {
        let mut state = self.lock();
        let sessions = state.open.values().filter(|open| open.session.is_some()).count();
        if sessions >= self.sessions_max || state.is_stopping {
            return false;
        }
        if let Some(open) = state.open.get_mut(&activity.process) {
            open.session = Some(OpenSession { cancellation, activity, is_ended: false });
        }
        self.changed.notify_all();
        true
    }

    /// What the sessions are doing, in the order of their numbers.
    pub fn activities(&self) -> Vec<Activity> {
        let state = self.lock();
        let sessions = state.open.values().filter_map(|open| open.session.as_ref());
        sessions.map(|session| session.activity.clone()).collect()
    }

    /// Changes what is known of what a session is doing.
    pub fn note(&self, process: i32, change: impl FnOnce(&mut Activity)) {
        let mut state = self.lock();
        if let Some(session) = state.open.get_mut(&process).and_then(|open| open.session.as_mut()) {
            change(&mut session.activity);
        }
    }

    /// Ends a session, or what it waits for.
    pub fn end(&self, process: i32, ending: Ending) {
        let mut state = self.lock();
        let Some(Open { stream, session: Some(session), .. }) = state.open.get_mut(&process) else { return };
        if ending == Ending::Session {
            session.is_ended = true;
            let _ = stream.socket().shutdown(Shutdown::Read);
        }
        end_at_once(&session.cancellation);
    }

    /// Whether another session has ended this one.
    pub fn is_ended(&self, process: i32) -> bool {
        let state = self.lock();
        state
            .open
            .get(&process)
            .and_then(|open| open.session.as_ref())
            .is_some_and(|session| session.is_ended)
    }

    pub fn remove(&self, process: i32) {
        self.lock().open.remove(&process);
        self.changed.notify_all();
    }

    /// Cancels what a connection waits for, if the secret is right.
    pub fn cancel(&self, process: i32, secret: i32) {
        let state = self.lock();
        let open = state.open.get(&process).filter(|open| open.secret == secret);
        if let Some(session) = open.and_then(|open| open.session.as_ref()) {
            end_at_once(&session.cancellation);
        }
    }

    /// From now on no session begins, and existing ones end when they have answered.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        for open in state.open.values() {
            open.session.iter().for_each(|session| end_at_once(&session.cancellation));
            // Nothing more comes in; what is being answered goes out.
            let _ = open.stream.socket().shutdown(Shutdown::Read);
        }
        self.changed.notify_all();
    }

    /// Waits until all connections are closed. After a time they are closed from here.
    pub fn wait_until_closed(&self, time: Duration) {
        let are_open = |state: &mut State| !state.open.is_empty();
        let mut state = self.lock();
        self.changed.wait_while_for(&mut state, are_open, time);
        state.open.values().for_each(|open| drop(open.stream.socket().shutdown(Shutdown::Both)));
        self.changed.wait_while(&mut state, are_open);
    }
}

/// Ends what a session waits for without its remaining rows: the first request lets a query answer what it has taken in.
pub(crate) fn end_at_once(cancellation: &Cancellation) {
    cancellation.request();
    cancellation.request();
}
