//! A gateway as its server sees it: a process that is started again whenever it ends.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_engine::Cause;
use tidemill_store::remote::Endpoint;

use super::SOCKET;
use super::control::{Answer, Order, PATIENCE};
use super::tables::StatusTables;
use crate::catalog::record::CatalogRecord;

/// How often the end of a process is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a process may take to end when its connection has ended.
const END_TIME: Duration = Duration::from_secs(5);
/// The most answers that a process may owe before it is not asked any more.
const OWED_MAX: u32 = 8;
/// How long the server waits before it starts a process again: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A process that has run for so long was not ended by what it was started with.
const LONG_RUN: Duration = Duration::from_secs(10);

/// What a gateway begins with, and the version of the catalogue that it has then.
pub(crate) type Beginning = dyn Fn() -> Option<(Vec<CatalogRecord>, u64)> + Send;

/// A gateway.
pub(crate) struct Gateway {
    name: String,
    folder: PathBuf,
    endpoint: Arc<Endpoint>,
    /// Whether its process is to be started again.
    is_wanted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by who gives an order until it is answered. `state` is held for no longer than it takes to read or change it.
    orders: Mutex<Owed>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

/// How many answers are still to come that nobody waits for any more, over the connection with this process.
#[derive(Default)]
pub(super) struct Owed(pub u32);

/// How its process is.
pub(super) enum State {
    /// It was not started yet.
    New,
    /// Its process was started, and does not answer yet.
    Beginning(Arc<UnixStream>),
    /// It answers orders, and has this version of the catalogue.
    Here { server: Arc<UnixStream>, version: u64 },
    /// It does not run, for this reason.
    Away(Cause),
}

impl Gateway {
    /// A gateway whose process is started at once, with what `beginning` gives each time, by a command.
    pub fn start(
        name: &str,
        folder: PathBuf,
        endpoint: Arc<Endpoint>,
        command: impl Fn() -> Command + Send + 'static,
        beginning: Box<Beginning>,
    ) -> Result<Arc<Gateway>, Cause> {
        let gateway = Arc::new(Gateway {
            name: name.to_owned(),
            folder,
            endpoint,
            is_wanted: AtomicBool::new(true),
            state: Mutex::new(State::New),
            changed: Condvar::new(),
            orders: Mutex::default(),
            supervisor: Mutex::default(),
        });
        let supervised = Arc::clone(&gateway);
        let supervisor = thread::Builder::new().name(format!("gateway {name}"));
        let supervisor = supervisor.spawn(move || supervised.supervise(&command, &*beginning))?;
        *gateway.supervisor.lock() = Some(supervisor);
        Ok(gateway)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn orders(&self) -> MutexGuard<'_, Owed> {
        self.orders.lock()
    }

    pub(super) fn try_orders(&self) -> Option<MutexGuard<'_, Owed>> {
        self.orders.try_lock()
    }

    /// It is so from here on.
    fn becomes(&self, state: State) {
        *self.state() = state;
        self.changed.notify_all();
    }

    /// The connection to it, and its version of the catalogue; `None`: it does not answer orders.
    pub(super) fn here(&self) -> Option<(Arc<UnixStream>, u64)> {
        match &*self.state() {
            State::Here { server, version } => Some((Arc::clone(server), *version)),
            State::New | State::Beginning(_) | State::Away(_) => None,
        }
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// Starts the process again and again, until the gateway is no longer wanted.
    fn supervise(&self, command: &dyn Fn() -> Command, beginning: &Beginning) {
        let mut pause = PAUSE_MIN;
        while self.is_wanted() {
            let since = Instant::now();
            let reason = match self.begin(command, beginning) {
                Ok(Some(mut child)) => match self.wait(&mut child) {
                    Ok(status) => format!("its process has ended ({status})"),
                    Err(error) => format!("its process cannot be observed: {error}"),
                },
                // The runtime is gone.
                Ok(None) => return,
                Err(cause) => cause.message.into_string(),
            };
            self.endpoint.is_away(reason.clone());
            self.becomes(State::Away(Cause::operation(reason.clone())));
            if !self.is_wanted() {
                return;
            }
            tracing::warn!(gateway = self.name, reason, "a gateway is away, and is started again");
            pause = if since.elapsed() > LONG_RUN { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            let until = Instant::now() + pause;
            while self.is_wanted() && Instant::now() < until {
                thread::sleep(LOOK);
            }
        }
    }

    /// Starts the process and tells it what to run.
    fn begin(&self, command: &dyn Fn() -> Command, beginning: &Beginning) -> Result<Option<Child>, Cause> {
        let (server, theirs) = UnixStream::pair()?;
        let mut command = command();
        // Ctrl-C is for the server, which tells its gateways to end.
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).process_group(0);
        let cannot = |error: io::Error| {
            Cause::operation(format!("its process cannot be started: {error}")).with_source(error)
        };
        let mut child = command.spawn().map_err(cannot)?;
        // The descriptor that the process has inherited is closed here, so that each sees the end of the other.
        drop(command);
        server.set_write_timeout(Some(PATIENCE))?;
        let server = Arc::new(server);
        self.becomes(State::Beginning(Arc::clone(&server)));
        // While it begins, nothing else is defined at it.
        let mut owed = self.orders();
        *owed = Owed::default();
        let Some((records, version)) = beginning().filter(|_| self.is_wanted()) else {
            end(&mut child, &server);
            return Ok(None);
        };
        // How long it takes depends on its journal. So it may take any time, as long as it works.
        let begun = Order::Apply(records).send(&server).and_then(|()| Answer::receive(&server, PATIENCE));
        let failed = match begun {
            Ok(Answer::Done) => {
                self.endpoint.is_at(&self.folder.join(SOCKET));
                self.becomes(State::Here { server, version });
                return Ok(Some(child));
            }
            Ok(Answer::Failed(cause)) => cause,
            Ok(_) => Cause::bug("it answers what it was not asked"),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Cause::operation(format!("its process hangs while it begins: {error}")).with_source(error)
            }
            Err(error) => Cause::operation(format!("its process ends while it begins: {error}")),
        };
        end(&mut child, &server);
        Err(failed)
    }

