//! What the kernel says about a thread, and pools and threads that it may refuse.

use std::sync::Arc;

use tidemill_realtime::{Pool, PoolError, PoolSettings};

/// The number of the policy of ordinary threads, as the kernel has it.
pub const ORDINARY: u32 = 0;

/// The calling thread's (policy, priority), as the kernel says.
pub fn scheduled() -> (u32, u32) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Behind the name, which may have spaces, the third field comes first: priority is the 40th, policy the 41st.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[38].parse().unwrap(), fields[37].parse().unwrap())
}

/// Whether the kernel refuses the threads of a pool. Without a privilege it does; and some kernels lose count of what deadline
/// threads had that have ended (`total_bw` in `/sys/kernel/debug/sched/debug` falls below zero), and refuse all later ones.
fn is_refused(reason: &str) -> bool {
    reason.contains("not permitted") || reason.contains("resource busy")
}

/// A pool at real-time priority, or `None` if the kernel refuses it.
pub fn real_time(settings: PoolSettings) -> Option<Arc<Pool>> {
    unless_refused(Pool::start(settings))
}

/// What was asked of the kernel, or `None` and a word if it refuses that.
pub fn unless_refused<T>(asked: Result<T, PoolError>) -> Option<T> {
    match asked {
        Ok(granted) => Some(granted),
        Err(error) if is_refused(&error.reason) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
