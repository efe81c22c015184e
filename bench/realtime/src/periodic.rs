//! The periodic threads T1 to T3 of the paper's Table 1, at real-time priority.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_realtime::{Policy, Pool, PoolError, PoolSettings, Role};

use crate::burn::{burn, sleep_until};
use crate::stream::Scale;

/// What each costs at each release.
const COST_MS: u64 = 28;

/// First release, and period, which is the deadline as well.
const TASKS: [(u64, u64); 3] = [(0, 100), (130, 200), (50, 400)];

/// What one of them has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub released: u64,
    pub missed: u64,
}

/// The running threads.
pub struct Periodic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Done>>,
}

impl Periodic {
    /// Starts them on a core, with these priorities.
    ///
    /// # Errors
    /// If there is no privilege for the priorities.
    pub fn start(
        core: usize,
        priorities: [u32; 3],
        start: Instant,
        scale: Scale,
    ) -> Result<Periodic, PoolError> {
        let stop = Arc::new(AtomicBool::new(false));
        let pool = |priority| {
            let policy = Policy::Fifo { priority };
            Pool::start(PoolSettings { policy, cores: vec![core], ..PoolSettings::new("periodic threads") })
        };
        let pools = priorities.map(pool);
        let mut threads = Vec::new();
        for (pool, (first_ms, period_ms)) in pools.into_iter().zip(TASKS) {
            let (pool, stop) = (pool?, Arc::clone(&stop));
            let (first, period) = (start + scale.time(first_ms), scale.time(period_ms));
            threads.push(std::thread::spawn(move || {
                let Ok(_member) = pool.join(Role::Receiver) else { return Done::default() };
                run(first, period, scale.time(COST_MS), &stop)
            }));
        }
        Ok(Periodic { stop, threads })
    }

    /// Stops them, and returns what each has done.
    pub fn stop(self) -> Vec<Done> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn run(first: Instant, period: Duration, cost: Duration, stop: &AtomicBool) -> Done {
    let mut done = Done::default();
    let mut release = first;
    while !stop.load(Ordering::SeqCst) {
        sleep_until(release);
        burn(cost);
        done.released += 1;
        done.missed += u64::from(release.elapsed() > period);
        release += period;
    }
    done
}
