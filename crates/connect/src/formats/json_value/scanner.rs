//! Reads the pieces of one JSON text: strings, numbers, brackets. It knows nothing of columns.

use std::fmt;

/// The deepest nesting of lists and objects; the readers of other programs have the same limit.
pub(in crate::formats) const DEPTH_MAX: u32 = 128;

/// Why a text that is nested more than [`DEPTH_MAX`] deep is refused.
pub(in crate::formats) const TOO_DEEP: &str = "lists and objects nested more than 128 deep";

/// Why a text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) struct Malformed {
    reason: &'static str,
    /// How many bytes precede the place.
    at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "not valid JSON: {} at byte {}", self.reason, self.at + 1)
    }
}

/// A string as it is written, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats) struct Written<'a> {
    pub(in crate::formats) text: &'a str,
    pub(in crate::formats) has_escapes: bool,
    /// Where it begins, for messages.
    at: usize,
}

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(in crate::formats) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// Returns that the text is not JSON here, for this reason.
    pub(in crate::formats) fn malformed(&self, reason: &'static str) -> Malformed {
        Malformed { reason, at: self.at }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte that is not a blank, and stays in front of it.
    #[inline]
    pub(in crate::formats) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Passes a byte if it comes next.
    #[inline]
    pub(in crate::formats) fn passes(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes a byte that must come next.
    pub(in crate::formats) fn pass(&mut self, wanted: u8, reason: &'static str) -> Result<(), Malformed> {
        if self.passes(wanted) { Ok(()) } else { Err(self.malformed(reason)) }
    }

    /// Returns whether nothing follows but blanks.
    pub(in crate::formats) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Enters a list or an object; returns whether it has a first element.
    pub(in crate::formats) fn enter(&mut self, open: u8, close: u8) -> Result<bool, Malformed> {
        self.pass(open, "a bracket is missing")?;
        Ok(!self.passes(close))
    }

    /// Passes the comma before another element, or the bracket at the end; returns whether there is another element.
    #[inline]
    pub(in crate::formats) fn continues(&mut self, close: u8) -> Result<bool, Malformed> {
        if self.passes(b',') {
            return Ok(true);
        }
        self.pass(close, "a comma or a closing bracket is missing")?;
        Ok(false)
    }

    /// Reads a key and the colon after it.
    #[inline]
    pub(in crate::formats) fn key(&mut self) -> Result<Written<'a>, Malformed> {
        let key = self.string()?;
        self.pass(b':', "a colon is missing")?;
        Ok(key)
    }

    /// Reads a string.
    #[inline]
    pub(in crate::formats) fn string(&mut self) -> Result<Written<'a>, Malformed> {
        self.pass(b'"', "a quote is missing")?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut has_escapes = false;
        loop {
            match memchr::memchr2(b'"', b'\\', &bytes[self.at..]) {
                None => return Err(Malformed { reason: "a text is not closed", at: start }),
                Some(found) if bytes[self.at + found] == b'"' => {
                    let text = &self.text[start..self.at + found];
                    self.at += found + 1;
                    return Ok(Written { text, has_escapes, at: start });
                }
                Some(found) => {
                    has_escapes = true;
                    // The character after a backslash may be longer than a byte; it is refused when it is decoded.
                    self.at = (self.at + found + 2).min(bytes.len());
                }
            }
        }
    }

    /// Reads a number, `true`, `false` or `null`, and returns its text.
    #[inline]
    pub(in crate::formats) fn word(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let length = bytes[start..].iter().take_while(|byte| is_of_word(**byte)).count();
        let word = &self.text[start..start + length];
        let is_known = matches!(word, "true" | "false" | "null") || is_number(word.as_bytes());
        if !is_known {
            return Err(self.malformed("a value is missing"));
        }
        self.at += length;
        Ok(word)
    }

    /// Passes a value of any kind, which is checked, and returns its text.
    pub(in crate::formats) fn value(&mut self) -> Result<&'a str, Malformed> {
        self.peek();
        let start = self.at;
        // One bit for each open bracket: whether it is that of an object.
        let (mut open, mut depth) = (0_u128, 0_u32);
        loop {
            let first = self.peek();
            let is_entered = match first {
                Some(b'{') => self.enter(b'{', b'}')?,
                Some(b'[') => self.enter(b'[', b']')?,
                Some(b'"') => {
                    let text = self.string()?;
                    if text.has_escapes {
                        unescape(text, &mut String::new())?;
                    }
                    false
                }
                _ => {
                    self.word()?;
                    false
                }
            };
            if is_entered {
                if depth == DEPTH_MAX {
                    return Err(self.malformed(TOO_DEEP));
                }
                (open, depth) = (open << 1 | u128::from(first == Some(b'{')), depth + 1);
            } else {
                loop {
                    if depth == 0 {
                        return Ok(&self.text[start..self.at]);
                    }
                    let close = if open & 1 == 1 { b'}' } else { b']' };
                    if self.continues(close)? {
                        break;
                    }
                    (open, depth) = (open >> 1, depth - 1);
                }
            }
            if open & 1 == 1 {
                self.key()?;
            }
        }
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// Whether a text is a number. JSON does not allow zeros in front, but they cannot mean anything else.
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let Some(text) = without_digits(text) else { return false };
    let text = match text.strip_prefix(b".") {
        None => text,
        Some(fraction) => match without_digits(fraction) {
            Some(text) => text,
            None => return false,
        },
    };
    match text {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let digits =
                exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
            without_digits(digits).is_some_and(<[u8]>::is_empty)
        }
        _ => false,
    }
}

