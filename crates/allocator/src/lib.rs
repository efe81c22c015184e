//! The allocator of Tidemill's programs: mimalloc, with huge pages. Libraries never choose one.
//!
//! Batches are allocated on one thread and freed on another, and gigabytes of state are read in random order. The
//! first needs an allocator that handles it well, the second needs few page-table entries.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;
//!
//! tidemill_allocator::tune();
//! ```
#![allow(unsafe_code)]

use std::ffi::c_long;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};
use std::time::Duration;

use libmimalloc_sys::{
    mi_collect, mi_option_large_os_pages, mi_option_set, mi_option_set_enabled, mi_option_t, mi_thread_done,
    mi_thread_init,
};
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay` of the allocator's header, which the binding does not name.
const PURGE_DELAY: mi_option_t = 15;

/// After how long memory that is free is given back (decision 0128). The allocator then gives back all that is free,
/// also what was used a moment ago and is needed again at once.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(300);

/// The thread that called `tune`: the program's first one, if the program does as `tune` asks.
static TUNING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Asks for huge pages for all memory that is reserved from now on, where the system offers them. Memory that is free
/// is given back some minutes later, if somebody calls [`give_back`] now and then. Call it at the beginning of `main`.
pub fn tune() {
    tune_to(GIVEN_BACK_AFTER);
}

/// As [`tune`], with the time after which memory that is free is given back.
pub fn tune_to(given_back_after: Duration) {
    let delay_ms = c_long::try_from(given_back_after.as_millis()).unwrap_or(c_long::MAX);
    TUNING_THREAD.get_or_init(|| thread::current().id());
    // SAFETY: sets options of the allocator, which it reads when it reserves and frees; any value is valid.
    unsafe {
        mi_option_set_enabled(mi_option_large_os_pages, true);
        mi_option_set(PURGE_DELAY, delay_ms);
    }
}

/// Gives memory back to the system that has been free for some minutes. The allocator does that only while threads ask
/// it for memory, so a program that has become idle after a peak would keep all of it. A program that runs for long
/// calls it every few seconds.
///
/// ```
/// tidemill_allocator::tune();
/// tidemill_allocator::give_back();
/// ```
pub fn give_back() {
    // SAFETY: it only gives back what is free.
    unsafe { mi_collect(false) };
}

/// Lets other threads use what is free in the memory of this thread. The allocator gives each thread pages of 64 KiB
/// or more for each size of its objects, so a thread that keeps one small object of each size keeps megabytes. After a
/// release, its pages belong to no thread, and any that needs objects of such a size uses what is free in them. It
/// takes some microseconds, and the thread's next objects some more. The program's first thread keeps its memory, and
/// so do all if nobody has called [`tune`].
///
/// ```
/// tidemill_allocator::tune();
/// let work = || {
///     drop(vec![0_u8; 100_000]);
///     tidemill_allocator::release();
/// };
/// std::thread::spawn(work).join().unwrap();
/// ```
pub fn release() {
    let thread = thread::current();
    // The allocator's heap of the first thread cannot be begun again: the next object would end the program. Rust
    // names that thread "main", also where another one called `tune`.
    if TUNING_THREAD.get().is_none_or(|first| *first == thread.id()) || thread.name() == Some("main") {
        return;
    }
    // SAFETY: objects stay valid, and may be freed by any thread. The thread begins again at once: at its end, the
    // allocator must find a heap that lives.
    unsafe {
        mi_thread_done();
        mi_thread_init();
    }
}
