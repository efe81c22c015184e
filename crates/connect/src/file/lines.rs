//! A chunk of complete lines and the lines in it.

/// The longest line, in bytes without its line end, that is returned whole. Of a longer line only this many bytes are
/// kept, so that a file without line ends cannot fill the memory.
pub const LINE_LIMIT_BYTES: usize = 64 * 1024;

/// Complete lines of a file, as they lie in the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineChunk<'a> {
    /// The lines with their line ends. For an over-long line only the first [`LINE_LIMIT_BYTES`], alone in its chunk.
    pub bytes: &'a [u8],
    /// The number of the first line in the file; the first one of a file is 1.
    pub first_line: u64,
    /// False if the file ends without a newline: the last line of this chunk may have been cut off.
    pub ends_with_newline: bool,
    /// The length in bytes of the line in the file, if this chunk is one line too long for the buffer.
    pub over_long: Option<u64>,
}

impl<'a> LineChunk<'a> {
    /// The chunk's lines in order.
    ///
    /// ```
    /// use tidemill_connect::LineChunk;
    ///
    /// let chunk = LineChunk { bytes: b"a,1\r\nb,2", first_line: 7, ends_with_newline: false, over_long: None };
    /// let lines: Vec<_> = chunk.lines().map(|line| (line.number, line.bytes, line.terminated)).collect();
    /// assert_eq!(lines, [(7, &b"a,1"[..], true), (8, b"b,2", false)]);
    /// ```
    pub fn lines(&self) -> Lines<'a> {
        Lines {
            rest: self.bytes,
            number: self.first_line,
            ends_with_newline: self.ends_with_newline,
            over_long: self.over_long,
        }
    }
}

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number of the line in its file, from 1.
    pub number: u64,
    /// The line without its line end (`\n` or `\r\n`), at most [`LINE_LIMIT_BYTES`] of it.
    pub bytes: &'a [u8],
    /// False for the last line of a file that does not end with a newline.
    pub terminated: bool,
    /// The length in bytes of the line in the file, if it is longer than [`LINE_LIMIT_BYTES`]. Then `bytes` is only its
    /// beginning, and the line counts as a bad one.
    pub over_long: Option<u64>,
}

/// The lines of a chunk, made by [`LineChunk::lines`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
    ends_with_newline: bool,
    over_long: Option<u64>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (bytes, terminated) = match memchr::memchr(b'\n', self.rest) {
            Some(end) => {
                let bytes = &self.rest[..end];
                self.rest = &self.rest[end + 1..];
                (bytes, true)
            }
            None => (std::mem::take(&mut self.rest), self.ends_with_newline),
        };
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let number = self.number;
        self.number += 1;
        if bytes.len() > LINE_LIMIT_BYTES || self.over_long.is_some() {
            let length = self.over_long.unwrap_or(bytes.len() as u64);
            let bytes = &bytes[..bytes.len().min(LINE_LIMIT_BYTES)];
            return Some(Line { number, bytes, terminated, over_long: Some(length) });
        }
        Some(Line { number, bytes, terminated, over_long: None })
    }
}
