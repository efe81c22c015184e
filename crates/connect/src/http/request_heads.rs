//! Where the heads of requests are in the bytes of a connection, and whether each of their lines ends with CR LF.
//!
//! hyper takes a bare LF for the end of a line, too. A proxy in front of it may not, and would then see other requests
//! than we do.

/// The longest line about the length of a body; a longer one is refused.
const LENGTH_LINE_BYTES_MAX: usize = 4096;
/// What nothing in a head may contain.
const REFUSED: u8 = 0;

/// Follows the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct RequestHeads {
    part: Part,
    /// The byte before.
    before: u8,
    /// The line so far if it may be about the length of the body.
    line: Vec<u8>,
    /// How many bytes of the line have come, without its end.
    line_bytes: usize,
    /// Whether the first line of the head has come.
    has_first_line: bool,
    length: Length,
}

/// Which part of a request comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The lines of the head, and the empty line behind them.
    #[default]
    Head,
    /// This many bytes of the body, or of a chunk with the line end behind it (then `is_chunk`).
    Body { left: u64, is_chunk: bool },
    /// The line with the length of a chunk.
    ChunkLength,
    /// The lines behind the last chunk.
    Trailer,
    /// It is broken. Whatever comes is for nobody.
    Refused,
}

/// How long a body is, as its head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Length {
    #[default]
    None,
    Bytes(u64),
    Chunked,
}

impl RequestHeads {
    /// Looks at the next bytes. A line end of a head that is a bare LF is replaced by a character that no head may have, so
    /// that whoever parses the head refuses it.
    pub(super) fn check(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.part {
                Part::Refused => return,
                Part::Body { left, is_chunk } => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    (at, *left) = (at + taken, *left - taken as u64);
                    if *left == 0 {
                        self.part = if *is_chunk { Part::ChunkLength } else { Part::Head };
                    }
                }
                Part::Head | Part::ChunkLength | Part::Trailer => {
                    if !self.take(bytes[at]) {
                        bytes[at] = REFUSED;
                        self.part = Part::Refused;
                    }
                    at += 1;
                }
            }
        }
    }

    /// Takes a byte of a line. False: it may not be there.
    fn take(&mut self, byte: u8) -> bool {
        let before = std::mem::replace(&mut self.before, byte);
        if byte != b'\n' {
            return self.keep(byte);
        }
        if before != b'\r' {
            return false;
        }
        // The carriage return was counted.
        let is_empty = self.line_bytes == 1;
        let fits = self.end_line(is_empty);
        self.line.clear();
        (self.line_bytes, self.before) = (0, 0);
        fits
    }

    /// Keeps the byte if its line matters. False: that line is too long.
    fn keep(&mut self, byte: u8) -> bool {
        let is_first = self.line_bytes == 0;
        self.line_bytes += 1;
        let is_chunk_length = self.part == Part::ChunkLength;
        let begins = match self.part {
            Part::Head => self.has_first_line && matches!(byte, b'c' | b'C' | b't' | b'T'),
            _ => is_chunk_length,
        };
        if if is_first { !begins } else { self.line.is_empty() } {
            return true;
        }
        if self.line.len() < LENGTH_LINE_BYTES_MAX {
            self.line.push(byte);
            return true;
        }
        !is_chunk_length && !is_about_length(&self.line)
    }

    /// A line has ended with CR LF. False: it cannot be understood.
    fn end_line(&mut self, is_empty: bool) -> bool {
        match self.part {
            Part::Head if is_empty && !self.has_first_line => true,
            Part::Head if is_empty => {
                self.part = match self.length {
                    Length::None | Length::Bytes(0) => Part::Head,
                    Length::Bytes(left) => Part::Body { left, is_chunk: false },
                    Length::Chunked => Part::ChunkLength,
                };
                (self.has_first_line, self.length) = (false, Length::None);
                true
            }
            Part::Head => !std::mem::replace(&mut self.has_first_line, true) || self.read_header(),
            Part::ChunkLength => match chunk_length(&self.line) {
                Some(0) => {
                    self.part = Part::Trailer;
                    true
                }
                // The line end behind the chunk is part of it.
                Some(length) => {
                    self.part = Part::Body { left: length.saturating_add(2), is_chunk: true };
                    true
                }
                None => false,
            },
            Part::Trailer if is_empty => {
                self.part = Part::Head;
                true
            }
            _ => true,
        }
    }

    /// A line of the head that may be about the length of the body.
    fn read_header(&mut self) -> bool {
        let Some((name, value)) = header(&self.line) else { return true };
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.length = Length::Chunked;
        } else if name.eq_ignore_ascii_case(b"content-length") && self.length != Length::Chunked {
            let number = std::str::from_utf8(value).ok().and_then(|value| value.trim_ascii().parse().ok());
            let Some(length) = number else { return false };
            self.length = Length::Bytes(length);
        }
        true
    }
}

