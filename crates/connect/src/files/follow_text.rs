//! One text file that is followed.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::listing::failed;
use crate::formats::RecordDecoder;
use crate::zstd_read::begins_zstd;

/// A text file, how far it was read, and what of its last line was.
pub(super) struct FollowedText {
    pub(super) path: PathBuf,
    /// The path is not there any more, and no file that comes there later is this one.
    pub(super) is_gone: bool,
    place: String,
    file: Option<File>,
    /// Which file it was, and how far it was read; `None` before it was first seen.
    identity: Option<Identity>,
    offset: u64,
    decoder: Box<dyn RecordDecoder>,
}

type Identity = (u64, u64);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_metadata: &Metadata) -> Identity {
    (0, 0)
}

impl FollowedText {
    pub(super) fn new(path: PathBuf, decoder: Box<dyn RecordDecoder>) -> FollowedText {
        let place = path.display().to_string();
        FollowedText { path, is_gone: false, place, file: None, identity: None, offset: 0, decoder }
    }

    /// Reads and decodes the next bytes, and returns how many; 0 if there are none now.
    pub(super) fn read(
        &mut self,
        block: &mut [u8],
        keep_open: bool,
        ready: &mut VecDeque<RecordBatch>,
        faults: &mut Faults,
    ) -> Result<usize, Cause> {
        let mut count = self.read_bytes(block)?;
        if count == 0 && !self.is_gone && self.has_new_beginning(ready, faults)? {
            count = self.read_bytes(block)?;
        }
        if count > 0 {
            if self.offset == count as u64 && begins_zstd(&block[..count]) {
                let place = &self.place;
                return Err(Cause::User(format!(
                    "{place}: a compressed file cannot be followed; decompress it"
                )));
            }
            self.decoder.decode(&block[..count], ready)?;
        } else if !keep_open {
            self.file = None;
        }
        faults.merge(self.decoder.faults());
        Ok(count)
    }

    /// Takes a last record that has no line end.
    pub(super) fn finish(
        &mut self,
        ready: &mut VecDeque<RecordBatch>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        self.decoder.finish(ready)?;
        faults.merge(self.decoder.faults());
        Ok(())
    }

    fn read_bytes(&mut self, block: &mut [u8]) -> Result<usize, Cause> {
        let Some(file) = &mut self.file else { return Ok(0) };
        loop {
            match file.read(block) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.place, &error)),
                Ok(count) => {
                    self.offset += count as u64;
                    return Ok(count);
                }
            }
        }
    }

    /// At the end of what is open: looks whether the path means another file now, or the file has changed
    /// otherwise.
    fn has_new_beginning(
        &mut self,
        ready: &mut VecDeque<RecordBatch>,
        faults: &mut Faults,
    ) -> Result<bool, Cause> {
        let metadata = match self.path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(&self.place, &error)),
        };
        let now = identity(&metadata);
        match self.identity {
            None => self.decoder.begin(&self.place),
            Some(before) if before != now => {
                self.finish(ready, faults)?;
                faults
                    .add(format!("{}: the file was replaced; reading goes on with the new one", self.place));
                self.decoder.begin(&self.place);
                self.offset = 0;
            }
            Some(_) if metadata.len() < self.offset => {
                faults.add(format!("{}: the file was truncated; reading goes on at its start", self.place));
                self.decoder.begin(&self.place);
                self.offset = 0;
            }
            Some(_) if self.file.is_none() && metadata.len() > self.offset => {}
            Some(_) => return Ok(false),
        }
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // Replaced again this moment: the next look finds what comes.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (self.file, self.identity) = (None, None);
                return Ok(false);
            }
            Err(error) => return Err(failed(&self.place, &error)),
        };
        self.identity = Some(identity(&file.metadata().map_err(|error| failed(&self.place, &error))?));
        file.seek(SeekFrom::Start(self.offset)).map_err(|error| failed(&self.place, &error))?;
        self.file = Some(file);
        Ok(true)
    }
}
