//! Reads text files in large chunks of complete lines: the source of every line format.
//!
//! A file is plain or compressed with zstd or gzip, which is recognised by its first bytes and not by its name. The path `-` is
//! standard input. Memory is bounded by the buffer (1 MiB) plus zstd's window, whatever the file contains.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::file::gzip_read::{GzipReader, begins_gzip};
use crate::file::lines::{LINE_LIMIT_BYTES, LineChunk};
use crate::file::zstd_read::{ZstdError, ZstdReader, begins_zstd};

const BUFFER_BYTES: usize = 1024 * 1024;

/// Why a file of lines could not be read. The message says which file, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFileError {
    /// There is no file of that name.
    #[error("{path}: no such file; check the path (and the extension, such as .zst for a compressed file)")]
    NotFound {
        /// The file.
        path: String,
    },
    /// The path names a directory.
    #[error("{path}: this is a directory; choose a file in it")]
    IsDirectory {
        /// The directory.
        path: String,
    },
    /// The file may not be read.
    #[error("{path}: permission denied; allow this user to read it (chmod, chown) or run as its owner")]
    PermissionDenied {
        /// The file.
        path: String,
    },
    /// The file's bytes are not valid zstd.
    #[error(
        "{path}: damaged zstd file at byte {offset}: {detail}; copy or compress it again (`zstd -t` tests a \
         file); if it is plain text, rename it without .zst"
    )]
    CorruptZstd {
        /// The file.
        path: String,
        /// Bytes of the compressed file that were read up to the error.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// The file's bytes are not valid gzip.
    #[error(
        "{path}: damaged gzip file at byte {offset}: {detail}; copy or compress it again (`gzip -t` tests a file)"
    )]
    CorruptGzip {
        /// The file.
        path: String,
        /// Bytes of the compressed file that were read up to the error.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// The file is compressed in a way that is not supported.
    #[error("{path}: cannot be decompressed: {detail}; decompress it, or compress it with plain `zstd`")]
    UnsupportedCompression {
        /// The file.
        path: String,
        /// What is not supported.
        detail: String,
    },
    /// The operating system could not continue reading.
    #[error(
        "{path}: reading failed at byte {offset}: {source}; check the disk or the sender, then try again"
    )]
    Io {
        /// The file.
        path: String,
        /// Bytes of the file that were read before.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
}

type ByteSource = Box<dyn Read + Send>;

enum Content {
    Plain { source: ByteSource, offset: u64 },
    Zstd(Box<ZstdReader<ByteSource>>),
    Gzip(Box<GzipReader<ByteSource>>),
}

/// A text file, read in chunks of complete lines.
///
/// ```
/// use tidemill_connect::LineFile;
///
/// let mut file = LineFile::from_reader("numbers", &b"1\n2\n3"[..])?;
/// let mut numbers = Vec::new();
/// while let Some(chunk) = file.next_chunk()? {
///     numbers.extend(chunk.lines().map(|line| (line.number, line.bytes.to_vec())));
/// }
/// assert_eq!(numbers, [(1, b"1".to_vec()), (2, b"2".to_vec()), (3, b"3".to_vec())]);
/// # Ok::<(), tidemill_connect::LineFileError>(())
/// ```
pub struct LineFile {
    name: String,
    content: Content,
    buffer: Box<[u8]>,
    /// The bytes that were read but not yet returned: `buffer[start..end]`.
    start: usize,
    end: usize,
    next_line: u64,
    at_end: bool,
}

