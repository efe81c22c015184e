//! The stack for plans of many streams: planning recurses once for each level of a plan, and each join is a level.

/// Enough for the deepest plan in a build without optimisation.
const STACK_BYTES: usize = 64 << 20;
/// What a level takes in such a build.
const LEVEL_BYTES: usize = 16 << 10;
/// What is called at the deepest level.
const LEAF_BYTES: usize = 512 << 10;

/// Computes with enough stack for the deepest plan, however small that of the calling thread is.
pub(super) fn with_deep_stack<T>(compute: impl FnOnce() -> T) -> T {
    // The pages are taken only when they are touched.
    stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, compute)
}

/// Computes with enough stack for a plan of this many nodes. That of the calling thread is enough for most of them.
pub(super) fn with_stack_for<T>(nodes: usize, compute: impl FnOnce() -> T) -> T {
    let needed = nodes.saturating_mul(LEVEL_BYTES).saturating_add(LEAF_BYTES);
    stacker::maybe_grow(needed.min(STACK_BYTES / 2), STACK_BYTES, compute)
}
