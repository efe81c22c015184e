//! Systems other than Linux: threads are ordinary.

use std::io::{Error, ErrorKind, Result};

use super::Scheduling;

fn unsupported<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "only Linux is supported"))
}

pub(crate) fn thread_id() -> i32 {
    0
}

pub(crate) fn set_scheduling(_thread: i32, scheduling: Scheduling) -> Result<()> {
    if scheduling == Scheduling::Ordinary { Ok(()) } else { unsupported() }
}

pub(crate) fn set_niceness(_niceness: u8) -> Result<()> {
    unsupported()
}

pub(crate) fn set_cores(_thread: i32, _cores: &[usize]) -> Result<()> {
    unsupported()
}

pub(crate) fn cores_of(_thread: i32) -> Result<Vec<usize>> {
    Ok(Vec::new())
}

pub(crate) fn cpu_time_ns(_thread: i32) -> Result<u64> {
    unsupported()
}

#[derive(Debug)]
pub(crate) struct QueueClock;

impl QueueClock {
    pub fn of(_thread: i32, _is_asked: bool) -> QueueClock {
        QueueClock
    }

    pub fn read_ns(&self) -> Option<u64> {
        None
    }
}

pub(crate) fn stolen_ns(_cores: &[usize]) -> Option<u64> {
    None
}

pub(crate) fn lock_memory() -> Result<()> {
    unsupported()
}

pub(crate) fn throttled_share() -> Option<(u64, u64)> {
    None
}
