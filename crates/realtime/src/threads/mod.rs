//! What the operating system offers threads: policies, cores, clocks, locked memory.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other_systems;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    QueueClock, cores_of, cpu_time_ns, lock_memory, set_cores, set_niceness, set_scheduling, stolen_ns,
    thread_id, throttled_share,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use other_systems::{
    QueueClock, cores_of, cpu_time_ns, lock_memory, set_cores, set_niceness, set_scheduling, stolen_ns,
    thread_id, throttled_share,
};

/// How the operating system schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    Ordinary,
    /// Only when nothing else wants the processor.
    Idle,
    Fifo(u32),
    RoundRobin(u32),
    /// So much processor time in each period.
    Deadline {
        runtime_ns: u64,
        period_ns: u64,
    },
}
