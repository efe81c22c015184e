//! Ports for what listens, goes and comes back: others do not get them meanwhile.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that systems give to connections, and to listeners that take any: one of those could take a port in the moment
/// in which nobody listens to it.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

/// A port of this machine that is free, and that no other test of this process has got.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes beside this one have others.
        let number = process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + number % COUNT) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
