//! The connection of a gateway to its server, which more than one thread uses while an order is carried out.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_engine::Cause;

use crate::gateways::{Answer, Order};

/// How often a sign of work is given.
const EVERY: Duration = Duration::from_secs(1);

/// The connection to the server.
pub(super) struct ServerLink {
    stream: UnixStream,
    /// One answer is written at a time.
    writing: Mutex<()>,
    /// Where the decision of the server comes from that a replacement waits for; `None`: there is none, or it was taken.
    decision: Mutex<Option<Receiver<bool>>>,
}

impl ServerLink {
    pub fn new(stream: UnixStream) -> ServerLink {
        ServerLink { stream, writing: Mutex::default(), decision: Mutex::default() }
    }

    pub fn send(&self, answer: &Answer) -> io::Result<()> {
        let _writing = self.writing.lock();
        answer.send(&self.stream)
    }

    /// The next order; `None`: the server is gone.
    pub fn receive(&self) -> io::Result<Option<Order>> {
        Order::receive(&self.stream)
    }

    /// Carries out an order. Meanwhile the server gets signs, as long as the process takes time of a processor: so it knows an order
    /// that takes long from a process that hangs.
    pub fn at_work<T>(&self, carry_out: impl FnOnce() -> T) -> T {
        // It ends with the order, also if that panics.
        let (order, ended) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut before = processor_time(PROCESS);
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
                    let now = processor_time(PROCESS);
                    let has_worked = now.is_none() || now != before;
                    if has_worked && self.send(&Answer::AtWork).is_err() {
                        return;
                    }
                    before = now;
                }
            });
            let result = carry_out();
            drop(order);
            result
        })
    }

    /// Carries out a replacement, which counts only if the server says so: it waits for that before it would write its log.
    /// `cancel` is called if the server decides against it before. `undecided` is called if the server is gone after it was asked:
    /// it may have decided for it, so whoever continues removes neither the old part nor the new one. Returns the result, and whether
    /// the server was asked.
    pub fn replace<T>(
        &self,
        cancel: impl FnOnce() + Send,
        undecided: impl FnOnce() + Send,
        replace: impl FnOnce() -> Result<T, Cause>,
    ) -> (Result<T, Cause>, Decision) {
        let (decide, decided): (Sender<bool>, _) = channel();
        *self.decision.lock() = Some(decided);
        thread::scope(|scope| {
            let decision = scope.spawn(move || {
                let decision = self.receive();
                let counts = matches!(decision, Ok(Some(Order::Commit)));
                // A server that was not asked before it was gone has not decided for it.
                if !matches!(decision, Ok(Some(_))) && self.decision.lock().is_none() {
                    undecided();
                }
                if !counts {
                    cancel();
                }
                let _ = decide.send(counts);
                counts
            });
            let result = self.at_work(replace);
            let has_asked = self.decision.lock().take().is_none();
            if let (Err(cause), false) = (&result, has_asked) {
                // The server decides against it then.
                let _ = self.send(&Answer::Failed(cause.clone()));
            }
            let counts = decision.join().unwrap_or(false);
            (result, if has_asked { Decision::Taken { counts } } else { Decision::NotAsked })
        })
    }

    /// Asks the server whether a replacement counts, if there is one, which has a folder of this name.
    ///
    /// # Errors
    /// If it does not count.
    pub fn decision(&self, folder: Option<String>) -> Result<(), Cause> {
        let Some(decided) = self.decision.lock().take() else { return Ok(()) };
        self.send(&Answer::Ready(folder))?;
        match decided.recv() {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => {
                Err(Cause::operation("its server does not replace it at all of its gateways"))
            }
        }
    }
}

/// Whether the server was asked whether a replacement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It was, and has decided.
    Taken { counts: bool },
    /// The replacement has failed before.
    NotAsked,
}

/// Where Linux says how this process is. Elsewhere every process counts as working.
const PROCESS: &str = "/proc/self/stat";

