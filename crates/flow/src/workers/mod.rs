//! The worker threads, and how they are started.

pub(crate) mod launch;
pub(crate) mod worker;
