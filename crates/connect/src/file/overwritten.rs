//! Files that a sink of this process will overwrite, and that still have what they had: whoever read them meanwhile would miss
//! what is gone when the sink begins.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::Cause;

/// What tells a file from others, whatever it is called: its device and its number there.
type Identity = (u64, u64);

/// How many sinks will overwrite each file.
static FILES: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

fn files() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    FILES.lock()
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<Identity> {
    None
}

/// Files that will be overwritten, until it is dropped.
pub(super) struct Overwritten(Vec<Identity>);

impl Overwritten {
    /// These files, as far as they are there.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Overwritten {
        let identities: Vec<Identity> =
            paths.into_iter().filter_map(|path| identity(path.as_ref())).collect();
        let mut files = files();
        identities.iter().for_each(|identity| *files.entry(*identity).or_default() += 1);
        Overwritten(identities)
    }
}

impl Drop for Overwritten {
    fn drop(&mut self) {
        let mut files = files();
        for identity in &self.0 {
            if let Some(count) = files.get_mut(identity) {
                *count -= 1;
                if *count == 0 {
                    files.remove(identity);
                }
            }
        }
    }
}

/// Refuses to read files that will be overwritten. They are listed only if there are such files at all.
pub(super) fn refuse<P: AsRef<Path>>(list: impl FnOnce() -> Result<Vec<P>, Cause>) -> Result<(), Cause> {
    if files().is_empty() {
        return Ok(());
    }
    let paths = list()?;
    let files = files();
    let is_overwritten =
        |path: &&P| identity(path.as_ref()).is_some_and(|identity| files.contains_key(&identity));
    match paths.iter().find(is_overwritten) {
        None => Ok(()),
        Some(path) => Err(Cause::user(format!(
            "'{}' cannot be read while a sink is about to overwrite it (overwrite = true); write to another file",
            path.as_ref().display()
        ))),
    }
}