/// The time that the threads of this process have run, in ticks of the system; `None`: that is not known.
fn processor_time(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn signs(server: &UnixStream) -> usize {
        std::iter::from_fn(|| Answer::receive_within(server, Duration::from_millis(50)).unwrap()).count()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_works_gives_signs() {
        let (server, gateway) = UnixStream::pair().unwrap();
        let gateway = ServerLink::new(gateway);
        let until = Instant::now() + EVERY * 3;
        let turns = gateway.at_work(|| (0_u64..).find(|_| Instant::now() > until));
        assert!(turns.is_some() && signs(&server) >= 1);
        assert_eq!(gateway.at_work(|| 7), 7);
        assert_eq!(signs(&server), 0);
    }

    #[test]
    fn times_are_read_behind_the_name_of_the_program() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fields = "S 2 3 4 5 6 7 8 9 10 11 30 12 13";
        fs::write(&file, format!("1 (a) b (c)) {fields}")).unwrap();
        assert_eq!(processor_time(file.path().to_str().unwrap()), Some(42));
        assert_eq!(processor_time("/nowhere"), None);
    }

    /// What a replacement sends, and whether it counts, if the server decides so.
    fn replaced(decision: &Order, fails: bool) -> (Vec<Answer>, bool) {
        let (server, gateway) = UnixStream::pair().unwrap();
        let gateway = ServerLink::new(gateway);
        decision.send(&server).unwrap();
        let (result, asked) = gateway.replace(
            || (),
            || panic!("the server has decided"),
            || {
                if fails { Err(Cause::user("it fails")) } else { gateway.decision(None) }
            },
        );
        assert_eq!(
            asked,
            if fails { Decision::NotAsked } else { Decision::Taken { counts: result.is_ok() } }
        );
        let next = || Answer::receive_within(&server, Duration::from_millis(50)).unwrap();
        (std::iter::from_fn(next).collect(), result.is_ok())
    }

    #[test]
    fn a_replacement_counts_only_if_the_server_says_so() {
        assert_eq!(replaced(&Order::Commit, false), (vec![Answer::Ready(None)], true));
        assert_eq!(replaced(&Order::Abort, false), (vec![Answer::Ready(None)], false));
        let failed = vec![Answer::Failed(Cause::user("it fails"))];
        assert_eq!(replaced(&Order::Abort, true), (failed, false));
        // Without a replacement, the log asks nobody.
        let (_server, gateway) = UnixStream::pair().unwrap();
        assert_eq!(ServerLink::new(gateway).decision(None), Ok(()));
    }

    /// Whether a replacement is undecided if the server ends after it was asked, or before.
    fn is_undecided(is_asked: bool) -> bool {
        let (server, gateway) = UnixStream::pair().unwrap();
        let gateway = ServerLink::new(gateway);
        let (undecided, is_undecided) = channel();
        let (cancelled, is_cancelled) = channel();
        let mut server = Some(server);
        let (result, _) = gateway.replace(
            move || cancelled.send(()).unwrap(),
            move || undecided.send(()).unwrap(),
            || {
                if !is_asked {
                    drop(server.take());
                    is_cancelled.recv().unwrap();
                    return Err(Cause::user("cancelled"));
                }
                thread::scope(|scope| {
                    let decided = scope.spawn(|| gateway.decision(Some("query-v-2".into())));
                    let server = server.take().unwrap();
                    let backoff = Duration::from_secs(20);
                    let asked = Answer::receive(&server, backoff).unwrap();
                    assert_eq!(asked, Answer::Ready(Some("query-v-2".into())));
                    drop(server);
                    decided.join().unwrap()
                })
            },
        );
        assert!(result.is_err());
        is_undecided.try_recv().is_ok()
    }

    #[test]
    fn a_server_that_ends_once_it_was_asked_leaves_a_replacement_undecided() {
        assert!(is_undecided(true));
        assert!(!is_undecided(false));
    }
}
