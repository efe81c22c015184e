//! How many open files a server may have. Each session is one.

use tidemill_engine::Cause;

/// What a server has open besides its sessions: what it listens at, HTTP, sources, journals, files of queries.
const OTHER_FILES: u64 = 256;

/// Lets this process have as many open files as the system permits it, and checks that they are enough for this many sessions.
///
/// # Errors
/// If they are not: the sessions would take those that journals and snapshots need.
pub(super) fn permit(sessions_max: u16) -> Result<(), Cause> {
    let needed = u64::from(sessions_max) + OTHER_FILES;
    match limit::raise() {
        Some(most) if most < needed => Err(Cause::user(format!(
            "--connections {sessions_max} needs {needed} open files, and the system permits this process {most}; \
             raise that limit (ulimit -n {needed}, or LimitNOFILE= in a unit of systemd), or let it have fewer \
             sessions"
        ))),
        _ => Ok(()),
    }
}

#[cfg(unix)]
mod limit {
    #![allow(unsafe_code)]

    /// Raises the limit as far as this process may; what it then is, if the system tells.
    pub fn raise() -> Option<u64> {
        let before = of_files()?;
        if before.rlim_cur < before.rlim_max {
            let all = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
            // SAFETY: the system reads a structure that lives until the call returns. If it refuses, the limit stays as it was.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const all) };
        }
        Some(of_files()?.rlim_cur)
    }

    fn of_files() -> Option<libc::rlimit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the system writes into a structure that lives until the call returns.
        let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        (result == 0).then_some(limit)
    }
}

#[cfg(not(unix))]
mod limit {
    /// There is no such limit.
    pub fn raise() -> Option<u64> {
        None
    }
}
