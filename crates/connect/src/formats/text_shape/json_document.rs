//! JSON arrays and pretty-printed objects, as one value per line.
//!
//! Only brackets and strings are looked at. What is not JSON stays wrong, so the decoder of lines says why.

/// Makes lines of a document that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct JsonDocument {
    /// Whether this is between the brackets of the outermost array.
    in_array: bool,
    /// How many brackets of the value are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether a value has begun.
    in_value: bool,
}

impl JsonDocument {
    /// Whether a text that begins like this is a document that is not one object per line; `None`: that does not show yet.
    ///
    /// A line that was cut off in a file of lines does not make it a document: the first line must end where a program breaks
    /// lines, and the second one continue it.
    pub(super) fn begins(start: &[u8]) -> Option<bool> {
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        match start.first() {
            None => return None,
            Some(b'[') => return Some(true),
            Some(b'{') => {}
            Some(_) => return Some(false),
        }
        let end = memchr::memchr(b'\n', start)?;
        let first_line = start[..end].trim_ascii_end();
        if !matches!(first_line.last(), Some(b'{' | b'[' | b',' | b':')) {
            return Some(false);
        }
        let next = *start[end..].trim_ascii_start().first()?;
        Some(match first_line.last() {
            Some(b'{') => matches!(next, b'"' | b'}'),
            Some(b',') => next == b'"',
            _ => true,
        })
    }

    pub(super) fn push(&mut self, bytes: &[u8], lines: &mut Vec<u8>) {
        lines.reserve(bytes.len() + 1);
        for &byte in bytes {
            if self.in_string {
                self.in_string = self.is_escaped || byte != b'"';
                self.is_escaped = !self.is_escaped && byte == b'\\';
                lines.push(byte);
                continue;
            }
            let is_outside = self.depth == 0;
            match byte {
                b'[' if is_outside && !self.in_array && !self.in_value => self.in_array = true,
                b']' if is_outside && self.in_array => {
                    self.end_value(lines);
                    self.in_array = false;
                }
                b',' if is_outside && self.in_array => self.end_value(lines),
                b'{' | b'[' => {
                    self.depth += 1;
                    self.add(byte, lines);
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.add(byte, lines);
                    if self.depth == 0 {
                        self.end_value(lines);
                    }
                }
                b'\n' | b'\r' if is_outside && !self.in_array => self.end_value(lines),
                // A byte order mark.
                0xef | 0xbb | 0xbf if !self.in_value => {}
                b'\n' | b'\r' | b' ' | b'\t' => {
                    if self.in_value {
                        lines.push(b' ');
                    }
                }
                _ => {
                    self.in_string = byte == b'"';
                    self.add(byte, lines);
                }
            }
        }
    }

    /// The text has ended. If its array has not, a line that is not an object says so.
    pub(super) fn finish(&mut self, lines: &mut Vec<u8>) {
        self.end_value(lines);
        if std::mem::take(&mut self.in_array) {
            lines.extend_from_slice(b"[\n");
        }
    }

    fn add(&mut self, byte: u8, lines: &mut Vec<u8>) {
        self.in_value = true;
        lines.push(byte);
    }

    fn end_value(&mut self, lines: &mut Vec<u8>) {
        if std::mem::take(&mut self.in_value) {
            while lines.last() == Some(&b' ') {
                lines.pop();
            }
            lines.push(b'\n');
        }
        (self.depth, self.in_string, self.is_escaped) = (0, false, false);
    }
}
