//! Whether two arguments name one file.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether two paths lead to one file, which need not exist yet.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    place(one) == place(other) || identity(one).is_some_and(|file| identity(other) == Some(file))
}

/// The path of a file without links, also behind a link to a file that does not exist yet.
fn place(path: &Path) -> PathBuf {
    let folder_of = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { break };
        path = folder_of(&path).join(target);
    }
    let folder = folder_of(&path).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// The links from one to the next that are followed; systems follow no more than 40.
const LINKS_MAX: usize = 40;

/// Names a file that exists, whichever of its hard links leads to it.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}
