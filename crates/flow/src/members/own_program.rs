//! The program that this process runs, to start it once more.

use std::io;
use std::path::PathBuf;

/// The program that this process runs. What is started from this path is the same version, whose messages this
/// process understands: if an upgrade has put another file in the place of this one, or removed it, the path leads to
/// what is still running.
///
/// ```
/// let program = tidemill_flow::own_program()?;
/// assert!(program.is_absolute());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the system does not say what it is.
pub fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    #[cfg(target_os = "linux")]
    if !is_running(&path) {
        // The kernel's way to the file itself. Processes that are started by it are called `exe`, so it is not the usual one.
        return Ok("/proc/self/exe".into());
    }
    Ok(path)
}

/// Whether the file there is the one that this process runs.
#[cfg(target_os = "linux")]
fn is_running(path: &std::path::Path) -> bool {
    use std::fs::metadata;
    use std::os::unix::fs::MetadataExt;
    let (Ok(there), Ok(running)) = (metadata(path), metadata("/proc/self/exe")) else { return false };
    (there.dev(), there.ino()) == (running.dev(), running.ino())
}