impl LineFile {
    /// Opens a file, plain, zstd or gzip; `-` is standard input (a file of that name is `./-`).
    ///
    /// An empty file is fine and has no chunks. But an empty file named `.zst` is damaged, like any file with that
    /// ending that does not begin like zstd.
    ///
    /// # Errors
    /// All kinds of [`LineFileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<LineFile, LineFileError> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Self::start("standard input".to_owned(), Box::new(io::stdin()), false);
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| io_error(&name, 0, source))?;
        let metadata = file.metadata().map_err(|source| io_error(&name, 0, source))?;
        if metadata.is_dir() {
            return Err(LineFileError::IsDirectory { path: name });
        }
        let named_zstd = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zst"));
        Self::start(name, Box::new(file), named_zstd)
    }

    /// Reads lines from any reader; `name` names it in messages.
    ///
    /// # Errors
    /// As [`LineFile::open`].
    pub fn from_reader(
        name: impl Into<String>,
        source: impl Read + Send + 'static,
    ) -> Result<LineFile, LineFileError> {
        Self::start(name.into(), Box::new(source), false)
    }

    fn start(name: String, mut source: ByteSource, named_zstd: bool) -> Result<LineFile, LineFileError> {
        let mut magic = [0; 4];
        let count = read_full(&mut source, &mut magic).map_err(|error| io_error(&name, 0, error))?;
        let magic = magic[..count].to_vec();
        let (is_zstd, is_gzip) = (begins_zstd(&magic), begins_gzip(&magic));
        if named_zstd && !is_zstd {
            let detail = if count == 0 { "the file is empty" } else { "it does not begin with a zstd frame" };
            return Err(LineFileError::CorruptZstd { path: name, offset: 0, detail: detail.to_owned() });
        }
        let source: ByteSource = Box::new(io::Cursor::new(magic).chain(source));
        let content = if is_zstd {
            Content::Zstd(Box::new(ZstdReader::new(source)))
        } else if is_gzip {
            Content::Gzip(Box::new(GzipReader::new(source)))
        } else {
            Content::Plain { source, offset: 0 }
        };
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Ok(LineFile { name, content, buffer, start: 0, end: 0, next_line: 1, at_end: false })
    }

    /// The file's path as given, or the name that replaces it: use it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next complete lines. Reads until there is at least one, and returns all that are there, so that slow input
    /// (a pipe) is returned as it comes. `None` at the end of the file.
    ///
    /// # Errors
    /// [`LineFileError::Io`], [`LineFileError::CorruptZstd`] and [`LineFileError::UnsupportedCompression`]. Up to a
    /// mebibyte of lines before the damage may be lost; a wrong checksum is noticed only after its data.
    pub fn next_chunk(&mut self) -> Result<Option<LineChunk<'_>>, LineFileError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let mut searched = 0;
        loop {
            if let Some(last) = memchr::memrchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(self.hand_out(searched + last + 1, true)));
            }
            // One more for the carriage return of a line that is just not too long.
            if self.end > LINE_LIMIT_BYTES + 1 {
                return self.over_long_line().map(Some);
            }
            if self.at_end {
                return Ok((self.end > 0).then(|| self.hand_out(self.end, false)));
            }
            searched = self.end;
            self.fill()?;
        }
    }

    fn hand_out(&mut self, length: usize, ends_with_newline: bool) -> LineChunk<'_> {
        self.start = length;
        let bytes = &self.buffer[..length];
        let first_line = self.next_line;
        self.next_line += memchr::memchr_iter(b'\n', bytes).count() as u64;
        LineChunk { bytes, first_line, ends_with_newline, over_long: None }
    }

    /// The buffer holds the beginning of a line that is too long: keeps that, and discards the rest.
    fn over_long_line(&mut self) -> Result<LineChunk<'_>, LineFileError> {
        let mut length = LINE_LIMIT_BYTES as u64;
        let mut last_byte = 0;
        self.start = LINE_LIMIT_BYTES;
        let ends_with_newline = loop {
            let unread = &self.buffer[self.start..self.end];
            let newline = memchr::memchr(b'\n', unread);
            let line = &unread[..newline.unwrap_or(unread.len())];
            length += line.len() as u64;
            last_byte = line.last().copied().unwrap_or(last_byte);
            if newline.is_some() {
                self.start += line.len() + 1;
                break true;
            }
            self.start = LINE_LIMIT_BYTES;
            self.end = LINE_LIMIT_BYTES;
            if self.at_end {
                break false;
            }
            self.fill()?;
        };
        length -= u64::from(last_byte == b'\r');
        let first_line = self.next_line;
        self.next_line += 1;
        let bytes = &self.buffer[..LINE_LIMIT_BYTES];
        Ok(LineChunk { bytes, first_line, ends_with_newline, over_long: Some(length) })
    }

    /// Reads once into the free end of the buffer, which is never full here.
    fn fill(&mut self) -> Result<(), LineFileError> {
        let free = &mut self.buffer[self.end..];
        let count = match &mut self.content {
            Content::Plain { source, offset } => {
                let count = read_some(source, free).map_err(|error| io_error(&self.name, *offset, error))?;
                *offset += count as u64;
                count
            }
            Content::Zstd(reader) => match reader.read(free) {
                Ok(count) => count,
                Err(error) => return Err(zstd_error(&self.name, reader.offset(), error)),
            },
            Content::Gzip(reader) => match reader.read(free) {
                Ok(count) => count,
                Err(error) => return Err(zstd_error(&self.name, reader.offset(), error)),
            },
        };
        self.at_end = count == 0;
        self.end += count;
        Ok(())
    }
}

impl std::fmt::Debug for LineFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LineFile")
            .field("name", &self.name)
            .field("next_line", &self.next_line)
            .finish_non_exhaustive()
    }
}

fn io_error(name: &str, offset: u64, source: io::Error) -> LineFileError {
    let path = name.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => LineFileError::NotFound { path },
        io::ErrorKind::IsADirectory => LineFileError::IsDirectory { path },
        io::ErrorKind::PermissionDenied => LineFileError::PermissionDenied { path },
        _ => LineFileError::Io { path, offset, source },
    }
}

fn zstd_error(name: &str, read_so_far: u64, error: ZstdError) -> LineFileError {
    let path = name.to_owned();
    match error {
        ZstdError::Io(source) => io_error(name, read_so_far, source),
        ZstdError::Corrupt { offset, detail } => LineFileError::CorruptZstd { path, offset, detail },
        ZstdError::CorruptGzip { offset, detail } => LineFileError::CorruptGzip { path, offset, detail },
        ZstdError::Unsupported { detail } => LineFileError::UnsupportedCompression { path, detail },
    }
}

fn read_some(source: &mut dyn Read, target: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(target) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn read_full(source: &mut dyn Read, target: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < target.len() {
        match read_some(source, &mut target[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
