//! Real time: how late an answer can be in the worst case, and threads that keep it.
//!
//! - [`analysis`] is arithmetic: pure functions over whole nanoseconds. It says what follows from the costs, arrivals and
//!   other work that it is given, and nothing about whether these are true of a machine.
//! - [`Pool`] is a set of threads with a scheduling policy, cores and a CPU budget. A pool that cannot get what it asks for
//!   does not start, or says what is missing.

pub mod analysis;
mod machine;
mod niceness;
mod pool;
mod threads;

pub use machine::{ThreadClock, stolen};
pub use niceness::{NICENESS_MAX, set_niceness};
pub use pool::{
    Affinity, Member, Policy, Pool, PoolError, PoolObserver, PoolQuery, PoolSettings, PoolStatus, Role,
    TakenIn, WhatRan, WhenEmpty,
};
