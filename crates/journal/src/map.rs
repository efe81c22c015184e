//! Files as memory, for reading without a copy. The only unsafe code of this crate.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use arrow_buffer::Buffer;
use bytes::Bytes;
use memmap2::MmapOptions;

/// The first `length` bytes of a file, which must exist.
pub(crate) fn map_file(file: &File, length: u64) -> io::Result<Buffer> {
    if length == 0 {
        return Ok(Buffer::default());
    }
    // Touching memory behind the end of a file raises SIGBUS, so it is refused here.
    if file.metadata()?.len() < length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than the part to map"));
    }
    let length = usize::try_from(length).map_err(io::Error::other)?;
    // SAFETY: nobody writes to these bytes or truncates them while they are mapped: records are appended behind them
    // and never changed, the one process that may write has locked the folder, and it shortens a segment to its records
    // only. A removed segment stays there for those who have mapped it.
    let map = unsafe { MmapOptions::new().len(length).map(file) }?;
    Ok(Buffer::from(Bytes::from_owner(map)))
}
