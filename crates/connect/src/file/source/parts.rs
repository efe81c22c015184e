//! The files of a source that ends: which of them an earlier run has read, and how far.
//!
//! What was read of them must still be there. If it is not, the rows in the journal no longer match the files, and the
//! source is refused.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::source::{Place, Places};

use super::failure::failed;
use super::place::{FilePlace, Identity, Prints, identity, read_piece};
use super::track::TextTrack;
use crate::file::zstd_read::begins_zstd;
use crate::formats::Format;

/// A file, or the rest of one, that is still to be read.
pub(super) struct FilePart {
    pub part: u64,
    pub path: PathBuf,
    pub identity: Identity,
    pub start: FilePlace,
}

impl FilePart {
    fn new(part: u64, path: PathBuf) -> FilePart {
        let identity = path.metadata().ok().and_then(|metadata| identity(&metadata));
        let start = FilePlace::start(path.clone(), identity);
        FilePart { part, path, identity, start }
    }

    /// How far it was read.
    pub(super) fn place(&self, track: &TextTrack, prints: Prints, is_complete: bool) -> Place {
        let (path, identity) = (self.path.clone(), self.identity);
        let TextTrack { offset, line, rows, .. } = *track;
        let place = FilePlace { path, identity, prints, offset, line, rows, is_complete };
        Place { part: self.part, at: Some(place.encode()) }
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
    places: &Places,
    format: &Format,
) -> Result<VecDeque<FilePart>, Cause> {
    let mut known = Known::of(places, &files)?;
    let mut left = VecDeque::new();
    for file in files {
        let Some((part, place)) = known.take(&file, format)? else {
            left.push_back(FilePart { part: known.new_part(), ..file });
            continue;
        };
        let rest = rest_of(&file.path, &place, format);
        if rest.map_err(|error| failed(&file.path.display().to_string(), error))? {
            left.push_back(FilePart { part, start: FilePlace { is_complete: false, ..place }, ..file });
        }
    }
    known.check_all_found()?;
    Ok(left)
}

/// Whether there is something left to read of a file, which still begins with what was read.
fn rest_of(path: &Path, place: &FilePlace, format: &Format) -> io::Result<bool> {
    if !place.is_complete {
        return Ok(true);
    }
    if !format.is_text() {
        return Ok(false);
    }
    Ok(path.metadata()?.len() > place.offset)
}

/// Whether what was read of a file is still in it, and only whole records were added behind it.
fn is_as_it_was(path: &Path, place: &FilePlace, format: &Format) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if !place.prints.are_of(&mut file)? {
        return Ok(false);
    }
    if file.metadata()?.len() == place.prints.extent {
        return Ok(true);
    }
    // It has grown. Only plain text can be continued, after a complete line.
    if !format.is_text() || begins_zstd(&read_piece(&mut file, 0, 4)?) {
        return Ok(false);
    }
    Ok(!place.is_complete || place.offset == 0 || read_piece(&mut file, place.offset - 1, 1)? == b"\n")
}

/// The journal's knowledge of files.
struct Known {
    places: BTreeMap<u64, FilePlace>,
    by_path: HashMap<PathBuf, u64>,
    by_identity: HashMap<(u64, u64), u64>,
    /// The existing paths.
    listed: HashSet<PathBuf>,
    next_part: u64,
}

impl Known {
    fn of(places: &Places, files: &VecDeque<FilePart>) -> Result<Known, Cause> {
        let decoded = places.iter().map(|(part, at)| Ok((*part, FilePlace::decode(at)?)));
        let places: BTreeMap<u64, FilePlace> = decoded.collect::<Result<_, Cause>>()?;
        let by_path = places.iter().map(|(part, place)| (place.path.clone(), *part)).collect();
        let by_identity = places.iter().filter_map(|(part, place)| Some((place.identity?, *part))).collect();
        let listed = files.iter().map(|file| file.path.clone()).collect();
        let next_part = places.last_key_value().map_or(0, |(part, _)| part + 1);
        Ok(Known { places, by_path, by_identity, listed, next_part })
    }

    fn new_part(&mut self) -> u64 {
        self.next_part += 1;
        self.next_part - 1
    }

    /// What is known of a file, found by its name or, if it was renamed, by its inode.
    fn take(&mut self, file: &FilePart, format: &Format) -> Result<Option<(u64, FilePlace)>, Cause> {
        let name = || file.path.display().to_string();
        let is_own = |place: &FilePlace| {
            is_as_it_was(&file.path, place, format).map_err(|error| failed(&name(), error))
        };
        if let Some(part) = self.by_path.get(&file.path).copied() {
            let Some(place) = self.places.remove(&part) else { return Ok(None) };
            return match is_own(&place)? {
                true => Ok(Some((part, place))),
                false => Err(has_changed(&name())),
            };
        }
        let by_identity = file.identity.and_then(|own| self.by_identity.get(&own)).copied();
        let Some(part) = by_identity else { return Ok(None) };
        let Some(place) = self.places.get(&part) else { return Ok(None) };
        if self.listed.contains(&place.path) || !is_own(place)? {
            return Ok(None);
        }
        Ok(self.places.remove(&part).map(|place| (part, place)))
    }

    /// Refuses to leave out the rest of a file.
    fn check_all_found(&self) -> Result<(), Cause> {
        let Some(place) = self.places.values().find(|place| !place.is_complete) else { return Ok(()) };
        Err(Cause::user(format!(
            "{}: the file was read in part and is not there any more; put it back, or start over with another journal",
            place.path.display()
        )))
    }
}

fn has_changed(name: &str) -> Cause {
    Cause::user(format!(
        "{name}: the file has changed since its rows were journaled; put it back as it was and new rows into a new \
         file, or start over with another journal"
    ))
}
