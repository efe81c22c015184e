//! A file that is followed.

use std::path::PathBuf;

use tidemill_core::source::SourceOffset;

use super::offset::{FileIdentity, FileOffset, Fingerprints};
use super::text_progress::TextProgress;

/// Which file it is.
pub(super) struct Entry {
    pub part: u64,
    pub path: PathBuf,
    pub identity: FileIdentity,
    /// No name that is read leads to it any more. It is read to its end and then dropped.
    pub is_gone: bool,
}

impl Entry {
    /// How far it was read.
    pub(super) fn file_offset(
        &self,
        track: &TextProgress,
        prints: Fingerprints,
        is_complete: bool,
    ) -> FileOffset {
        let (path, identity) = (self.path.clone(), self.identity);
        let TextProgress { offset, line, rows, .. } = *track;
        FileOffset { path, identity, prints, offset, line, rows, is_complete }
    }

    pub(super) fn offset(
        &self,
        track: &TextProgress,
        prints: Fingerprints,
        is_complete: bool,
    ) -> SourceOffset {
        SourceOffset { part: self.part, at: Some(self.file_offset(track, prints, is_complete).encode()) }
    }
}
