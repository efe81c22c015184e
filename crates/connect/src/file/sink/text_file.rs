//! A file of text that grows by whole commits.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use tidemill_core::Cause;

use super::file_format::SyncPolicy;
use crate::file::overwritten::Overwritten;
use crate::file::source::is_pipe;

/// An open file and its length at the last commit.
pub(crate) struct TextFile {
    path: PathBuf,
    file: File,
    length: u64,
    /// Only a regular file has a length that it can be cut back to; a device or a pipe does not.
    is_regular: bool,
    /// It still has what was there before it was opened, and must not be read.
    old_content: Option<Overwritten>,
    sync: SyncPolicy,
    failed: Option<Cause>,
}

impl TextFile {
    /// Opens a new file, or one that may be overwritten. That one keeps what it has until it is [emptied](TextFile::empty).
    pub fn create(path: &Path, overwrite: bool, sync: SyncPolicy) -> Result<TextFile, Cause> {
        let is_regular = !is_special(path);
        refuse_directory(path)?;
        let mut options = OpenOptions::new();
        options.write(true);
        match (is_regular, overwrite) {
            (false, _) => &mut options,
            (true, true) => options.create(true).truncate(false),
            (true, false) => options.create_new(true),
        };
        let file = if is_pipe(path) {
            open_pipe(path, &mut options)?
        } else {
            options.open(path).map_err(|error| open_failed(path, error))?
        };
        let found = file.metadata().map_err(|error| open_failed(path, error))?.len();
        let old_content = (is_regular && found > 0).then(|| Overwritten::new([path]));
        let path = path.to_owned();
        Ok(TextFile { path, file, length: 0, is_regular, old_content, sync, failed: None })
    }

    /// Continues a file with `length` valid bytes, and cuts off the rest.
    pub fn reopen(path: &Path, length: u64, sync: SyncPolicy) -> Result<TextFile, Cause> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let mut file = opened.map_err(|error| incomplete(path, length, &error.to_string()))?;
        let found = file.metadata().map_err(|error| write_failed(path, error))?.len();
        if found < length {
            return Err(incomplete(path, length, &format!("it has {found}")));
        }
        // After a loss of power a file can have its length without its content.
        let mut last = [b'\n'];
        let read = file.read_exact_at(&mut last, length.saturating_sub(1));
        if length > 0 && (read.is_err() || last != *b"\n") {
            return Err(incomplete(path, length, "no row ends there"));
        }
        let cut = file.set_len(length).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(|error| write_failed(path, error))?;
        let (path, old_content) = (path.to_owned(), None);
        Ok(TextFile { path, file, length, is_regular: true, old_content, sync, failed: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether a write has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether it still has what was there before it was opened.
    pub fn has_old_content(&self) -> bool {
        self.old_content.is_some()
    }

    /// Removes what was there before it was opened.
    pub fn empty(&mut self) -> Result<(), Cause> {
        if self.old_content.is_some() {
            self.file.set_len(0).map_err(|error| write_failed(&self.path, error))?;
            self.old_content = None;
        }
        Ok(())
    }

    /// Continues after other programs have changed the file: at its end, and with the header again if they have emptied
    /// or deleted it. Only for a file whose bytes nobody counts.
    pub fn take_over_changes(&mut self, header: &[u8]) -> Result<(), Cause> {
        if !self.is_regular || self.failed.is_some() {
            return Ok(());
        }
        let metadata = self.metadata()?;
        if is_deleted(&metadata) {
            *self = TextFile::create(&self.path, false, self.sync)?;
        } else if metadata.len() == self.length {
            return Ok(());
        } else {
            self.length =
                self.file.seek(SeekFrom::End(0)).map_err(|error| write_failed(&self.path, error))?;
        }
        if self.length == 0 { self.append(header) } else { Ok(()) }
    }

    /// Whether the file is as this program left it. If it was truncated, writing behind would leave a hole of zeros. If
    /// it has grown, writing would overwrite what others wrote.
    fn check_unchanged(&self) -> Result<(), Cause> {
        if !self.is_regular {
            return Ok(());
        }
        let metadata = self.metadata()?;
        let found = if is_deleted(&metadata) {
            "has been deleted".to_owned()
        } else if metadata.len() != self.length {
            format!("has {} bytes", metadata.len())
        } else {
            return Ok(());
        };
        let (path, length) = (self.path.display(), self.length);
        Err(Cause::operation(format!(
            "'{path}' was changed by another program: {length} bytes are committed, but it {found}; restore \
             it, or start the query from scratch with another file"
        )))
    }

    /// Whether the path leads to the file, and it is as this program left it.
    pub fn is_as_left(&self) -> bool {
        let same = |found: Metadata| {
            self.metadata().is_ok_and(|own| (found.dev(), found.ino()) == (own.dev(), own.ino()))
        };
        self.check_unchanged().is_ok() && self.path.symlink_metadata().is_ok_and(same)
    }

    fn metadata(&self) -> Result<Metadata, Cause> {
        self.file.metadata().map_err(|error| write_failed(&self.path, error))
    }

    /// Appends text. If that fails, the file is cut back to its previous length and never written again. A file that
    /// another program has changed is left as it is.
    pub fn append(&mut self, text: &[u8]) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        if text.is_empty() {
            return Ok(());
        }
        self.check_unchanged().map_err(|cause| self.failed.insert(cause).clone())?;
        let mut written = self.file.write_all(text);
        if written.is_ok() && self.sync == SyncPolicy::EveryCommit && self.is_regular {
            written = self.file.sync_data();
        }
        match written {
            Ok(()) => self.length += text.len() as u64,
            Err(error) => return Err(self.fail(error)),
        }
        Ok(())
    }

    /// Forces everything to disk, if the policy says so.
    pub fn finish(&mut self) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        if self.sync == SyncPolicy::Never || !self.is_regular {
            return Ok(());
        }
        self.file.sync_all().map_err(|error| write_failed(&self.path, error))
    }

