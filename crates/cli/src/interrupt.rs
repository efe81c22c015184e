//! Ctrl-C: the first one ends in order, the second one at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "sql")]
use std::sync::atomic::Ordering;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// A flag that is set by Ctrl-C, or when the system asks this process to end. If it is set already, the process
/// ends at once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal must not find what it sets itself.
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("Ctrl-C cannot be caught")?;
    }
    Ok(stop)
}

/// What Ctrl-C does to queries.
#[cfg(feature = "sql")]
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    stays: bool,
}

#[cfg(feature = "sql")]
impl Interrupt {
    /// The second Ctrl-C ends the process.
    pub fn of_command() -> anyhow::Result<Interrupt> {
        Ok(Interrupt { asked: flag()?, stays: false })
    }

    /// Ctrl-C never ends the process: there is a prompt to go back to.
    pub fn of_prompt() -> anyhow::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        flag::register(SIGINT, Arc::clone(&asked)).context("Ctrl-C cannot be caught")?;
        Ok(Interrupt { asked, stays: true })
    }

    /// Whether the user has pressed Ctrl-C; at a prompt, since this was last asked.
    pub fn is_asked(&self) -> bool {
        match self.stays {
            true => self.asked.swap(false, Ordering::SeqCst),
            false => self.asked.load(Ordering::SeqCst),
        }
    }

    /// Whether there is a prompt to go back to.
    pub fn stays(&self) -> bool {
        self.stays
    }
}
