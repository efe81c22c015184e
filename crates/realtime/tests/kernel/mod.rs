//! What the kernel says about a thread, and pools that it may refuse.

use std::sync::Arc;

use tidemill_realtime::{Pool, PoolSettings};

/// The number of the policy of ordinary threads, as the kernel has it.
pub const ORDINARY: u32 = 0;

/// The calling thread's (policy, priority), as the kernel says.
pub fn scheduled() -> (u32, u32) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Behind the name, which may have spaces, the third field comes first: priority is the 40th, policy the 41st.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[38].parse().unwrap(), fields[37].parse().unwrap())
}

/// A pool at real-time priority, or `None` if there is no privilege.
pub fn real_time(settings: PoolSettings) -> Option<Arc<Pool>> {
    match Pool::start(settings) {
        Ok(pool) => Some(pool),
        Err(error) if error.reason.contains("not permitted") => {
            println!("skipped, for there is no privilege: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
