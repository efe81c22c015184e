//! Ordinary threads that leave the processors to others.

use std::io;

use crate::threads;

/// The most that a thread can leave to others.
pub const NICENESS_MAX: u8 = 19;

/// Gives the calling thread this niceness: it gets less processor time than threads of a smaller one that want it at
/// the same time, and they interrupt it when they wake up. An ordinary thread has 0, and more than [`NICENESS_MAX`]
/// counts as that. Threads that it starts from then on have the same. Only with a privilege can it have less again.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// std::thread::spawn(|| tidemill_realtime::set_niceness(10)).join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the thread has a larger one already and may not have less, or the system is not Linux.
pub fn set_niceness(niceness: u8) -> io::Result<()> {
    threads::set_niceness(niceness.min(NICENESS_MAX))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The niceness of the calling thread, as the kernel shows it.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_and_those_that_it_starts_are_nice_and_no_others() {
        let before = niceness();
        let of_both = std::thread::spawn(|| {
            set_niceness(7).unwrap();
            (niceness(), std::thread::spawn(niceness).join().unwrap())
        });
        assert_eq!(of_both.join().unwrap(), (7, 7));
        assert_eq!(niceness(), before);
        let largest = std::thread::spawn(|| set_niceness(200).map(|()| niceness()));
        assert_eq!(largest.join().unwrap().unwrap(), i32::from(NICENESS_MAX));
    }
}
