//! Buffered reading of a file that [`crate::replace::FileWriter`] wrote.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::fields::TakeFields;

use crate::failure::{damaged, failed, foreign, other_version};
use crate::medium::{Medium, MediumFile};
use crate::segment::read_exactly;

const BUFFER_BYTES: usize = 1 << 20;
const CHECKSUM_BYTES: u64 = 4;

/// Takes fields from the front of a file, up to its checksum.
pub(crate) struct FileReader {
    path: PathBuf,
    file: Arc<dyn MediumFile>,
    /// Where the checksum begins.
    end: u64,
    /// The position of the next bytes in the buffer.
    offset: u64,
    buffer: Vec<u8>,
    used: usize,
    hasher: crc32fast::Hasher,
}

impl TakeFields for FileReader {
    type Error = Cause;

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Cause> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }
}

impl FileReader {
    /// Opens a file and checks its magic and version; `None`: it does not exist.
    pub(crate) fn open(
        medium: &dyn Medium,
        path: &Path,
        magic: [u8; 8],
        version: u32,
    ) -> Result<Option<FileReader>, Cause> {
        match FileReader::open_any(medium, path, magic, version)? {
            Some((_, found)) if found != version => Err(other_version(path, found, version)),
            opened => Ok(opened.map(|(reader, _)| reader)),
        }
    }

    /// Opens a file of a version up to this one, and says of which.
    pub(crate) fn open_any(
        medium: &dyn Medium,
        path: &Path,
        magic: [u8; 8],
        version: u32,
    ) -> Result<Option<(FileReader, u32)>, Cause> {
        let file = match medium.open(path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| failed("open", path, error))?,
        };
        let length = file.length().map_err(|error| failed("read", path, error))?;
        let mut reader = FileReader {
            path: path.to_owned(),
            file,
            end: length.saturating_sub(CHECKSUM_BYTES),
            offset: 0,
            buffer: Vec::new(),
            used: 0,
            hasher: crc32fast::Hasher::new(),
        };
        let found: [u8; 8] = reader.array()?;
        if found != magic {
            let kind = String::from_utf8_lossy(&magic).into_owned();
            return Err(foreign(
                path,
                format!("this is not a file of kind {kind}"),
                "remove it from the folder",
            ));
        }
        match reader.u32()? {
            found if (1..=version).contains(&found) => Ok(Some((reader, found))),
            found => Err(other_version(path, found, version)),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Cause> {
        let length = self.u64()?;
        if length > self.end - self.offset {
            return Err(damaged(&self.path, self.offset, "a part reaches beyond the file"));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, Cause> {
        let offset = self.offset;
        String::from_utf8(self.bytes()?).map_err(|_| damaged(&self.path, offset, "a text is not UTF-8"))
    }

    /// Checks that everything was read, and that it matches the checksum.
    pub(crate) fn finish(self) -> Result<(), Cause> {
        if self.offset != self.end {
            return Err(damaged(&self.path, self.offset, "it contains more than it should"));
        }
        let mut checksum = [0; CHECKSUM_BYTES as usize];
        let read = read_exactly(&*self.file, &mut checksum, self.end);
        read.map_err(|error| failed("read", &self.path, error))?;
        if self.hasher.finalize() == u32::from_le_bytes(checksum) {
            Ok(())
        } else {
            Err(damaged(&self.path, self.end, "the checksum does not match"))
        }
    }

    fn fill(&mut self, target: &mut [u8]) -> Result<(), Cause> {
        if target.len() as u64 > self.end - self.offset {
            return Err(damaged(&self.path, self.offset, "it ends early"));
        }
        let ready = target.len().min(self.buffer.len() - self.used);
        let (front, back) = target.split_at_mut(ready);
        front.copy_from_slice(&self.buffer[self.used..self.used + ready]);
        self.used += ready;
        self.offset += ready as u64;
        if back.len() >= BUFFER_BYTES {
            let read = read_exactly(&*self.file, back, self.offset);
            read.map_err(|error| failed("read", &self.path, error))?;
            self.offset += back.len() as u64;
        } else if !back.is_empty() {
            self.refill()?;
            back.copy_from_slice(&self.buffer[..back.len()]);
            self.used = back.len();
            self.offset += back.len() as u64;
        }
        self.hasher.update(target);
        Ok(())
    }

    fn refill(&mut self) -> Result<(), Cause> {
        self.buffer.resize((self.end - self.offset).min(BUFFER_BYTES as u64) as usize, 0);
        self.used = 0;
        let read = read_exactly(&*self.file, &mut self.buffer, self.offset);
        read.map_err(|error| failed("read", &self.path, error))
    }
}
