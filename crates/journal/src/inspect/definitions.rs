//! The definitions of a catalogue, which another process may be using.

use std::path::Path;

use tidemill_core::error::Cause;

use super::segment_walk::SegmentWalk;
use super::{FindingKind, Verification};
use crate::disk::Disk;
use crate::lengths::catalog_length;
use crate::segment::Content;

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
    catalog_length::check(&Disk, folder, definitions.len() as u64)?;
    Ok(definitions)
}

/// Reads the log in the folder of a catalogue. What cannot be read becomes a finding, not an error.
///
/// # Errors
/// If it cannot be listed.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_journal::{CatalogJournal, Disk, inspect};
/// # let folder = tempfile::tempdir()?;
/// CatalogJournal::open(Arc::new(Disk), folder.path())?.append(b"CREATE ...")?;
/// assert!(inspect::verify_catalogue(folder.path())?.findings.is_empty());
/// std::fs::remove_dir_all(folder.path().join("definitions"))?;
/// assert_eq!(inspect::verify_catalogue(folder.path())?.findings.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_catalogue(folder: &Path) -> Result<Verification, Cause> {
    let mut verification = Verification::default();
    verification.log(&Disk, &folder.join("definitions"), Content::Definitions, None)?;
    let length = catalog_length::path(folder);
    let is_read = verification.findings.iter().all(|finding| finding.kind != FindingKind::Damage);
    if is_read && let Err(cause) = definitions(folder) {
        verification.find(&length, 0, cause.to_string());
    }
    Ok(verification)
}
