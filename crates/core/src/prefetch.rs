//! A hint to the processor to fetch memory that will be needed soon.
//!
//! An operator whose state is larger than the caches waits for memory once per event. If it prefetches the next events'
//! state before it works on the current one's, the waits overlap.
#![allow(unsafe_code)]

/// Prefetches the cache line of `value`. Never changes what a program computes.
///
/// ```
/// let table = vec![0u64; 1024];
/// tidemill_core::prefetch::read(&table[512]);
/// ```
#[inline(always)]
pub fn read<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and the reference is valid anyway.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>((value as *const T).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
