//! Errors of this crate, with place, reason and remedy.

use std::fmt::Display;
use std::io;
use std::path::Path;

use tidemill_core::error::Cause;

/// What to do about damage; added to each such error.
const REMEDY: &str =
    "restore the folder from a copy, or start from scratch without it (which loses its rows and state)";

/// An operation on a file failed.
pub(crate) fn failed(what: &str, path: &Path, error: io::Error) -> Cause {
    let text = format!("{}: cannot {what}: {error}", path.display());
    let cause = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Cause::resource(format!("{text}; free space there, and the query continues"))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Cause::user(format!("{text}; allow this user to write there, or choose another folder"))
        }
        _ => Cause::operation(text),
    };
    cause.with_source(error)
}

/// A file contains something that was not written by this program.
pub(crate) fn damaged(path: &Path, offset: u64, reason: impl Display) -> Cause {
    Cause::operation(format!("{}, byte {offset}: damaged: {reason}; {REMEDY}", path.display()))
}

/// A file was written by another program, or by another version of this one.
pub(crate) fn foreign(path: &Path, reason: impl Display, remedy: &str) -> Cause {
    Cause::user(format!("{}: {reason}; {remedy}", path.display()))
}

/// A version that this program cannot read.
pub(crate) fn other_version(path: &Path, found: u32, known: u32) -> Cause {
    let reason = format!("the format has version {found}, but this program reads version {known}");
    foreign(path, reason, "use the program that wrote it, or choose another folder")
}
