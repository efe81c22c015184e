//! Copies of followed files. Some log rotations copy a file and then empty it (`copytruncate`), so the copy has rows that
//! were read already. It is recognised by its name, which begins with that of the file, and by its content.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::path::Path;

use tidemill_core::error::Cause;

use super::failure::failed;
use super::offset::{FileOffset, HEAD_BYTES, TAIL_BYTES, read_piece};

/// How many emptied files are remembered until their copies are found.
const EMPTIED_MAX: usize = 100;

/// Whether a new file is a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyCheck {
    No,
    /// It has the beginning of what was read so far. It may still be growing.
    Unfinished,
    /// It has everything that was read, up to this offset.
    Of(FileOffset),
}

/// The files that were emptied recently, as they were before.
#[derive(Debug, Default)]
pub(super) struct EmptiedFiles {
    offsets: VecDeque<FileOffset>,
}

impl EmptiedFiles {
    pub(super) fn note(&mut self, offset: FileOffset) {
        self.offsets.push_back(offset);
        if self.offsets.len() > EMPTIED_MAX {
            self.offsets.pop_front();
        }
    }

    /// Finds out what a new file is, compared with the files that are followed and read up to these offsets.
    pub(super) fn copy_at(
        &self,
        path: &Path,
        followed: impl Iterator<Item = FileOffset>,
    ) -> Result<CopyCheck, Cause> {
        for offset in followed.filter(|offset| is_named_after(path, &offset.path)) {
            match compare(path, &offset).map_err(|error| failed(&path.display().to_string(), error))? {
                CopyCheck::No => {}
                copy => return Ok(copy),
            }
        }
        for offset in self.offsets.iter().rev().filter(|offset| is_named_after(path, &offset.path)) {
            if has_all(path, offset).map_err(|error| failed(&path.display().to_string(), error))? {
                return Ok(CopyCheck::Of(offset.clone()));
            }
        }
        Ok(CopyCheck::No)
    }
}

/// Files by their names, to find those that another file is named after: there may be a hundred thousand, and as many new ones.
#[derive(Debug, Default)]
pub(super) struct FilesByName {
    files: HashMap<Vec<u8>, usize>,
    /// The lengths of their names.
    lengths: BTreeSet<usize>,
}

impl FilesByName {
    /// Adds a file, with the number that it is found by.
    pub(super) fn add(&mut self, path: &Path, file: usize) {
        let Some(name) = path.file_name() else { return };
        self.lengths.insert(name.len());
        self.files.insert(key(path, name.as_encoded_bytes()), file);
    }

    /// Returns the files that another one is named after, ascending.
    pub(super) fn originals(&self, path: &Path) -> BTreeSet<usize> {
        let Some(name) = path.file_name() else { return BTreeSet::new() };
        let beginning = |length: &usize| key(path, &name.as_encoded_bytes()[..*length]);
        let lengths = self.lengths.range(..name.len());
        lengths.filter_map(|length| self.files.get(&beginning(length)).copied()).collect()
    }
}

/// The folder of a file, and a name in it.
fn key(path: &Path, name: &[u8]) -> Vec<u8> {
    let folder = path.parent().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes();
    [folder, b"/", name].concat()
}

/// Whether the name is that of another file in the same folder, with a suffix.
fn is_named_after(path: &Path, other: &Path) -> bool {
    let (Some(name), Some(begin)) = (path.file_name(), other.file_name()) else { return false };
    let (name, begin) = (name.as_encoded_bytes(), begin.as_encoded_bytes());
    name.len() > begin.len() && name.starts_with(begin) && path.parent() == other.parent()
}

fn has_all(path: &Path, offset: &FileOffset) -> std::io::Result<bool> {
    if offset.prints.extent == 0 {
        return Ok(false);
    }
    offset.prints.are_of(&mut File::open(path)?)
}

/// Compares a file with an existing one that is read up to an offset.
fn compare(path: &Path, offset: &FileOffset) -> std::io::Result<CopyCheck> {
    if has_all(path, offset)? {
        return Ok(CopyCheck::Of(offset.clone()));
    }
    let mut copy = File::open(path)?;
    let length = copy.metadata()?.len();
    if length == 0 || length >= offset.prints.extent {
        return Ok(CopyCheck::No);
    }
    let Ok(mut original) = File::open(&offset.path) else { return Ok(CopyCheck::No) };
    let tail_bytes = length.min(TAIL_BYTES as u64);
    for (start, bytes) in [(0, length.min(HEAD_BYTES as u64)), (length - tail_bytes, tail_bytes)] {
        if read_piece(&mut copy, start, bytes)? != read_piece(&mut original, start, bytes)? {
            return Ok(CopyCheck::No);
        }
    }
    Ok(CopyCheck::Unfinished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_named_after_its_file() {
        let is = |path: &str, other: &str| is_named_after(Path::new(path), Path::new(other));
        assert!(is("logs/app.log.1", "logs/app.log") && is("logs/app.log-20260131", "logs/app.log"));
        assert!(!is("logs/app.log", "logs/app.log") && !is("logs/db.log.1", "logs/app.log"));
        assert!(!is("old/app.log.1", "logs/app.log"));
    }

    #[test]
    fn originals_are_found_by_their_names() {
        let names = ["app.log", "app", "app.log.1", "b", "ü", "logs/app.log", "logs/b", "/app.log", "üb", ""];
        let paths: Vec<&Path> = names.iter().map(Path::new).collect();
        let mut files = FilesByName::default();
        paths.iter().enumerate().for_each(|(file, path)| files.add(path, file));
        for path in ["app.log.1.gz", "logs/app.log-2026", "üb.1", "b2", "a", "/app.log.2", "x/app.log.1", ""]
        {
            let path = Path::new(path);
            let named = (0..paths.len()).filter(|file| is_named_after(path, paths[*file]));
            assert_eq!(files.originals(path), named.collect(), "{}", path.display());
        }
    }
}
