//! Linux: system calls that no safe crate offers without features that would rebuild others. The only `unsafe` of this crate.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::os::unix::fs::FileExt;

use super::Scheduling;

/// A thread that is started by a promoted one is ordinary.
const RESET_ON_FORK: u64 = 0x01;

/// The version of `struct sched_attr` that all kernels since 3.14 know.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The number of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: takes no arguments, touches no memory, cannot fail.
    unsafe { libc::gettid() }
}

/// Sets the policy of a thread of this process.
pub(crate) fn set_scheduling(thread: i32, scheduling: Scheduling) -> Result<()> {
    let size = size_of::<SchedulingAttributes>() as u32;
    let base = SchedulingAttributes { size, flags: RESET_ON_FORK, ..SchedulingAttributes::default() };
    let of = |policy: i32, priority| SchedulingAttributes { policy: policy as u32, priority, ..base };
    let attributes = match scheduling {
        // The flag stays: only CAP_SYS_NICE may take it away, so a thread with a limit of priorities could not leave.
        Scheduling::Ordinary => of(libc::SCHED_OTHER, 0),
        Scheduling::Idle => of(libc::SCHED_IDLE, 0),
        Scheduling::Fifo(priority) => of(libc::SCHED_FIFO, priority),
        Scheduling::RoundRobin(priority) => of(libc::SCHED_RR, priority),
        Scheduling::Deadline { runtime_ns, period_ns } => SchedulingAttributes {
            runtime_ns,
            deadline_ns: period_ns,
            period_ns,
            ..of(libc::SCHED_DEADLINE, 0)
        },
    };
    // SAFETY: the kernel reads `size` bytes of a structure that lives until the call returns, and writes only its size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Gives the calling thread this niceness, which only a privilege can lower again. Threads that it starts have it, too.
pub(crate) fn set_niceness(niceness: u8) -> Result<()> {
    // SAFETY: takes numbers only. To Linux, the "process" 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness.into()) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Restricts a thread to these cores.
pub(crate) fn set_cores(thread: i32, cores: &[usize]) -> Result<()> {
    // SAFETY: a set of bits, for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for core in cores {
        if *core >= libc::CPU_SETSIZE as usize {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the index is within the set.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: the kernel reads the set, which lives until the call returns, and no more than its size.
    let result = unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// The cores that a thread may use.
pub(crate) fn cores_of(thread: i32) -> Result<Vec<usize>> {
    // SAFETY: a set of bits, for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the kernel writes no more than the size of the set, which lives until the call returns.
    let result = unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if result != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the indexes are within the set.
    let is_in = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_in).collect())
}

/// How long a thread of this process has run.
pub(crate) fn cpu_time_ns(thread: i32) -> Result<u64> {
    /// From the kernel's interface: a clock of one thread, counting the time for which it was scheduled.
    const PER_THREAD_SCHEDULED: i32 = 4 | 2;
    let clock = (!thread << 3) | PER_THREAD_SCHEDULED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a `timespec`, which lives until the call returns.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return Err(Error::last_os_error());
    }
    Ok((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

/// How long a thread of this process was ready, and something else had the processor. Kept open, because it is read often.
#[derive(Debug)]
pub(crate) struct QueueClock(Option<File>);

impl QueueClock {
    /// Of a thread; a kernel that does not count it gives no time, nor does one that is not to be asked.
    pub fn of(thread: i32, is_asked: bool) -> QueueClock {
        let open = || File::open(format!("/proc/self/task/{thread}/schedstat")).ok();
        QueueClock(if is_asked { open() } else { None })
    }

    pub fn read_ns(&self) -> Option<u64> {
        let mut bytes = [0; 80];
        let length = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        // Time on a processor, time in a queue, number of turns.
        std::str::from_utf8(&bytes[..length]).ok()?.split_whitespace().nth(1)?.parse().ok()
    }
}

/// How long the host of a virtual machine has taken these cores away since the start of the machine; of all cores if none is
/// named. The kernel counts in hundredths of a second.
pub(crate) fn stolen_ns(cores: &[usize]) -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let is_asked = |name: &str| match (name.strip_prefix("cpu"), cores.is_empty()) {
        (Some(number), true) => number.is_empty(),
        (Some(number), false) => number.parse().is_ok_and(|core| cores.contains(&core)),
        (None, _) => false,
    };
    let lines = text.lines().map(str::split_whitespace);
    let stolen = lines.filter_map(|mut fields| {
        let ticks: u64 = if is_asked(fields.next()?) { fields.nth(7)?.parse().ok()? } else { 0 };
        Some(ticks)
    });
    Some(stolen.sum::<u64>().saturating_mul(TICK_NS))
}

/// Keeps all memory of the process, now and later, in the machine's memory.
pub(crate) fn lock_memory() -> Result<()> {
    // SAFETY: takes flags only; memory stays where it is.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// The share of the processors that the kernel leaves to real-time threads, as (runtime, period) in microseconds; `None` if
/// it leaves them all.
pub(crate) fn throttled_share() -> Option<(u64, u64)> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let runtime = read("sched_rt_runtime_us")?.trim().parse().ok()?;
    let period = read("sched_rt_period_us")?.trim().parse().ok()?;
    Some((runtime, period))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all capabilities from the calling thread, and from no other.
    fn give_up_privileges() {
        const VERSION_3: u32 = 0x2008_0522;
        let header: [u32; 2] = [VERSION_3, 0];
        let none = [0_u32; 6];
        // SAFETY: the kernel reads the header and two sets of three words, which live until the call returns.
        let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
        assert_eq!(result, 0, "{}", Error::last_os_error());
    }

    #[test]
    fn a_thread_that_may_have_a_priority_without_a_privilege_can_leave_it() {
        let tried = std::thread::spawn(|| {
            let thread = thread_id();
            if let Err(error) = set_scheduling(thread, Scheduling::Fifo(1)) {
                println!("skipped, for there is no privilege: {error}");
                return;
            }
            // As with a limit of real-time priorities alone (ulimit -r).
            give_up_privileges();
            set_scheduling(thread, Scheduling::Ordinary).unwrap();
            assert!(set_scheduling(thread, Scheduling::Fifo(1)).is_err());
        });
        tried.join().unwrap();
    }
}
