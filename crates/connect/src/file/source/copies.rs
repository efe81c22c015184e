//! Copies of followed files. Some log rotations copy a file and then empty it (`copytruncate`), so the copy has rows that
//! were read already. It is recognised by its name, which begins with that of the file, and by its content.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

use tidemill_core::error::Cause;

use super::failure::failed;
use super::place::{FilePlace, HEAD_BYTES, TAIL_BYTES, read_piece};

/// How many emptied files are remembered until their copies are found.
const EMPTIED_MAX: usize = 100;

/// Whether a new file is a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copy {
    No,
    /// It has the beginning of what was read so far. It may still be growing.
    Unfinished,
    /// It has everything that was read, up to this place.
    Of(FilePlace),
}

/// The files that were emptied recently, as they were before.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    places: VecDeque<FilePlace>,
}

impl Emptied {
    pub(super) fn note(&mut self, place: FilePlace) {
        self.places.push_back(place);
        if self.places.len() > EMPTIED_MAX {
            self.places.pop_front();
        }
    }

    /// Finds out what a new file is, compared with the files that are followed and read up to these places.
    pub(super) fn copy_at(
        &self,
        path: &Path,
        followed: impl Iterator<Item = FilePlace>,
    ) -> Result<Copy, Cause> {
        for place in followed.filter(|place| is_named_after(path, &place.path)) {
            match compare(path, &place).map_err(|error| failed(&path.display().to_string(), error))? {
                Copy::No => {}
                copy => return Ok(copy),
            }
        }
        for place in self.places.iter().rev().filter(|place| is_named_after(path, &place.path)) {
            if has_all(path, place).map_err(|error| failed(&path.display().to_string(), error))? {
                return Ok(Copy::Of(place.clone()));
            }
        }
        Ok(Copy::No)
    }
}

/// Whether the name is that of another file in the same folder, with a suffix.
fn is_named_after(path: &Path, other: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.as_encoded_bytes().to_vec());
    let (Some(name), Some(begin)) = (name(path), name(other)) else { return false };
    path.parent() == other.parent() && name.len() > begin.len() && name.starts_with(&begin)
}

fn has_all(path: &Path, place: &FilePlace) -> std::io::Result<bool> {
    if place.prints.extent == 0 {
        return Ok(false);
    }
    place.prints.are_of(&mut File::open(path)?)
}

/// Compares a file with an existing one that is read up to a place.
fn compare(path: &Path, place: &FilePlace) -> std::io::Result<Copy> {
    if has_all(path, place)? {
        return Ok(Copy::Of(place.clone()));
    }
    let mut copy = File::open(path)?;
    let length = copy.metadata()?.len();
    if length == 0 || length >= place.prints.extent {
        return Ok(Copy::No);
    }
    let Ok(mut original) = File::open(&place.path) else { return Ok(Copy::No) };
    let tail_bytes = length.min(TAIL_BYTES as u64);
    for (start, bytes) in [(0, length.min(HEAD_BYTES as u64)), (length - tail_bytes, tail_bytes)] {
        if read_piece(&mut copy, start, bytes)? != read_piece(&mut original, start, bytes)? {
            return Ok(Copy::No);
        }
    }
    Ok(Copy::Unfinished)
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
}
