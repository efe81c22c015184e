//! The stack for plans of many streams: planning recurses once for each level of a plan, and each join is a level.

/// Enough for the deepest plan in a build without optimisation, where a level takes about 16 KiB.
const STACK_BYTES: usize = 64 << 20;

/// Computes with enough stack for the deepest plan, however small that of the calling thread is.
pub(super) fn with_deep_stack<T>(compute: impl FnOnce() -> T) -> T {
    // The pages are taken only when they are touched.
    stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, compute)
}
