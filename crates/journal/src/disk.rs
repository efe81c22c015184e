//! The file system of this machine.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;
use rustix::fs::FallocateFlags;

use crate::map::map_file;
use crate::medium::{LockGuard, Medium, MediumFile};

/// The most parts that one system call takes (`IOV_MAX`).
const PARTS_MAX: usize = 1024;
/// What is journaled is for the user whose process it is: rows, and the definitions with their passwords.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The file system of this machine.
///
/// ```
/// use tidemill_journal::{Disk, Medium};
/// let folder = tempfile::tempdir().unwrap();
/// let file = Disk.create(&folder.path().join("letters")).unwrap();
/// file.write_at(&[b"ab", b"cd"], 0).unwrap();
/// assert_eq!(file.map(4).unwrap().as_slice(), b"abcd");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Medium for Disk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let Some(above) = folder.parent() else { return made_folder(folder) };
        if !above.as_os_str().is_empty() {
            self.create_folder(above)?;
        }
        match made_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| self.sync_folder(above)),
        }
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(DiskFile(OpenOptions::new().read(true).write(write).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Arc::new(LockedFile(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn machine_start(&self) -> Option<String> {
        let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(start.trim().to_owned()).filter(|start| !start.is_empty())
    }
}

/// A file whose lock ends when it is dropped, and not only when it is closed: until it executes its program, a child process that
/// was just started has the file open, too.
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing it is all that is left to do.
        let _ = self.0.unlock();
    }
}

fn made_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(folder)
}

struct DiskFile(File);

impl MediumFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        let mut offset = offset;
        // Removes empty parts, because writing nothing would look like a full disk.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(PARTS_MAX)];
            match rustix::io::pwritev(&self.0, some, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < target.len() {
            match self.0.read_at(&mut target[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn map(&self, length: u64) -> io::Result<Buffer> {
        map_file(&self.0, length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // A file system that cannot reserve space reports that it is full when it is written to.
            Err(rustix::io::Errno::OPNOTSUPP) if self.length()? < length => self.0.set_len(length),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let this = self.0.metadata()?;
        match fs::metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (this.dev(), this.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_may_read_what_is_journaled() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a").join("b");
        Disk.create_folder(&folder).unwrap();
        Disk.create(&folder.join("rows")).unwrap();
        drop(Disk.lock(&folder.join("lock")).unwrap());
        for (path, mode) in
            [(folder.clone(), 0o700), (folder.join("rows"), 0o600), (folder.join("lock"), 0o600)]
        {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
        }
    }
}
