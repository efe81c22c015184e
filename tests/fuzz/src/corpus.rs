//! The files that are damaged: `corpus/<target>/`.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a target.
pub fn folder(target: &str) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("corpus").join(target)
}

/// The files of a target and of the folders in it, each with its path below the target's, in order.
///
/// # Panics
/// If there are none.
pub fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder(target);
    let mut files = Vec::new();
    collect(&folder, &folder, &mut files);
    assert!(!files.is_empty(), "{}: there is nothing to damage", folder.display());
    files.sort();
    files
}

/// The contents of [`files`].
pub fn contents(target: &str) -> Vec<Vec<u8>> {
    files(target).into_iter().map(|(_, bytes)| bytes).collect()
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(root).map(Path::to_owned).unwrap_or(path);
            files.push((name, bytes));
        }
    }
}
