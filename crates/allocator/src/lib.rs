//! The allocator of Tidemill's programs: mimalloc, with huge pages. Libraries never choose one.
//!
//! Batches are made on one thread and freed on another, and state of gigabytes is read at random: the first
//! wants an allocator that is good at it, the second wants few page-table entries.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;
//!
//! tidemill_allocator::tune();
//! ```
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_large_os_pages, mi_option_set, mi_option_set_enabled, mi_option_t};
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay` of the allocator's header, which the binding does not name.
const PURGE_DELAY: mi_option_t = 15;

/// Asks for huge pages for all memory that is reserved from now on, where the system offers them; and keeps
/// memory once it has it: cycles free and take the same amounts again and again. For the beginning of `main`.
pub fn tune() {
    // SAFETY: sets options of the allocator, which it reads when it reserves and frees; any value is valid.
    unsafe {
        mi_option_set_enabled(mi_option_large_os_pages, true);
        mi_option_set(PURGE_DELAY, -1);
    }
}
