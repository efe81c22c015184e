//! The allocator of the command: mimalloc, with huge pages.
//!
//! Batches are made on one thread and freed on another, and state of gigabytes is read at random: the first
//! wants an allocator that is good at it, the second wants few page-table entries.
#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Asks for huge pages for all memory that is reserved from now on, where the system offers them.
pub(crate) fn use_huge_pages() {
    // SAFETY: sets one of the allocator's options, which it reads when it reserves memory; any value is valid.
    unsafe {
        libmimalloc_sys::mi_option_set_enabled(libmimalloc_sys::mi_option_large_os_pages, true);
    }
}
