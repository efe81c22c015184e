//! A fetched file: it has no name, so it is gone when the last handle is closed, however the process ends.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

/// The content of a file that was fetched, or of a part of it.
#[derive(Clone, Debug)]
pub(crate) struct FetchedFile {
    file: Arc<File>,
    /// Where it came from, for messages.
    pub name: String,
    pub bytes: u64,
}

impl FetchedFile {
    pub fn new(file: File, name: String, bytes: u64) -> FetchedFile {
        FetchedFile { file: Arc::new(file), name, bytes }
    }

    /// An own handle, at the beginning. Where the system gives none, the handles share their place in the file: open the next
    /// one when the last one is done.
    pub fn open(&self) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            if let Ok(own) = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())) {
                return Ok(own);
            }
        }
        let mut shared = self.file.try_clone()?;
        shared.seek(SeekFrom::Start(0))?;
        Ok(shared)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn handles_are_independent_and_nothing_has_a_name() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abc").unwrap();
        let fetched = FetchedFile::new(file, "https://host/abc".to_owned(), 3);
        let (mut one, mut other) = (fetched.open().unwrap(), fetched.open().unwrap());
        drop(fetched);
        let mut text = [0; 2];
        one.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"ab");
        let mut all = String::new();
        other.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abc");
    }
}