    /// Stops all further writing.
    pub fn fail_with(&mut self, cause: Cause) {
        self.failed = Some(cause);
    }

    fn fail(&mut self, error: std::io::Error) -> Cause {
        let kept = match self.is_regular.then(|| self.file.set_len(self.length)) {
            None => "; the rows written before the failure cannot be removed".to_owned(),
            Some(Ok(())) => format!("; the file contains the {} bytes committed before", self.length),
            Some(Err(cut)) => format!("; cut the file to {} bytes by hand, because {cut}", self.length),
        };
        let cause = write_failed(&self.path, error).map_message(|text| format!("{text}{kept}"));
        self.failed.insert(cause).clone()
    }
}

/// Opens a pipe without waiting for a reader. Text written to it then waits for that reader.
#[cfg(unix)]
fn open_pipe(path: &Path, options: &mut OpenOptions) -> Result<File, Cause> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use rustix::io::Errno;

    let opened = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            Cause::user(format!("'{}' is a pipe without a reader; start the reader first", path.display()))
        }
        _ => open_failed(path, error),
    })?;
    let waits = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    waits.map_err(|error| open_failed(path, error.into()))?;
    Ok(file)
}

#[cfg(not(unix))]
fn open_pipe(path: &Path, options: &mut OpenOptions) -> Result<File, Cause> {
    options.open(path).map_err(|error| open_failed(path, error))
}

/// Whether no name leads to it any more.
fn is_deleted(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::nlink(metadata) == 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// Whether there is a device, a pipe or the like at this path.
pub(crate) fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Refuses a path that is a folder.
pub(crate) fn refuse_directory(path: &Path) -> Result<(), Cause> {
    if path.is_dir() {
        Err(Cause::user(format!(
            "'{}' is a folder; choose a file in it, or use the connector directory",
            path.display()
        )))
    } else {
        Ok(())
    }
}

/// Refuses a path at which there is something.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), Cause> {
    if path.symlink_metadata().is_ok() { Err(already_exists(path)) } else { Ok(()) }
}

/// What was committed does not exist any more.
fn incomplete(path: &Path, length: u64, found: &str) -> Cause {
    Cause::operation(format!(
        "'{}' must contain the {length} bytes that are committed, but {found}. Either someone changed it, or \
         the machine lost power before sync = 'never' had forced it to disk. Restore it, or start the query \
         from scratch with another file and another journal",
        path.display()
    ))
}

fn already_exists(path: &Path) -> Cause {
    Cause::user(format!(
        "'{}' already exists; choose another file, or allow overwriting with overwrite = true",
        path.display()
    ))
}

/// Why a file cannot be opened for writing.
pub(crate) fn open_failed(path: &Path, error: std::io::Error) -> Cause {
    match error.kind() {
        ErrorKind::AlreadyExists => already_exists(path),
        ErrorKind::NotFound => Cause::user(format!(
            "'{}' cannot be created because its folder does not exist; create the folder first",
            path.display()
        )),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Cause::user(format!(
            "'{}' cannot be written: {error}; choose a path that you may write to",
            path.display()
        ))
        .with_source(error),
        _ => Cause::operation(format!("'{}' cannot be opened for writing: {error}", path.display()))
            .with_source(error),
    }
}

/// Why a write failed.
pub(crate) fn write_failed(path: &Path, error: std::io::Error) -> Cause {
    let remedy = match error.kind() {
        ErrorKind::StorageFull => "; free some space",
        ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "; the limit on file sizes is reached; raise it \
            (ulimit -f)"
        }
        _ => "",
    };
    Cause::operation(format!("'{}' cannot be written: {error}{remedy}", path.display())).with_source(error)
}
