//! UTF-16 as UTF-8, and lines that end with CR alone.

/// Stands for bytes without a character: it is not UTF-8, so the record is a bad one.
const INVALID: u8 = 0xff;

/// How a text is encoded, if not as UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf16Little,
    Utf16Big,
    /// Nothing of it can be read.
    Utf32,
}

/// Whether the lines of a text that begins like this end with CR alone, as old Macintosh programs write it; `None`: that does not
/// show yet. `is_enough`: no more is waited for.
pub(super) fn has_carriage_returns(start: &[u8], is_enough: bool) -> Option<bool> {
    if memchr::memchr(b'\n', start).is_some() {
        return Some(false);
    }
    // The last one may be half of CR LF, or belong to one line alone.
    is_enough.then(|| memchr::memchr(b'\r', start).is_some_and(|at| at + 1 < start.len()))
}

impl Encoding {
    /// The encoding of a text that begins like this. The outer `None`: that does not show yet. `is_enough`: no more is waited
    /// for.
    pub(super) fn of(start: &[u8], is_enough: bool) -> Option<Option<Encoding>> {
        let marked = match start {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(Encoding::Utf32),
            [0xff, 0xfe, ..] => Some(Encoding::Utf16Little),
            [0xfe, 0xff, ..] => Some(Encoding::Utf16Big),
            // Without a mark: two characters of ASCII.
            [1..0x80, 0, 1..0x80, 0, ..] => Some(Encoding::Utf16Little),
            [0, 1..0x80, 0, 1..0x80, ..] => Some(Encoding::Utf16Big),
            _ => None,
        };
        let is_short = start.len() < 4 && !is_enough && memchr::memchr(b'\n', start).is_none();
        (!is_short).then_some(marked)
    }

    pub(super) fn decoder(self) -> Decoder {
        Decoder { encoding: self, rest: Vec::new(), at_start: true }
    }

    /// The beginning of a text.
    pub(super) fn decoded(self, start: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        self.decoder().push(start, &mut text);
        text
    }
}

/// Decodes a text that comes in pieces.
pub(super) struct Decoder {
    encoding: Encoding,
    /// Bytes of a character that is not complete yet.
    rest: Vec<u8>,
    at_start: bool,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let unit: fn([u8; 2]) -> u16 = match self.encoding {
            Encoding::Utf32 => {
                text.extend_from_slice(bytes);
                return;
            }
            Encoding::Utf16Little => u16::from_le_bytes,
            Encoding::Utf16Big => u16::from_be_bytes,
        };
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() / 2 * 2;
        let mut units = self.rest[..whole].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).peekable();
        let mut kept = self.rest.len() - whole;
        text.reserve(whole);
        while let Some(first) = units.next() {
            let is_high = (0xd800..0xdc00).contains(&first);
            let pair = match units.peek() {
                None if is_high => {
                    kept += 2;
                    break;
                }
                Some(second) if is_high && (0xdc00..0xe000).contains(second) => units.next(),
                _ => None,
            };
            let character = match pair {
                Some(second) => char::decode_utf16([first, second]).next(),
                None => char::decode_utf16([first]).next(),
            };
            match character {
                Some(Ok('\u{feff}')) if self.at_start => {}
                Some(Ok(character)) => {
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(INVALID),
            }
            self.at_start = false;
        }
        self.rest.drain(..self.rest.len() - kept);
    }

    /// The text has ended.
    pub(super) fn finish(&mut self, text: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            text.push(INVALID);
            self.rest.clear();
        }
    }
}
