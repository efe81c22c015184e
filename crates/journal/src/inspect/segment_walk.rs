//! The records of a log one after the other, through all of its segments, while somebody may write to it and remove from
//! it.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

use super::{missing, open_segment, segments};
use crate::medium::Medium;
use crate::scan::{Next, Scan, ScannedRecord};
use crate::segment::{SegmentHead, segment_name};

/// Walks through the segments of a log.
pub(super) struct SegmentWalk {
    medium: Box<dyn Medium>,
    folder: PathBuf,
    scan: Scan,
    /// Whether what is written to the newest segment meanwhile is read, too.
    follows: bool,
    /// The head of a segment that it has come to.
    entered: Option<SegmentHead>,
}

impl SegmentWalk {
    /// Begins with the segment that has a position; `None`: the log does not have it any more.
    pub fn open(
        medium: Box<dyn Medium>,
        folder: PathBuf,
        from: u64,
    ) -> Result<Option<(SegmentHead, SegmentWalk)>, Cause> {
        let first = segments(&*medium, &folder)?.into_iter().rev().find(|first| *first <= from);
        let Some(first) = first else { return Ok(None) };
        let (head, scan) = open_segment(&*medium, &folder, first)?;
        Ok(Some((head, SegmentWalk { medium, folder, scan, follows: false, entered: None })))
    }

    /// The head of the newest segment.
    pub fn newest_head(&self) -> Result<SegmentHead, Cause> {
        let newest = segments(&*self.medium, &self.folder)?.last().copied().unwrap_or_default();
        Ok(open_segment(&*self.medium, &self.folder, newest)?.0)
    }

    /// The head of a segment that it has come to since this was asked last.
    pub fn take_entered(&mut self) -> Option<SegmentHead> {
        self.entered.take()
    }

    /// The file that is being read.
    pub fn path(&self) -> &Path {
        &self.scan.path
    }

    /// Reads what is written from now on, too.
    pub fn follow(&mut self) {
        self.follows = true;
    }

    /// The next record; `None`: there is none yet.
    pub fn next(&mut self) -> Result<Option<ScannedRecord>, Cause> {
        loop {
            match self.scan.next()? {
                Next::Record(found) => return Ok(Some(found)),
                Next::End | Next::Bad(_) if self.goes_on()? => {}
                Next::End | Next::Bad(_) => return Ok(None),
            }
        }
    }

    /// Advances to the next segment; false if this is the newest one, whose end may be torn or being written.
    fn goes_on(&mut self) -> Result<bool, Cause> {
        let there = segments(&*self.medium, &self.folder)?;
        let name = name_of(&self.scan.path);
        let is_this = |first: &u64| segment_name(*first) == name;
        let next = there.iter().copied().find(|first| *first >= self.scan.position);
        let Some(next) = next.filter(|first| !is_this(first)) else {
            return Ok(self.follows && matches!(self.scan.peek()?, Next::Record(_)));
        };
        if next > self.scan.position {
            // The segment may have been written on and closed since its last record was read.
            let again = self.scan.peek()?;
            if matches!(again, Next::Record(_)) {
                return Ok(true);
            }
            return Err(if there.iter().any(is_this) {
                missing(&self.scan, &again, next)
            } else {
                self.removed(next)
            });
        }
        let (head, scan) = open_segment(&*self.medium, &self.folder, next)?;
        (self.scan, self.entered) = (scan, Some(head));
        Ok(true)
    }

    /// The query that runs on the folder has removed what follows, because no start needs it any more.
    fn removed(&self, next: u64) -> Cause {
        Cause::operation(format!(
            "{}: positions {} to {next} were removed while they were being read, because no start of the query \
             needs them any more; begin with a newer state",
            self.folder.display(),
            self.scan.position
        ))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
