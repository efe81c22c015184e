//! Files that were read before and are not being followed now: files of an earlier run that were not found yet, and
//! files that disappeared. Each may reappear under its name or under another one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, SourceOffsets};

use super::failure::failed;
use super::offset::{FileIdentity, FileOffset, identity};

/// How many absent files are remembered.
const ABSENT_MAX: usize = 1000;

#[derive(Default)]
pub(super) struct UnfollowedFiles {
    offsets: BTreeMap<u64, FileOffset>,
    by_identity: HashMap<(u64, u64), u64>,
    by_path: HashMap<PathBuf, u64>,
    /// Parts about which nothing is known any more, since this was last asked.
    forgotten: Vec<u64>,
    /// Files that were emptied since the earlier run, until these are taken.
    emptied: Vec<FileOffset>,
}

impl UnfollowedFiles {
    /// What a journal knows of earlier runs.
    pub(super) fn of(offsets: &SourceOffsets) -> Result<UnfollowedFiles, Cause> {
        let mut remembered = UnfollowedFiles::default();
        for (part, at) in offsets {
            remembered.insert(*part, FileOffset::decode(at)?);
        }
        Ok(remembered)
    }

    pub(super) fn insert(&mut self, part: u64, offset: FileOffset) {
        if let Some(identity) = offset.identity {
            self.by_identity.insert(identity, part);
        }
        self.by_path.insert(offset.path.clone(), part);
        self.offsets.insert(part, offset);
    }

    pub(super) fn remove(&mut self, part: u64) -> Option<FileOffset> {
        let offset = self.offsets.remove(&part)?;
        if let Some(identity) = offset.identity
            && self.by_identity.get(&identity) == Some(&part)
        {
            self.by_identity.remove(&identity);
        }
        if self.by_path.get(&offset.path) == Some(&part) {
            self.by_path.remove(&offset.path);
        }
        Some(offset)
    }

    fn forget(&mut self, part: u64) -> Option<FileOffset> {
        self.forgotten.push(part);
        self.remove(part)
    }

    /// Parts about which nothing is known any more, since this was last asked.
    pub(super) fn take_forgotten(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.forgotten)
    }

    /// Files that were emptied or replaced since the earlier run, as they were, since this was last asked.
    pub(super) fn take_emptied(&mut self) -> Vec<FileOffset> {
        std::mem::take(&mut self.emptied)
    }

    /// The largest part number.
    pub(super) fn last_part(&self) -> Option<u64> {
        self.offsets.last_key_value().map(|(part, _)| *part)
    }

    pub(super) fn offsets(&self) -> impl Iterator<Item = (u64, &FileOffset)> {
        self.offsets.iter().map(|(part, offset)| (*part, offset))
    }

    /// Drops the oldest absent files if there are too many.
    pub(super) fn forget_oldest(&mut self) {
        let too_many = self.offsets.len().saturating_sub(ABSENT_MAX);
        let oldest: Vec<u64> = self.offsets.keys().take(too_many).copied().collect();
        oldest.iter().for_each(|part| _ = self.forget(*part));
    }

    /// The part of a file that has just been found, and how far it was read; the file is no longer remembered then.
    /// `present` are the existing files. A file with different content than what was read is a new file, which is
    /// reported.
    pub(super) fn take(
        &mut self,
        path: &Path,
        own: FileIdentity,
        present: &HashSet<(u64, u64)>,
        faults: &mut Faults,
    ) -> Result<Option<(u64, FileOffset)>, Cause> {
        let by_path = self.by_path.get(path).copied();
        let by_identity = own.and_then(|own| self.by_identity.get(&own)).copied();
        for part in [by_path, by_identity].into_iter().flatten() {
            let offset = &self.offsets[&part];
            let is_own = own.is_none() || offset.identity == own;
            // The file that had the name has another one now.
            let is_elsewhere = !is_own && offset.identity.is_some_and(|there| present.contains(&there));
            if is_elsewhere || !has_content(path, offset)? {
                continue;
            }
            return Ok(self.remove(part).map(|offset| (part, offset)));
        }
        // Nothing can be lost from a file that was complete.
        let lost = by_path.filter(|part| {
            let offset = &self.offsets[part];
            let is_elsewhere =
                offset.identity != own && offset.identity.is_some_and(|there| present.contains(&there));
            !offset.is_complete && !is_elsewhere
        });
        if let Some(offset) = lost.and_then(|part| self.forget(part)) {
            faults.notice(format!(
                "{}: the file was truncated or replaced; it had been read up to byte {}, and is now read from \
                 its start",
                path.display(),
                offset.prints.extent
            ));
            self.emptied.push(offset);
        }
        Ok(None)
    }

    /// Finds remembered files that none of the names that are read leads to, and that were not read to their ends, in
    /// the folders where they were.
    pub(super) fn elsewhere(&self, present: &HashSet<(u64, u64)>) -> Result<Vec<(u64, PathBuf)>, Cause> {
        let is_sought = |offset: &FileOffset| !offset.is_complete && offset.identity.is_some();
        let sought = self.offsets().filter(|(_, offset)| is_sought(offset));
        let sought =
            sought.filter(|(_, offset)| offset.identity.is_none_or(|there| !present.contains(&there)));
        let mut folders: HashMap<PathBuf, HashMap<(u64, u64), PathBuf>> = HashMap::new();
        let mut found = Vec::new();
        for (part, offset) in sought {
            let folder = folder_of(&offset.path);
            let files = folders.entry(folder).or_insert_with_key(|folder| identities(folder));
            let Some(path) = offset.identity.and_then(|there| files.get(&there)) else { continue };
            if has_content(path, offset)? {
                found.push((part, path.clone()));
            }
        }
        Ok(found)
    }
}

/// The path, in the same folder, of a file that had this path.
pub(super) fn renamed(path: &Path, own: FileIdentity) -> Option<PathBuf> {
    identities(&folder_of(path)).remove(&own?)
}

fn folder_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// All files of a folder; none if it cannot be read.
fn identities(folder: &Path) -> HashMap<(u64, u64), PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some((identity(&metadata)?, entry.path()))
    };
    entries.filter_map(file).collect()
}

/// Whether a file begins with what was read.
fn has_content(path: &Path, offset: &FileOffset) -> Result<bool, Cause> {
    let same = File::open(path).and_then(|mut file| offset.prints.are_of(&mut file));
    match same {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        other => other.map_err(|error| failed(&path.display().to_string(), error)),
    }
}
