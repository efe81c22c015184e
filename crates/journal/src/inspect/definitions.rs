//! The definitions of a catalogue, which another process may be using.

use std::path::Path;

use tidemill_core::error::Cause;

use super::segment_walk::SegmentWalk;
use crate::disk::Disk;

/// The definitions in the folder of a catalogue, in order, up to what has been written at the time of reading. Nothing
/// is locked or changed.
///
/// # Errors
/// If there is no catalogue, or one of the definitions is damaged.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_journal::{CatalogJournal, Disk, inspect};
/// # let folder = tempfile::tempdir()?;
/// let mut log = CatalogJournal::open(Arc::new(Disk), folder.path())?;
/// log.append(b"CREATE ...")?;
/// assert_eq!(inspect::definitions(folder.path())?, [b"CREATE ..."]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn definitions(folder: &Path) -> Result<Vec<Vec<u8>>, Cause> {
    let log = folder.join("definitions");
    let Some((_, mut walk)) = SegmentWalk::open(Box::new(Disk), log, 0)? else {
        return Err(Cause::user(format!("'{}' has no catalogue", folder.display())));
    };
    let mut definitions = Vec::new();
    while let Some(found) = walk.next()? {
        definitions.push(found.bytes[found.head.content()].to_vec());
    }
    Ok(definitions)
}
