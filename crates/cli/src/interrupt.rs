//! Ctrl-C, and other ways to ask a process to end: the first one ends it normally, the second one at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "sql")]
use std::sync::atomic::Ordering;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

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
            .context("Ctrl-C cannot be caught")?;
    }
    Ok(stop)
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
    hung_up: Arc<AtomicBool>,
}

#[cfg(feature = "sql")]
impl Interrupt {
    /// The second Ctrl-C ends the process.
    pub fn of_command() -> anyhow::Result<Interrupt> {
        Ok(Interrupt { asked: flag()?, stays: false, hung_up: Arc::default() })
    }

    /// Ctrl-C never ends the process, because there is a prompt to return to. When the terminal is closed there is
    /// none.
    pub fn of_prompt() -> anyhow::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        let hung_up = Arc::new(AtomicBool::new(false));
        flag::register(SIGINT, Arc::clone(&asked))
            .and_then(|_| flag::register(SIGHUP, Arc::clone(&asked)))
            .and_then(|_| flag::register(SIGHUP, Arc::clone(&hung_up)))
            .context("Ctrl-C cannot be caught")?;
        Ok(Interrupt { asked, stays: true, hung_up })
    }

    /// Whether the terminal of the prompt has been closed.
    pub fn is_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::SeqCst)
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
