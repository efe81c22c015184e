//! The logged cuts from a cycle on, one after the other.

use std::path::Path;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::fields::Fields;

use super::segment_walk::SegmentWalk;
use super::{refuse_others, segments};
use crate::current_query;
use crate::cut_record::decode_cut;
use crate::disk::Disk;
use crate::failure::damaged;
use crate::layout;

/// The logged cuts in order, from this cycle on, up to what has been written at the time of reading. Unlike
/// [`cuts`](super::cuts), it holds one of them at a time.
///
/// # Errors
/// If it is not a journal's folder, or the cut of the cycle was removed.
///
/// ```
/// # use tidemill_core::{Cut, CutLog as _};
/// # use tidemill_journal::{Journal, inspect};
/// # let folder = tempfile::tempdir()?;
/// # let journal = Journal::open(folder.path())?;
/// for cycle in 0..3 {
///     journal.cuts()?.append(&Cut { cycle, ..Cut::first() })?;
/// }
/// let cycles: Vec<u64> = inspect::cuts_from(folder.path(), 1)?.map(|cut| cut.unwrap().cycle).collect();
/// assert_eq!(cycles, [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cuts_from(folder: &Path, cycle: u64) -> Result<LaterCuts, Cause> {
    refuse_others(&Disk, folder)?;
    let folder = layout::cuts(&current_query::folder_of(&Disk, folder)?);
    match SegmentWalk::open(Box::new(Disk), folder.clone(), cycle)? {
        Some((_, walk)) => Ok(LaterCuts { walk: Some(walk), from: cycle }),
        None => match segments(&Disk, &folder)?.first() {
            Some(first) => Err(Cause::user(format!(
                "the cut of cycle {cycle} no longer exists; the first one is that of cycle {first}"
            ))),
            None => Ok(LaterCuts { walk: None, from: cycle }),
        },
    }
}

/// Logged cuts; see [`cuts_from`].
pub struct LaterCuts {
    /// `None`: there is nothing more to read.
    walk: Option<SegmentWalk>,
    from: u64,
}

impl LaterCuts {
    fn cut(&mut self) -> Result<Option<Cut>, Cause> {
        let Some(walk) = &mut self.walk else { return Ok(None) };
        while let Some(found) = walk.next()? {
            if found.head.start < self.from {
                continue;
            }
            let cut = decode_cut(&mut Fields(&found.bytes[found.head.content()]));
            return match cut {
                Ok(cut) if cut.cycle == found.head.start => Ok(Some(cut)),
                _ => Err(damaged(walk.path(), found.offset, "this is not the expected cut")),
            };
        }
        Ok(None)
    }
}

impl Iterator for LaterCuts {
    type Item = Result<Cut, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        let cut = self.cut();
        if cut.is_err() {
            self.walk = None;
        }
        cut.transpose()
    }
}
