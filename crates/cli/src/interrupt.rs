//! Ctrl-C, and other ways to ask a process to end: the first one ends it normally, the second one at once.
//!
//! A signal within a second of the first one is the same request: `timeout` and terminals that close signal the process and
//! then its whole group, and whoever holds Ctrl-C down sends many.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "sql")]
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::exit::Exit;

/// Signals that come this soon after the first one are the same request.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// How long a query may take to end after Ctrl-C: somebody waits at a terminal.
#[cfg(feature = "sql")]
const AFTER_CTRL_C: Duration = Duration::from_secs(5);

/// How long what runs unattended may take to end when the system asks it to. It is less than the minute after which the units in
/// `packaging` kill it.
#[cfg(feature = "sql")]
const AFTER_TERMINATION: Duration = Duration::from_secs(50);

/// How long it may take to say that it ends.
#[cfg(feature = "sql")]
const TELL_TIME: Duration = Duration::from_secs(1);

/// How long an end in order may take before the process ends without it.
#[cfg(feature = "sql")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopLimits {
    after_ctrl_c: Duration,
    after_termination: Duration,
}

#[cfg(feature = "sql")]
impl StopLimits {
    /// For a query that somebody waits for.
    pub fn attended() -> StopLimits {
        StopLimits { after_ctrl_c: AFTER_CTRL_C, after_termination: AFTER_CTRL_C }
    }

    /// For a pipeline: the limit that was given, whoever asks.
    pub fn of_pipeline(given: Option<Duration>) -> StopLimits {
        StopLimits {
            after_ctrl_c: given.unwrap_or(AFTER_CTRL_C),
            after_termination: given.unwrap_or(AFTER_TERMINATION),
        }
    }

    /// For a server: the limit that was given, whoever asks.
    pub fn of_server(given: Option<Duration>) -> StopLimits {
        let limit = given.unwrap_or(AFTER_TERMINATION);
        StopLimits { after_ctrl_c: limit, after_termination: limit }
    }
}

/// Reads an option that is a time.
#[cfg(feature = "sql")]
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    match u64::try_from(tidemill_sql::parse_duration_ns(text)?) {
        Ok(limit_ns) if limit_ns > 0 => Ok(Duration::from_nanos(limit_ns)),
        _ => Err("give a time, such as '30 s'".to_owned()),
    }
}

/// How long a waiting editor has to notice that it is woken.
#[cfg(feature = "sql")]
const WAKE_INTERVAL: Duration = Duration::from_millis(200);

/// A flag that is set by Ctrl-C, when the system asks this process to end, or when its terminal is closed. The next request
/// ends the process at once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    Ok(Signals::catch()?.asked)
}

/// What signals set.
struct Signals {
    /// Any of them.
    asked: Arc<AtomicBool>,
    /// All but Ctrl-C.
    #[cfg_attr(
        not(feature = "sql"),
        allow(dead_code, reason = "only pipelines and servers have two limits")
    )]
    terminated: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> anyhow::Result<Signals> {
        let stop = Arc::new(AtomicBool::new(false));
        let terminated = Arc::new(AtomicBool::new(false));
        let (requests, of_handlers) = UnixStream::pair().context("Tidemill cannot catch Ctrl-C")?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && outlives_terminal() {
                continue;
            }
            of_handlers
                .try_clone()
                .and_then(|of_handler| low_level::pipe::register(signal, of_handler))
                .and_then(|_| match signal {
                    SIGINT => Ok(()),
                    _ => flag::register(signal, Arc::clone(&terminated)).map(drop),
                })
                .and_then(|()| flag::register(signal, Arc::clone(&stop)))
                .context("Tidemill cannot catch Ctrl-C")?;
        }
        std::thread::Builder::new()
            .name("second-signal".into())
            .spawn(move || end_at_next_request(requests))
            .context("Tidemill cannot catch Ctrl-C")?;
        Ok(Signals { asked: stop, terminated })
    }
}

/// Ends the process at the first signal that is not part of the first request.
fn end_at_next_request(mut signals: UnixStream) {
    let (mut signal, mut requests) = ([0], Requests::default());
    while signals.read_exact(&mut signal).is_ok() {
        if requests.is_another(Instant::now()) {
            low_level::exit(Exit::Interrupted as i32);
        }
    }
}

/// When the process was first asked to end.
#[derive(Default)]
struct Requests(Option<Instant>);

impl Requests {
    /// Returns whether a signal at this moment is not part of the first request.
    fn is_another(&mut self, at: Instant) -> bool {
        let first = *self.0.get_or_insert(at);
        at.saturating_duration_since(first) >= SAME_REQUEST
    }
}

/// As [`flag`], and the process ends if it has not ended by itself within its limit. `what` is what ends.
#[cfg(feature = "sql")]
pub(crate) fn flag_within(limits: StopLimits, what: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let signals = Signals::catch()?;
    let asked = Arc::clone(&signals.asked);
    end_late(signals, limits, what)?;
    Ok(asked)
}

