//! The allocator of Tidemill's programs: mimalloc, with huge pages. Libraries never choose one.
//!
//! Batches are allocated on one thread and freed on another, and gigabytes of state are read in random order. The first
//! needs an allocator that handles it well, the second needs few page-table entries.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;
//!
//! tidemill_allocator::tune();
//! ```
#![allow(unsafe_code)]

use libmimalloc_sys::{
    mi_collect, mi_option_large_os_pages, mi_option_set, mi_option_set_enabled, mi_option_t,
};
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay` of the allocator's header, which the binding does not name.
const PURGE_DELAY: mi_option_t = 15;

/// How often memory that is free is given back, in milliseconds (decision 0128). The allocator then gives back all that is free, also what
/// was used a moment ago and is needed again at once.
const PURGE_DELAY_MS: std::ffi::c_long = 300_000;

/// How often the allocator looks at an empty page before it frees the page (`MI_RETIRE_CYCLES` of the allocator).
const RETIRE_CYCLES: usize = 16;

/// Asks for huge pages for all memory that is reserved from now on, where the system offers them. Memory that is free is given back some
/// minutes later. Call it at the beginning of `main`.
pub fn tune() {
    // SAFETY: sets options of the allocator, which it reads when it reserves and frees; any value is valid.
    unsafe {
        mi_option_set_enabled(mi_option_large_os_pages, true);
        mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
    }
}

/// Lets other threads use what this thread has freed. The allocator keeps one empty page for each size and thread, 64 KiB or more of each.
/// A thread that has planned a query keeps megabytes in this way. It takes some microseconds.
///
/// ```
/// drop(vec![0_u8; 100_000]);
/// tidemill_allocator::release();
/// ```
pub fn release() {
    for _ in 0..RETIRE_CYCLES {
        // SAFETY: only frees pages of this thread on which nothing lives. It does not force anything, so no memory goes to the system.
        unsafe { mi_collect(false) };
    }
}