    /// Waits for the end of the process.
    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut given_up: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // One that was told to end in order may take its time, unless it hangs.
            if self.here().is_none() && given_up.get_or_insert_with(Instant::now).elapsed() > END_TIME {
                child.kill()?;
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until it has begun, or could not, or the statement is cancelled.
    pub fn wait_until_here(&self, time: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<(), Cause> {
        let until = Instant::now() + time;
        let begins = |state: &mut State| matches!(state, State::New | State::Beginning(_));
        loop {
            let mut state = self.state();
            self.changed.wait_while_for(&mut state, begins, LOOK);
            let is_over = is_cancelled() || Instant::now() > until;
            match &*state {
                State::Here { .. } => return Ok(()),
                State::Away(cause) => return Err(self.named(cause.clone())),
                State::New | State::Beginning(_) if is_over => {
                    return Err(self.named(Cause::operation("it has not begun yet")));
                }
                State::New | State::Beginning(_) => {}
            }
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process is of no use. The supervisor ends it, if it does not end by itself.
    pub(super) fn give_up(&self, server: &UnixStream, cause: Cause) {
        self.endpoint.is_away(cause.to_string());
        self.becomes(State::Away(cause));
        let _ = server.shutdown(Shutdown::Both);
    }

    /// Asks what it says about itself; `None`: it is away, or does something else until then. Several gateways are asked beside
    /// each other if all are asked before an answer is taken.
    pub fn ask(&self, until: Instant) -> Option<PendingReport<'_>> {
        let mut owed = loop {
            match self.orders.try_lock() {
                Some(owed) => break owed,
                // Others ask, too.
                None if self.here().is_some() && Instant::now() < until => thread::sleep(LOOK),
                None => return None,
            }
        };
        let (server, _) = self.here()?;
        if owed.0 < OWED_MAX {
            Order::Report.send(&server).ok()?;
            owed.0 += 1;
        }
        Some(PendingReport { owed, server })
    }

    /// Why it is away, or says nothing.
    pub fn problem(&self) -> String {
        match &*self.state() {
            State::Away(cause) => cause.to_string(),
            State::New | State::Beginning(_) => "it is being started".to_owned(),
            State::Here { .. } if self.orders.is_locked() => {
                "its process runs, and carries out a definition".to_owned()
            }
            State::Here { .. } => "its process runs, and does not answer".to_owned(),
        }
    }

    /// Tells it to end in order. It is not started again.
    pub fn close(&self) {
        if !self.is_wanted.swap(false, Ordering::SeqCst) {
            return;
        }
        if let State::Beginning(server) = &*self.state() {
            let _ = server.shutdown(Shutdown::Both);
        }
        // Who gives an order does not wait for one that hangs for ever.
        let _orders = self.orders();
        if let Some((server, _)) = self.here() {
            let _ = Order::Close.send(&server);
        }
    }

    /// Ends it at once: its process sees that the server is gone.
    pub fn abandon(&self) {
        self.is_wanted.store(false, Ordering::SeqCst);
        let mut state = self.state();
        if let State::Here { server, .. } | State::Beginning(server) = &*state {
            let _ = server.shutdown(Shutdown::Both);
            *state = State::Away(Cause::operation("it was ended"));
        }
    }

    /// Whether its process has ended, waiting for that until a time.
    pub fn has_ended(&self, until: Instant) -> bool {
        let supervisor = self.supervisor.lock();
        let Some(supervisor) = &*supervisor else { return true };
        while !supervisor.is_finished() {
            if Instant::now() > until {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    pub(super) fn named(&self, cause: Cause) -> Cause {
        cause.map_message(|message| format!("gateway '{}': {message}", self.name))
    }
}

/// A gateway that was asked what it says about itself. Meanwhile it gets no orders.
pub(crate) struct PendingReport<'a> {
    owed: MutexGuard<'a, Owed>,
    server: Arc<UnixStream>,
}

impl PendingReport<'_> {
    /// The answer, if it comes until then.
    pub fn tables(mut self, until: Instant) -> Option<StatusTables> {
        match self.owed.last_until(&self.server, until) {
            Ok(Some(Answer::Tables(tables))) => Some(tables),
            _ => None,
        }
    }
}

impl Owed {
    /// The last of the answers that are owed, if all come until then.
    fn last_until(&mut self, server: &UnixStream, until: Instant) -> io::Result<Option<Answer>> {
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(LOOK);
            let Some(answer) = Answer::receive_within(server, left)? else { return Ok(None) };
            if answer == Answer::AtWork {
                continue;
            }
            self.0 -= 1;
            if self.0 == 0 {
                return Ok(Some(answer));
            }
        }
    }
}

/// Ends a process that is of no use.
fn end(child: &mut Child, server: &UnixStream) {
    let _ = server.shutdown(Shutdown::Both);
    let _ = child.kill();
    let _ = child.wait();
}
