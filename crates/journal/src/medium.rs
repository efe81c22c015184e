//! What the journal needs from a file system, behind small traits. Tests substitute one that loses power.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;

/// Holds folders and files. [`crate::Disk`] is the real one.
pub trait Medium: Send + Sync {
    /// Durably creates a folder and its parents; an existing folder stays as it is.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files and folders in a folder, in no particular order; none if it does not exist.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates an empty file for reading and writing, and replaces any existing file of that name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Opens an existing file, only for reading unless `write` is set.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn MediumFile>>;

    /// Renames a file, and replaces any existing file of the new name. Durable after [`Medium::sync_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after [`Medium::sync_folder`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with everything in it; one that does not exist stays so. Durable after [`Medium::sync_folder`] of the
    /// folder above it.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a file, which is created if necessary, until the guard is dropped or the process ends. `None`: another
    /// process has it.
    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>>;

    /// Which start of the machine this is; `None`: not known. Until the next one, what was written is there, synced or not.
    fn machine_start(&self) -> Option<String> {
        None
    }
}

/// Holds a lock until it is dropped.
pub type LockGuard = Arc<dyn Any + Send + Sync>;

/// An open file.
pub trait MediumFile: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes all parts one after the other, starting at `offset`, into space that [`MediumFile::allocate`] reserved or
    /// behind the end.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Reads from `offset` on until the target is full or the file ends; returns the number of bytes read.
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first `length` bytes, without a copy if the medium supports that. They must have been written and must not
    /// be written again, and the file must not become shorter while the buffer lives.
    fn map(&self, length: u64) -> io::Result<Buffer>;

    /// Extends the file to at least `length` bytes of zeros, and reserves the space for them.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Truncates the file to `length`.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes written bytes and the length durable.
    fn sync(&self) -> io::Result<()>;

    /// Whether the path still leads to this file: nobody has removed it, moved it, or replaced it.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}
