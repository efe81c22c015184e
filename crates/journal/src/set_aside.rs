//! Journals that are to be removed. They get another name first, so that a new one of the same name has a folder of its own, and
//! a crash in between leaves a folder that is known to be superfluous.

use std::fs;
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

use crate::disk::Disk;
use crate::failure::failed;
use crate::layout;
use crate::medium::Medium;

/// What the name of a folder begins with that is to be removed.
const PREFIX: &str = "removed-";

/// Gives the folder of a journal another name, durably, and returns its path there, to be removed. `None`: there is no such folder,
/// or somebody has the journal open.
///
/// # Errors
/// If the disk fails.
///
/// ```
/// # use tidemill_journal::{Journal, set_aside};
/// let above = tempfile::tempdir()?;
/// let folder = above.path().join("query-a");
/// let open = Journal::open(&folder)?;
/// assert_eq!(set_aside::set_aside(&folder)?, None);
/// drop(open);
/// assert!(set_aside::set_aside(&folder)?.is_some_and(|aside| aside.exists() && !folder.exists()));
/// set_aside::remove_all(above.path())?;
/// assert_eq!(above.path().read_dir()?.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_aside(folder: &Path) -> Result<Option<PathBuf>, Cause> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(None) };
    if !folder.is_dir() {
        return Ok(None);
    }
    let path = layout::lock(folder);
    let lock = Disk.lock(&path).map_err(|error| failed("lock", &path, error))?;
    if lock.is_none() {
        return Ok(None);
    }
    let aside = |number: u64| above.join(format!("{PREFIX}{}-{number}", name.to_string_lossy()));
    let aside = (0..).map(aside).find(|path| !path.exists());
    let aside = aside.ok_or_else(|| Cause::bug("every number is taken"))?;
    let moved = fs::rename(folder, &aside).and_then(|()| Disk.sync_folder(above));
    moved.map_err(|error| failed("rename", folder, error))?;
    Ok(Some(aside))
}

/// Removes a folder with everything in it.
///
/// # Errors
/// If the disk fails.
pub fn remove(folder: &Path) -> Result<(), Cause> {
    Disk.remove_folder(folder).map_err(|error| failed("remove", folder, error))
}

/// Removes what was set aside in a folder, and not yet removed.
///
/// # Errors
/// If the disk fails.
pub fn remove_all(above: &Path) -> Result<(), Cause> {
    let names = Disk.names(above).map_err(|error| failed("list", above, error))?;
    names.iter().filter(|name| name.starts_with(PREFIX)).try_for_each(|name| remove(&above.join(name)))
}
