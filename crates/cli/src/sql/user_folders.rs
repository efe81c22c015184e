//! Where this program stores data for a user.

use std::env;
use std::path::PathBuf;

const PROGRAM: &str = "tidemill";

/// Data to keep: the history of the prompt. `None` if there is no place for it.
pub(crate) fn state() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// Data that can be recreated: measurements. `None` if there is no place for it.
pub(crate) fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

fn folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = if cfg!(windows) {
        named("LOCALAPPDATA")
    } else {
        named(variable).or_else(|| Some(named("HOME")?.join(in_home)))
    };
    Some(folder?.join(PROGRAM))
}
