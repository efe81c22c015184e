//! Why a file cannot be read.

use std::path::Path;

use tidemill_core::error::Cause;

/// An operation on a file failed.
pub(crate) fn failed(path: &str, error: std::io::Error) -> Cause {
    match error.kind() {
        std::io::ErrorKind::NotFound => nothing_found(path),
        std::io::ErrorKind::PermissionDenied => Cause::user(format!(
            "{path}: permission denied; allow this user to read it (chmod, chown) or run as its owner"
        )),
        _ => Cause::operation(format!("{path}: reading failed: {error}; check the disk, then try again"))
            .with_source(error),
    }
}

/// No file was found.
pub(super) fn nothing_found(path: &str) -> Cause {
    Cause::user(match () {
        () if Path::new(path).is_dir() => format!("{path}: the directory has no files"),
        () if is_pattern(path) => {
            format!("{path}: no file matches; check the pattern and the directory it starts in")
        }
        () => format!("{path}: no such file; check the path and the directory it starts in"),
    })
}

/// Whether the path means all files that match it.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}
