//! Ctrl-C: the first one ends in order, the second one at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
