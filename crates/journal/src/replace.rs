//! Replaces whole files: after a crash, the old or the new file exists.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::fields::PutFields;

use crate::failure::failed;
use crate::medium::{Medium, MediumFile};

const BUFFER_BYTES: usize = 1 << 20;

/// Writes a file through a buffer, and closes it with the checksum of all its bytes.
pub(crate) struct FileWriter {
    file: Arc<dyn MediumFile>,
    buffer: Vec<u8>,
    offset: u64,
    hasher: crc32fast::Hasher,
    result: io::Result<()>,
}

impl PutFields for FileWriter {
    fn put(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush(bytes);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }
}

impl FileWriter {
    /// Writes the content of the buffer, and these bytes after it.
    fn flush(&mut self, bytes: &[u8]) {
        if self.result.is_ok() {
            self.result = self.file.write_at(&[&self.buffer, bytes], self.offset);
        }
        self.offset += (self.buffer.len() + bytes.len()) as u64;
        self.buffer.clear();
    }

    fn finish(mut self) -> io::Result<()> {
        let checksum = self.hasher.clone().finalize();
        self.flush(&checksum.to_le_bytes());
        self.result?;
        self.file.sync()
    }
}

/// Durably writes a file in place of the existing one.
pub(crate) fn replace(
    medium: &dyn Medium,
    path: &Path,
    write: impl FnOnce(&mut FileWriter),
) -> Result<(), Cause> {
    let new = path.with_extension("new");
    let folder = path.parent().unwrap_or(Path::new(""));
    let result = medium.create(&new).and_then(|file| {
        let hasher = crc32fast::Hasher::new();
        let mut writer = FileWriter { file, buffer: Vec::new(), offset: 0, hasher, result: Ok(()) };
        write(&mut writer);
        writer.finish()?;
        medium.rename(&new, path)?;
        medium.sync_folder(folder)
    });
    result.map_err(|error| {
        let _ = medium.remove(&new);
        failed("write", path, error)
    })
}

/// Removes files that were to replace others but were not completely written.
pub(crate) fn remove_unfinished(medium: &dyn Medium, folder: &Path) -> Result<(), Cause> {
    let names = medium.names(folder).map_err(|error| failed("list", folder, error))?;
    for name in names.iter().filter(|name| name.ends_with(".new")) {
        let path = folder.join(name);
        medium.remove(&path).map_err(|error| failed("remove", &path, error))?;
    }
    Ok(())
}
