//! Expands `**` to a folder and all folders below it, each once.
//!
//! Links are followed, but a folder is not entered a second time under another name: circular links would make endless
//! paths.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

use super::failure::failed;
use super::offset::{FileIdentity, identity};

/// Walks through folders.
#[derive(Default)]
pub(super) struct FolderWalk {
    met: HashSet<(u64, u64)>,
    found: Vec<PathBuf>,
    links: Vec<PathBuf>,
}

impl FolderWalk {
    /// These folders and the folders below them, real ones before those that links lead to.
    pub(super) fn below(starts: Vec<PathBuf>) -> Result<Vec<PathBuf>, Cause> {
        let mut walk = FolderWalk { links: starts, ..FolderWalk::default() };
        while !walk.links.is_empty() {
            for link in std::mem::take(&mut walk.links) {
                walk.enter(link)?;
            }
        }
        Ok(walk.found)
    }

    /// Walks through real folders, and collects the links to others for later.
    fn enter(&mut self, start: PathBuf) -> Result<(), Cause> {
        let mut waiting = vec![start];
        while let Some(folder) = waiting.pop() {
            let (own, mut entries) = match look(&folder) {
                Ok(found) => found,
                // It was removed at this moment, or is not a folder.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(&folder.display().to_string(), error)),
            };
            if own.is_some_and(|own| !self.met.insert(own)) {
                continue;
            }
            entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.file_name()));
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                    Ok(kind) if kind.is_symlink() && entry.path().is_dir() => self.links.push(entry.path()),
                    _ => {}
                }
            }
            self.found.push(folder);
        }
        Ok(())
    }
}

/// Identifies the folder and reads its entries. As with `*`, names that begin with a dot do not match.
fn look(folder: &Path) -> io::Result<(FileIdentity, Vec<DirEntry>)> {
    let entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let is_meant = |entry: &DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    Ok((identity(&folder.metadata()?), entries.into_iter().filter(is_meant).collect()))
}
