//! Waiting for what a query does.
#![allow(dead_code)]

use std::thread;
use std::time::{Duration, Instant};

/// The longest that anything may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}