/// Ends the process a while after it was asked to end, if it has not ended by itself: a query may be in the middle of a long
/// computation, or wait for somebody who does not answer. What is not committed then comes again with the next run of a
/// durable pipeline, as after a crash.
#[cfg(feature = "sql")]
fn end_late(signals: Signals, limits: StopLimits, what: &'static str) -> anyhow::Result<()> {
    let watch = move || {
        while !signals.asked.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let limit = if signals.terminated.load(Ordering::SeqCst) {
            limits.after_termination
        } else {
            limits.after_ctrl_c
        };
        std::thread::sleep(limit);
        let limit = match limit.subsec_nanos() {
            0 => format!("{} s", limit.as_secs()),
            _ => format!("{limit:?}"),
        };
        let told = move || {
            eprintln!(
                "{what} did not end within {limit} after it was asked to (--stop-within of run and serve), so it is \
                 ended now; nothing that was committed is lost"
            );
        };
        // Whoever reads standard error may be what holds it up.
        let teller = std::thread::spawn(told);
        let until = Instant::now() + TELL_TIME;
        while !teller.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::process::exit(Exit::Interrupted as i32);
    };
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(watch)
        .map(drop)
        .context("Tidemill cannot catch Ctrl-C")
}

/// Whether this process was started to survive the closing of its terminal, as by `nohup`: the signal is then ignored.
fn outlives_terminal() -> bool {
    // Only Linux reports it. Elsewhere the signal ends the process normally.
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// The effect of Ctrl-C on queries.
#[cfg(feature = "sql")]
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    stays: bool,
    must_leave: Arc<AtomicBool>,
    /// Whether a line is being waited for.
    waits: Arc<AtomicBool>,
}

#[cfg(feature = "sql")]
impl Interrupt {
    /// The second Ctrl-C ends the process.
    pub fn of_command(limits: StopLimits) -> anyhow::Result<Interrupt> {
        let asked = flag_within(limits, "the query")?;
        Ok(Interrupt { asked, stays: false, must_leave: Arc::default(), waits: Arc::default() })
    }

    /// Ctrl-C never ends the process, because there is a prompt to return to. There is none once the terminal is closed,
    /// or the system asks the process to end.
    pub fn of_prompt() -> anyhow::Result<Interrupt> {
        let (asked, must_leave) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let waits = Arc::new(AtomicBool::new(false));
        let of_thread = (Arc::clone(&must_leave), Arc::clone(&waits));
        flag::register(SIGINT, Arc::clone(&asked))
            .and_then(|_| register_leaving(SIGHUP, &asked, &must_leave))
            .and_then(|()| register_leaving(SIGTERM, &asked, &must_leave))
            .and_then(|()| wake_at_termination(of_thread))
            .context("Tidemill cannot catch Ctrl-C")?;
        Ok(Interrupt { asked, stays: true, must_leave, waits })
    }

    /// Waits for a line.
    pub fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waits.store(true, Ordering::SeqCst);
        let line = wait();
        self.waits.store(false, Ordering::SeqCst);
        line
    }

    /// Whether the terminal of the prompt has been closed, or the system has asked this process to end.
    pub fn must_leave(&self) -> bool {
        self.must_leave.load(Ordering::SeqCst)
    }

    /// Whether the user has pressed Ctrl-C; at a prompt, since this was last asked.
    pub fn is_asked(&self) -> bool {
        if self.stays { self.asked.swap(false, Ordering::SeqCst) } else { self.asked.load(Ordering::SeqCst) }
    }

    /// Whether there is a prompt to return to.
    pub fn stays(&self) -> bool {
        self.stays
    }
}

#[cfg(feature = "sql")]
fn register_leaving(
    signal: i32,
    asked: &Arc<AtomicBool>,
    must_leave: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    flag::register(signal, Arc::clone(must_leave))?;
    flag::register(signal, Arc::clone(asked)).map(drop)
}

/// Ends the wait for a line when the system asks this process to end. The editor continues waiting at any signal but that of
/// Ctrl-C, and that one has to reach the thread that waits: so it is sent to the process, as a terminal does.
#[cfg(feature = "sql")]
fn wake_at_termination((must_leave, waits): (Arc<AtomicBool>, Arc<AtomicBool>)) -> std::io::Result<()> {
    let (mut signals, of_handler) = UnixStream::pair()?;
    low_level::pipe::register(SIGTERM, of_handler)?;
    let wake = move || {
        let mut signal = [0];
        while signals.read_exact(&mut signal).is_ok() {
            while must_leave.load(Ordering::SeqCst) {
                // Nobody is there to wake up while a query ends.
                if waits.load(Ordering::SeqCst) {
                    let kill = format!("kill -INT {}", std::process::id());
                    // Without a shell the prompt ends with the next line.
                    let _ = std::process::Command::new("sh").args(["-c", &kill]).status();
                }
                std::thread::sleep(WAKE_INTERVAL);
            }
        }
    };
    std::thread::Builder::new().name("termination".into()).spawn(wake).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_of_the_first_are_one_request() {
        let (first, mut requests) = (Instant::now(), Requests::default());
        let at = |ms| first + Duration::from_millis(ms);
        // `timeout` signals the process and its group; whoever holds Ctrl-C down sends many.
        let same = [0, 0, 30, 60, 900, 999].map(|ms| requests.is_another(at(ms)));
        assert_eq!(same, [false; 6]);
        assert!(requests.is_another(at(1000)) && requests.is_another(at(60_000)));
    }
}
