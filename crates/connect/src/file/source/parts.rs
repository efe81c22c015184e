//! The files of a source that ends: which of them an earlier run has read, and how far.
//!
//! What was read of them must still be there. If it is not, the rows in the journal no longer match the files, and the
//! source is refused.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::PathBuf;

use tidemill_core::error::Cause;
use tidemill_core::source::{SourceOffset, SourceOffsets};

use super::failure::failed;
use super::offset::{FileIdentity, FileOffset, Fingerprints, identity, read_piece};
use super::text_progress::TextProgress;
use crate::fetch::FetchedFile;
use crate::file::gzip_read::begins_gzip;
use crate::file::zstd_read::begins_zstd;
use crate::formats::{Format, SHAPE_BYTES, TextShape};

/// A file, or the rest of one, that is still to be read.
pub(super) struct FilePart {
    pub part: u64,
    /// For a fetched file: where it came from.
    pub path: PathBuf,
    pub identity: FileIdentity,
    pub start: FileOffset,
    /// The content, if it was fetched.
    pub fetched: Option<FetchedFile>,
}

impl FilePart {
    fn new(part: u64, path: PathBuf) -> FilePart {
        let identity = path.metadata().ok().and_then(|metadata| identity(&metadata));
        let start = FileOffset::start(path.clone(), identity);
        FilePart { part, path, identity, start, fetched: None }
    }

    /// A file that was fetched.
    pub(super) fn of_fetched(part: u64, fetched: FetchedFile) -> FilePart {
        let path = PathBuf::from(&fetched.name);
        let start = FileOffset::start(path.clone(), None);
        FilePart { part, path, identity: None, start, fetched: Some(fetched) }
    }

    /// Opens it at its beginning.
    pub(super) fn open(&self) -> io::Result<File> {
        match &self.fetched {
            Some(fetched) => fetched.open(),
            None => File::open(&self.path),
        }
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// How far it was read.
    pub(super) fn offset(
        &self,
        track: &TextProgress,
        prints: Fingerprints,
        is_complete: bool,
    ) -> SourceOffset {
        let (path, identity) = (self.path.clone(), self.identity);
        let TextProgress { offset, line, rows, .. } = *track;
        let offset = FileOffset { path, identity, prints, offset, line, rows, is_complete };
        SourceOffset { part: self.part, at: Some(offset.encode()) }
    }
}

/// Files that have not been read yet.
pub(super) fn parts_of(paths: Vec<PathBuf>) -> VecDeque<FilePart> {
    paths.into_iter().zip(0..).map(|(path, part)| FilePart::new(part, path)).collect()
}

/// What earlier runs left unread of these files, in the same order, without those that were read completely.
///
/// # Errors
/// If a file that was read has different content now, or one that was read in part does not exist any more.
pub(super) fn parts_left(
    files: VecDeque<FilePart>,
    offsets: &SourceOffsets,
    format: &Format,
) -> Result<VecDeque<FilePart>, Cause> {
    let mut known = JournaledFiles::of(offsets, &files)?;
    let mut left = VecDeque::new();
    for file in files {
        let Some((part, offset)) = known.take(&file, format)? else {
            left.push_back(FilePart { part: known.new_part(), ..file });
            continue;
        };
        let rest = rest_of(&file, &offset, format);
        if rest.map_err(|error| failed(&file.name(), error))? {
            left.push_back(FilePart { part, start: FileOffset { is_complete: false, ..offset }, ..file });
        }
    }
    known.check_all_found()?;
    Ok(left)
}

/// Whether there is something left to read of a file, which still begins with what was read.
fn rest_of(part: &FilePart, offset: &FileOffset, format: &Format) -> io::Result<bool> {
    if !offset.is_complete {
        return Ok(true);
    }
    if !format.is_text() {
        return Ok(false);
    }
    Ok(part.open()?.metadata()?.len() > offset.offset)
}

/// Whether what was read of a file is still in it, and only whole records were added behind it.
fn is_as_it_was(part: &FilePart, offset: &FileOffset, format: &Format) -> io::Result<bool> {
    let mut file = part.open()?;
    if !offset.prints.are_of(&mut file)? {
        return Ok(false);
    }
    if file.metadata()?.len() == offset.prints.extent {
        return Ok(true);
    }
    // It has grown. Only plain lines can be continued, after a complete line.
    let start = read_piece(&mut file, 0, SHAPE_BYTES as u64)?;
    let is_lines = || TextShape::of(&start, true, format).flatten().is_none();
    if !format.is_text() || begins_zstd(&start) || begins_gzip(&start) || !is_lines() {
        return Ok(false);
    }
    Ok(!offset.is_complete || offset.offset == 0 || read_piece(&mut file, offset.offset - 1, 1)? == b"\n")
}

/// The journal's knowledge of files.
struct JournaledFiles {
    offsets: BTreeMap<u64, FileOffset>,
    by_path: HashMap<PathBuf, u64>,
    by_identity: HashMap<(u64, u64), u64>,
    /// The existing paths.
    listed: HashSet<PathBuf>,
    next_part: u64,
}

impl JournaledFiles {
    fn of(offsets: &SourceOffsets, files: &VecDeque<FilePart>) -> Result<JournaledFiles, Cause> {
        let decoded = offsets.iter().map(|(part, at)| Ok((*part, FileOffset::decode(at)?)));
        let offsets: BTreeMap<u64, FileOffset> = decoded.collect::<Result<_, Cause>>()?;
        let by_path = offsets.iter().map(|(part, offset)| (offset.path.clone(), *part)).collect();
        let by_identity =
            offsets.iter().filter_map(|(part, offset)| Some((offset.identity?, *part))).collect();
        let listed = files.iter().map(|file| file.path.clone()).collect();
        let next_part = offsets.last_key_value().map_or(0, |(part, _)| part + 1);
        Ok(JournaledFiles { offsets, by_path, by_identity, listed, next_part })
    }

    fn new_part(&mut self) -> u64 {
        self.next_part += 1;
        self.next_part - 1
    }

    /// What is known of a file, found by its name or, if it was renamed, by its inode.
    fn take(&mut self, file: &FilePart, format: &Format) -> Result<Option<(u64, FileOffset)>, Cause> {
        let is_own = |offset: &FileOffset| {
            is_as_it_was(file, offset, format).map_err(|error| failed(&file.name(), error))
        };
        if let Some(part) = self.by_path.get(&file.path).copied() {
            let Some(offset) = self.offsets.remove(&part) else { return Ok(None) };
            return if is_own(&offset)? { Ok(Some((part, offset))) } else { Err(has_changed(&file.name())) };
        }
        let by_identity = file.identity.and_then(|own| self.by_identity.get(&own)).copied();
        let Some(part) = by_identity else { return Ok(None) };
        let Some(offset) = self.offsets.get(&part) else { return Ok(None) };
        if self.listed.contains(&offset.path) || !is_own(offset)? {
            return Ok(None);
        }
        Ok(self.offsets.remove(&part).map(|offset| (part, offset)))
    }

    /// Refuses to leave out the rest of a file.
    fn check_all_found(&self) -> Result<(), Cause> {
        let Some(offset) = self.offsets.values().find(|offset| !offset.is_complete) else { return Ok(()) };
        Err(Cause::user(format!(
            "{}: the file was partly read and no longer exists; put it back, or start over with another \
             journal",
            offset.path.display()
        )))
    }
}

fn has_changed(name: &str) -> Cause {
    Cause::user(format!(
        "{name}: the file has changed since its rows were journaled; restore it and put new rows into a new \
         file, or start over with another journal"
    ))
}
