//! Where the prompt keeps what was typed.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The file, in a folder that is there; `None` if there is no place for it.
pub(crate) fn file() -> Option<PathBuf> {
    let folder = state_folder()?.join("tidemill");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// Where programs keep what they remember about a user.
fn state_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    match cfg!(windows) {
        true => folder("LOCALAPPDATA"),
        false => folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state"))),
    }
}
