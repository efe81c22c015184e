//! Ctrl-C, and other ways to ask a process to end: the first one ends it normally, the second one at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "sql")]
use std::sync::atomic::Ordering;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// How long a query may take to end when it is asked to.
#[cfg(feature = "sql")]
const END_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// How long a waiting editor has to notice that it is woken.
#[cfg(feature = "sql")]
const WAKE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

/// A flag that is set by Ctrl-C, when the system asks this process to end, or when its terminal is closed. If it is
/// already set, the process ends at once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && outlives_terminal() {
            continue;
        }
        // In this order, so that the first signal does not see what it sets itself.
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("Tidemill cannot catch Ctrl-C")?;
    }
    Ok(stop)
}

/// Ends the process a while after the first Ctrl-C, if it has not ended by itself: a query may be in the middle of a long
/// computation, or wait for somebody who does not answer. What is not committed then comes again with the next run of a
/// durable pipeline, as after a crash.
#[cfg(feature = "sql")]
fn end_late(asked: Arc<AtomicBool>) -> anyhow::Result<()> {
    let watch = move || {
        while !asked.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        std::thread::sleep(END_TIME);
        eprintln!(
            "the query did not end within {} s after it was asked to, so it is ended now; nothing that was committed \
             is lost",
            END_TIME.as_secs()
        );
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
    pub fn of_command() -> anyhow::Result<Interrupt> {
        let asked = flag()?;
        end_late(Arc::clone(&asked))?;
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
        match self.stays {
            true => self.asked.swap(false, Ordering::SeqCst),
            false => self.asked.load(Ordering::SeqCst),
        }
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
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    let (mut signals, of_handler) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, of_handler)?;
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
