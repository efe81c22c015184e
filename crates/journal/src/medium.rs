//! What the journal needs of a file system, behind small traits: tests put one below it that loses power.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;

/// Where folders and files are. [`crate::Disk`] is the real one.
pub trait Medium: Send + Sync {
    /// Makes a folder and those above it, durably; one that is there stays as it is.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files and folders in a folder, in no order; none if it is not there.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes an empty file for reading and writing; what had the name is gone.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;

    /// Opens a file that is there; only for reading unless `write`.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn MediumFile>>;

    /// Gives a file another name; what had that name is gone. Durable after [`Medium::sync_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after [`Medium::sync_folder`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a file, which is made if need be, until the guard is dropped or the process ends. `None`: another one has
    /// it.
    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>>;
}

/// Holds a lock as long as it lives.
pub type LockGuard = Arc<dyn Any + Send + Sync>;

/// An open file.
pub trait MediumFile: Send + Sync {
    /// How many bytes it has.
    fn length(&self) -> io::Result<u64>;

    /// Writes all parts one after the other from `offset` on, into space that [`MediumFile::allocate`] reserved or behind
    /// the end.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Reads from `offset` on until the target is full or the file ends; how many bytes that were.
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first `length` bytes without a copy, where the medium can. They must have been written, must not be written
    /// again, and the file must not become shorter than that while the buffer lives.
    fn map(&self, length: u64) -> io::Result<Buffer>;

    /// Lengthens the file to at least `length` bytes, zeros, with the space for them reserved.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Cuts off what is behind `length`.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes what was written durable, and the length.
    fn sync(&self) -> io::Result<()>;

    /// Whether the path leads to this file: nobody has removed it, moved it, or put another one in its place.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}
