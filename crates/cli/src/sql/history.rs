//! The prompt's history file.

use std::fs;
use std::path::PathBuf;

use super::user_folders;

/// The file, in an existing folder; `None` if there is no place for it.
pub(crate) fn file() -> Option<PathBuf> {
    let folder = user_folders::state()?;
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
