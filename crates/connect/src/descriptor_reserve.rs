//! What sources that listen leave of the process's file descriptors.
//!
//! A source takes as many connections as come. It must not take the last descriptor: journals, snapshots and other clients of the
//! process need some, too, and a connection that cannot be read would lose what was sent over it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

/// How many descriptors are left to others.
const RESERVE: usize = 16;
/// How long to wait before looking for descriptors again.
pub(crate) const RESERVE_PAUSE: Duration = Duration::from_secs(1);
/// Where Linux lists the descriptors of the process, one entry for each.
const OPEN_FILES: &str = "/proc/self/fd";

/// Whether the process could open as many more descriptors as are left to others.
pub(crate) fn is_left(any: &impl AsFd) -> bool {
    match is_left_of_limit() {
        Ok(is_left) => is_left,
        Err(error) if is_unknown(&error) => copies_fit(any),
        // Not even these files can be opened.
        Err(_) => false,
    }
}

/// The system does not say what is open.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::InvalidData)
}

/// Opens them for an instant. Somebody who needs one of the last in this instant does not get it, so this is only for systems
/// that do not say what is open.
fn copies_fit(any: &impl AsFd) -> bool {
    let any = any.as_fd();
    let copies: Result<Vec<_>, _> = (0..RESERVE).map(|_| any.try_clone_to_owned()).collect();
    copies.is_ok()
}

fn is_left_of_limit() -> io::Result<bool> {
    let limit = files_max(&fs::read_to_string("/proc/self/limits")?)?;
    // Since Linux 6.2, the size of this folder is the number of its entries.
    let open = fs::metadata(OPEN_FILES)?.len();
    if open > 0 {
        return Ok(leaves_reserve(limit, open));
    }
    // Counting takes milliseconds for a thousand files. The lowest free number is taken, so the last ones are seldom in use.
    Ok(last_are_free(limit) || leaves_reserve(limit, counted()?))
}

fn counted() -> io::Result<u64> {
    // Without the descriptor that is open only to read the folder.
    Ok(fs::read_dir(OPEN_FILES)?.count() as u64 - 1)
}

fn leaves_reserve(limit: u64, open: u64) -> bool {
    limit.saturating_sub(open) >= RESERVE as u64
}

fn last_are_free(limit: u64) -> bool {
    let is_free = |number| {
        let found = fs::symlink_metadata(format!("{OPEN_FILES}/{number}"));
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    limit >= RESERVE as u64 && (limit - RESERVE as u64..limit).all(is_free)
}

/// The soft limit on open files, in the text of `/proc/self/limits`.
fn files_max(limits: &str) -> io::Result<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    match soft {
        Some("unlimited") => Ok(u64::MAX),
        soft => soft.and_then(|soft| soft.parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into()),
    }
}

/// What a source says about it.
pub(crate) fn missing(place: &str) -> String {
    format!(
        "{place}: no connections are accepted for now, because the process has fewer than {RESERVE} file \
         descriptors left; close connections, or raise the limit (ulimit -n)"
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::process::Command;
    use std::thread;

    use super::*;

    const CHILD: &str = "TIDEMILL_TEST_FEW_DESCRIPTORS";

    #[test]
    fn asking_takes_nothing_from_those_who_need_the_last_ones() {
        if std::env::var_os(CHILD).is_some() {
            return ask_with_few_descriptors();
        }
        // With a limit of its own, so that the other tests keep theirs.
        let this = "descriptor_reserve::tests::asking_takes_nothing_from_those_who_need_the_last_ones";
        let script = format!("ulimit -n 64; exec \"$0\" --exact {this} --nocapture");
        let program = std::env::current_exe().unwrap();
        let output = Command::new("sh").args(["-c", &script]).arg(program).env(CHILD, "1").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{output:?}");
    }

    fn ask_with_few_descriptors() {
        let open = || File::open("/dev/null");
        let any = open().unwrap();
        assert!(is_left(&any));
        let mut held: Vec<File> = std::iter::from_fn(|| open().ok()).collect();
        assert!(!is_left(&any), "there are none");
        held.truncate(held.len() - 8);
        thread::scope(|scope| {
            let asking = scope.spawn(|| (0..20_000).all(|_| !is_left(&any)));
            while !asking.is_finished() {
                assert!(open().is_ok(), "asking took the last one");
            }
            assert!(asking.join().unwrap(), "8 are not enough");
        });
        assert!(!last_are_free(64));
        // What the test was started with may have numbers above the limit. It counts, too.
        let above = counted().unwrap() as usize - (64 - 8);
        held.truncate(held.len() - 7 - above);
        assert!(!is_left(&any), "15 are not enough");
        held.pop();
        assert!(is_left(&any), "16 are enough");
        held.truncate(10);
        assert!(last_are_free(64));
    }

    #[test]
    fn the_limit_is_read_as_linux_writes_it() {
        let limits =
            "Limit            Soft Limit   Hard Limit   Units\nMax open files   1024   524288   files\n";
        assert_eq!(files_max(limits).unwrap(), 1024);
        assert_eq!(files_max(&limits.replace("1024", "unlimited")).unwrap(), u64::MAX);
        assert!(is_unknown(&files_max("Max processes 7 8").unwrap_err()));
    }
}