/// Name and value of a header.
fn header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((&line[..colon], &line[colon + 1..]))
}

fn is_about_length(line: &[u8]) -> bool {
    header(line).is_some_and(|(name, _)| {
        name.eq_ignore_ascii_case(b"transfer-encoding") || name.eq_ignore_ascii_case(b"content-length")
    })
}

/// The length of a chunk by its line, behind which there may be extensions.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let number = line.split(|byte| *byte == b';').next()?;
    u64::from_str_radix(std::str::from_utf8(number).ok()?.trim_ascii(), 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A request as it should be, with the places of the line ends that count.
    #[derive(Clone, Debug)]
    struct Written {
        bytes: Vec<u8>,
        line_ends: Vec<usize>,
    }

    impl Written {
        fn line(&mut self, text: &str) {
            self.bytes.extend(text.as_bytes());
            self.line_ends.push(self.bytes.len());
            self.bytes.extend(b"\r\n");
        }
    }

    /// A body in one piece, or in chunks with extensions and a trailer; bodies may look like heads.
    fn request() -> impl Strategy<Value = Written> {
        let text = prop::sample::select(vec![
            &b""[..],
            b"\n",
            b"\r\n\r\n",
            b"GET / HTTP/1.1\nHost: a\n\n",
            b"0\r\n\r\nx",
            b"cpu usage=1\n",
        ]);
        let header = prop::sample::select(vec!["Host: a", "Cookie: c=t", "Te: x", "Content-Type: x", ""]);
        let headers = prop::collection::vec(header, 0..4);
        (headers, prop::collection::vec(text, 0..4), any::<bool>(), any::<bool>(), 0..3_usize).prop_map(
            |(headers, pieces, is_chunked, has_trailer, empty)| {
                let mut written = Written { bytes: Vec::new(), line_ends: Vec::new() };
                (0..empty).for_each(|_| written.line(""));
                written.line("POST /c HTTP/1.1");
                headers.iter().filter(|header| !header.is_empty()).for_each(|header| written.line(header));
                if !is_chunked {
                    let body = pieces.concat();
                    if !body.is_empty() {
                        written.line(&format!("cOntent-length:\t{} ", body.len()));
                    }
                    written.line("");
                    written.bytes.extend(body);
                    return written;
                }
                written.line("Transfer-Encoding: chunked");
                written.line("");
                for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
                    written.line(&format!("{:X};name=\"v\"", piece.len()));
                    written.bytes.extend(*piece);
                    written.bytes.extend(b"\r\n");
                }
                written.line("0");
                if has_trailer {
                    written.line("Trailer: t");
                }
                written.line("");
                written
            },
        )
    }

    /// What is left of the bytes if they come in pieces of these sizes.
    fn checked(bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
        let (mut bytes, mut heads) = (bytes.to_vec(), RequestHeads::default());
        let (mut at, mut sizes) = (0, sizes.iter().cycle());
        while at < bytes.len() {
            let end = (at + sizes.next().unwrap()).min(bytes.len());
            heads.check(&mut bytes[at..end]);
            at = end;
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_bare_line_end_of_a_head_is_found_and_nothing_else_is_touched(
            requests in prop::collection::vec(request(), 1..5),
            wrong in any::<prop::sample::Index>(),
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let mut all = Vec::new();
            let mut line_ends = Vec::new();
            for Written { bytes, line_ends: own } in &requests {
                line_ends.extend(own.iter().map(|end| all.len() + end));
                all.extend(bytes);
            }
            prop_assert_eq!(&checked(&all, &sizes), &all);
            // Without its carriage return, a line end is refused, wherever the pieces end.
            let end = *wrong.get(&line_ends);
            all.remove(end);
            let mut expected = all.clone();
            expected[end] = REFUSED;
            prop_assert_eq!(&checked(&all, &sizes), &expected);
        }

        #[test]
        fn any_bytes_change_in_one_place_at_most(
            bytes in prop::collection::vec(prop::sample::select(b"\r\n:0 1;aCt".to_vec()), 0..200),
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let found = checked(&bytes, &sizes);
            prop_assert!(found.iter().zip(&bytes).filter(|(one, other)| one != other).count() <= 1);
            prop_assert_eq!(found, checked(&bytes, &[1]));
        }
    }

    #[test]
    fn a_line_about_the_length_that_is_too_long_is_refused_and_any_other_is_not() {
        let head = |name: &str| {
            let zeros = "0".repeat(2 * LENGTH_LINE_BYTES_MAX);
            format!("POST / HTTP/1.1\r\n{name}: {zeros}1\r\n\r\nxPOST / HTTP/1.1\n").into_bytes()
        };
        assert!(checked(&head("Content-Length"), &[7]).contains(&REFUSED));
        let cookie = head("Cookie");
        let found = checked(&cookie, &[7]);
        // The body is the next head here.
        assert_eq!(found.iter().position(|byte| *byte == REFUSED), Some(cookie.len() - 1));
    }
}
