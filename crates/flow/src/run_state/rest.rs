//! What a thread does before it waits for long: others may use what is free in its memory.

use std::time::{Duration, Instant};

use tidemill_core::MemoryBudget;

/// A thread that has had nothing to do for this long gives back what is free in its memory.
pub(crate) const QUIET: Duration = Duration::from_millis(500);

/// When a worker did something last.
pub(crate) struct Rest {
    busy: Instant,
    /// Whether it may keep memory that it does not need.
    keeps_memory: bool,
    releases: bool,
}

impl Rest {
    /// `releases`: whether its memory may be given to others at all.
    pub fn new(memory: &MemoryBudget, releases: bool) -> Rest {
        Rest { busy: Instant::now(), keeps_memory: true, releases: releases && memory.releases_threads() }
    }

    /// The worker has something to do.
    pub fn something_happened(&mut self) {
        if self.releases {
            (self.busy, self.keeps_memory) = (Instant::now(), true);
        }
    }

    /// How long it may wait instead: it is to wake once to give memory back.
    pub fn wait(&mut self, wait: Option<Duration>, memory: &MemoryBudget) -> Option<Duration> {
        if !self.releases || !self.keeps_memory || wait.is_some_and(|wait| wait < QUIET) {
            return wait;
        }
        match QUIET.checked_sub(self.busy.elapsed()) {
            Some(left) => Some(left),
            None => {
                memory.release_thread();
                self.keeps_memory = false;
                wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static RELEASED: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn a_worker_gives_memory_back_once_after_each_time_that_it_was_busy() {
        let memory = MemoryBudget::of_releasing_threads(1, || {
            RELEASED.fetch_add(1, Ordering::Relaxed);
        });
        let released = || RELEASED.load(Ordering::Relaxed);
        let (mut rest, mut kept) = (Rest::new(&memory, true), Rest::new(&memory, false));
        for round in 1..=2 {
            rest.something_happened();
            rest.busy -= QUIET / 2;
            assert!(rest.wait(None, &memory).is_some_and(|wait| wait <= QUIET / 2));
            assert_eq!(rest.wait(Some(Duration::ZERO), &memory), Some(Duration::ZERO));
            assert_eq!(released(), round - 1);
            rest.busy -= QUIET;
            assert_eq!(rest.wait(None, &memory), None);
            assert_eq!(rest.wait(None, &memory), None);
            assert_eq!(released(), round);
        }
        kept.busy -= 2 * QUIET;
        assert_eq!(kept.wait(None, &memory), None);
        assert_eq!(released(), 2);
    }
}
