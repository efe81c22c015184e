//! A file that is followed.

use std::path::PathBuf;

use tidemill_core::source::Place;

use super::place::{FilePlace, Identity, Prints};
use super::track::TextTrack;

/// Which file it is.
pub(super) struct Entry {
    pub part: u64,
    pub path: PathBuf,
    pub identity: Identity,
    /// No name that is read leads to it any more. It is read to its end and then dropped.
    pub is_gone: bool,
}

impl Entry {
    /// How far it was read.
    pub(super) fn file_place(&self, track: &TextTrack, prints: Prints, is_complete: bool) -> FilePlace {
        let (path, identity) = (self.path.clone(), self.identity);
        let TextTrack { offset, line, rows, .. } = *track;
        FilePlace { path, identity, prints, offset, line, rows, is_complete }
    }

    pub(super) fn place(&self, track: &TextTrack, prints: Prints, is_complete: bool) -> Place {
        Place { part: self.part, at: Some(self.file_place(track, prints, is_complete).encode()) }
    }
}