/// What follows one digit or more.
fn without_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &text[digits..])
}

/// Appends what a string with escapes denotes.
pub(in crate::formats) fn unescape(written: Written<'_>, decoded: &mut String) -> Result<(), Malformed> {
    let mut rest = written.text;
    let malformed =
        |rest: &str, reason| Malformed { reason, at: written.at + written.text.len() - rest.len() };
    while let Some(found) = memchr::memchr(b'\\', rest.as_bytes()) {
        decoded.push_str(&rest[..found]);
        rest = &rest[found..];
        let plain = match rest.as_bytes().get(1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let (character, length) =
                    code_point(rest).ok_or(malformed(rest, "an escape that is not a character"))?;
                decoded.push(character);
                rest = &rest[length..];
                continue;
            }
            _ => return Err(malformed(rest, "an unknown escape")),
        };
        decoded.push(plain);
        rest = &rest[2..];
    }
    decoded.push_str(rest);
    Ok(())
}

/// The character of `\u1234`, or of two surrogates, and the length of the escape.
fn code_point(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 6)?.strip_prefix("\\u")?;
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)
    };
    let first = unit(0)?;
    match char::from_u32(u32::from(first)) {
        Some(character) => Some((character, 6)),
        None => {
            let character = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
            Some((character, 12))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_json(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value().is_ok() && scanner.is_at_end()
    }

    fn decoded(text: &str) -> Option<String> {
        let mut decoded = String::new();
        let written = Scanner::new(text).string().ok()?;
        unescape(written, &mut decoded).ok().map(|()| decoded)
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_json(&nested(128)));
        assert!(!is_json(&nested(129)));
        assert!(!is_json(&"[".repeat(1_000_000)));
        assert!(!is_json(&"{\"a\":".repeat(200_000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Another reader is the judge. It alone refuses zeros in front, control characters and numbers beyond a double.
        #[test]
        fn what_is_json_is_what_others_call_json(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "\"\\n\"", "\"\\x\"", "\"\\u00e9\"",
                "\"\\ud83d\\ude97\"", "\"\\ud83d\"", "\"\\ude97x\"", "\"\\u+123\"", "1", "-1.5e-3", "1.", ".5",
                "1e", "-", "1-2", "true", "null", "nul", "\"", " ", "\\", "é",
            ]), 0..9),
        ) {
            let text = parts.concat();
            let expected = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert_eq!(is_json(&text), expected.is_ok(), "{}: {:?}", text, expected);
        }

        #[test]
        fn texts_are_what_others_decode(characters in prop::collection::vec(any::<char>(), 0..8)) {
            let text: String = characters.into_iter().collect();
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(decoded(&written), Some(text.clone()));
            let escaped: String =
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(decoded(&format!("\"{escaped}\"")), Some(text));
        }
    }
}
