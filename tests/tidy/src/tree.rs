//! The repository's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders with code of ours.
pub const CODE_FOLDERS: &[&str] = &["apps", "bench", "crates", "docs", "examples", "tests"];

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

/// All files and folders below the code folders, relative to the root with `/` between names, in order. Build
/// outputs (`target`) and hidden ones are left out.
pub fn paths(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for folder in CODE_FOLDERS.iter().filter(|folder| root.join(folder).is_dir()) {
        collect(root, folder, &mut paths)?;
    }
    paths.sort();
    Ok(paths)
}

fn collect(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            collect(root, &path, paths)?;
        }
        paths.push(path);
    }
    Ok(())
}

/// The folders right below `crates/`, `apps/`, `tests/` and `examples/` that have something in them.
pub fn mapped_folders(paths: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            let mut names = path.split('/');
            let (top, folder) = (names.next()?, names.next()?);
            names.next()?;
            MAPPED.contains(&top).then(|| format!("{top}/{folder}"))
        })
        .collect();
    folders.dedup();
    folders
}

/// The folders whose folders are in the map.
pub const MAPPED: &[&str] = &["apps", "crates", "examples", "tests"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_folders_and_files_are_not_mapped() {
        let paths =
            ["crates/core", "crates/core/src", "crates/core/src/lib.rs", "examples/one.rs", "tests/new"];
        let paths: Vec<String> = paths.map(str::to_owned).into();
        assert_eq!(mapped_folders(&paths), ["crates/core"]);
    }
}
