//! Texts that are not lines of UTF-8: UTF-16, lines that end with CR alone, JSON documents of many lines. They become lines of
//! UTF-8 before a decoder sees them.
//!
//! What a text is shows at its beginning ([`TextShape::of`]).

mod encoding;
mod json_document;

use encoding::{Encoding, has_carriage_returns};
use json_document::JsonDocument;

use std::borrow::Cow;

use super::Format;

/// How much of a text is looked at to find out what it is.
pub(crate) const SHAPE_BYTES: usize = 64 * 1024;

/// What a text is that a decoder of lines cannot read as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextShape {
    encoding: Option<Encoding>,
    has_carriage_returns: bool,
    is_json_document: bool,
}

impl TextShape {
    /// What a text is that begins like this; `is_whole`: that is all of it. The outer `None`: more of it must come to tell. The
    /// inner one: it is lines of UTF-8.
    pub(crate) fn of(start: &[u8], is_whole: bool, format: &Format) -> Option<Option<TextShape>> {
        if !format.is_text() || matches!(format, Format::Own(_)) {
            return Some(None);
        }
        let is_enough = is_whole || start.len() >= SHAPE_BYTES;
        let encoding = Encoding::of(start, is_enough)?;
        let decoded = encoding.map(|encoding| encoding.decoded(start));
        let start = decoded.as_deref().unwrap_or(start);
        let is_json_document = *format == Format::Json && {
            let returns_are_ends = start.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte });
            match JsonDocument::begins(&returns_are_ends.collect::<Vec<u8>>()) {
                Some(is_document) => is_document,
                None if is_enough => false,
                None => return None,
            }
        };
        // How the lines of a document end does not matter.
        let has_carriage_returns = !is_json_document && has_carriage_returns(start, is_enough)?;
        let shape = TextShape { encoding, has_carriage_returns, is_json_document };
        Some((encoding.is_some() || has_carriage_returns || is_json_document).then_some(shape))
    }

    /// Why nothing of such a text can be read.
    pub(crate) fn why_not_read(self) -> Option<&'static str> {
        (self.encoding == Some(Encoding::Utf32))
            .then_some("a text in UTF-32 cannot be read; write it in UTF-8")
    }

    /// Why such a file cannot be followed: a byte of its lines is not a byte of the file.
    pub(crate) fn why_not_followed(self) -> &'static str {
        match self.encoding {
            Some(Encoding::Utf16Little | Encoding::Utf16Big) => {
                "a file in UTF-16 cannot be followed; write it in UTF-8"
            }
            Some(Encoding::Utf32) => "a text in UTF-32 cannot be read; write it in UTF-8",
            None if self.has_carriage_returns => {
                "a file whose lines end with CR alone cannot be followed; end them with LF"
            }
            None => "a JSON array or pretty-printed JSON cannot be followed; write one object per line",
        }
    }

    /// How messages name such a text, whose lines are counted after it was brought into lines.
    pub(crate) fn place(self, name: &str) -> String {
        if self.is_json_document { format!("{name}, with one value per line") } else { name.to_owned() }
    }

    /// Makes lines of it.
    pub(crate) fn to_lines(self) -> ToLines {
        ToLines {
            encoding: self.encoding.map(Encoding::decoder),
            has_carriage_returns: self.has_carriage_returns,
            document: self.is_json_document.then(JsonDocument::default),
            decoded: Vec::new(),
        }
    }
}

/// Makes lines of UTF-8 of a text that comes in pieces.
pub(crate) struct ToLines {
    encoding: Option<encoding::Decoder>,
    has_carriage_returns: bool,
    document: Option<JsonDocument>,
    decoded: Vec<u8>,
}

impl ToLines {
    /// Takes the next bytes, and appends lines, or parts of one.
    pub(crate) fn push(&mut self, bytes: &[u8], lines: &mut Vec<u8>) {
        let before = lines.len();
        match (&mut self.encoding, &mut self.document) {
            (Some(encoding), None) => encoding.push(bytes, lines),
            (None, Some(document)) => document.push(bytes, lines),
            (Some(encoding), Some(document)) => {
                self.decoded.clear();
                encoding.push(bytes, &mut self.decoded);
                document.push(&self.decoded, lines);
            }
            (None, None) => lines.extend_from_slice(bytes),
        }
        if self.has_carriage_returns {
            lines[before..].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
    }

    /// The text has ended.
    pub(crate) fn finish(&mut self, lines: &mut Vec<u8>) {
        let mut rest = Vec::new();
        if let Some(encoding) = &mut self.encoding {
            encoding.finish(&mut rest);
        }
        match &mut self.document {
            Some(document) => {
                document.push(&rest, lines);
                document.finish(lines);
            }
            None => lines.append(&mut rest),
        }
    }
}

/// The lines of a text that comes in pieces and is not known beforehand: a pipe.
pub(crate) struct LineStream {
    format: Format,
    /// What came before it showed what the text is; `None` since then.
    held: Option<Vec<u8>>,
    to_lines: Option<ToLines>,
}

impl LineStream {
    pub(crate) fn new(format: Format) -> LineStream {
        LineStream { format, held: Some(Vec::new()), to_lines: None }
    }

    /// Takes the next bytes, and returns lines, or parts of one. `is_whole`: nothing follows.
    pub(crate) fn push<'a>(&mut self, bytes: &'a [u8], is_whole: bool) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(bytes);
        if let Some(mut held) = self.held.take() {
            held.extend_from_slice(&bytes);
            let Some(shape) = TextShape::of(&held, is_whole, &self.format) else {
                self.held = Some(held);
                return Cow::Borrowed(b"");
            };
            self.to_lines = shape.map(TextShape::to_lines);
            bytes = Cow::Owned(held);
        }
        let Some(to_lines) = &mut self.to_lines else { return bytes };
        let mut lines = Vec::new();
        to_lines.push(&bytes, &mut lines);
        if is_whole {
            to_lines.finish(&mut lines);
        }
        Cow::Owned(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines, with the text in pieces of this size.
    fn lines(text: &[u8], format: &Format, piece: usize) -> Option<Vec<u8>> {
        let mut to_lines = TextShape::of(text, true, format).expect("it is whole")?.to_lines();
        let mut found = Vec::new();
        text.chunks(piece).for_each(|bytes| to_lines.push(bytes, &mut found));
        to_lines.finish(&mut found);
        Some(found)
    }

    fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
        let units = text.encode_utf16();
        let units = std::iter::once(0xfeff).filter(|_| mark).chain(units);
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[test]
    fn utf_16_becomes_utf_8_whatever_the_pieces_and_the_order_of_bytes() {
        let text = "a,b\r\n1,ü€😀\n2,x\n";
        for (big, mark) in [(false, true), (true, true), (false, false), (true, false)] {
            let bytes = utf16(text, big, mark);
            for piece in [1, 2, 3, 5, 1000] {
                let found = lines(&bytes, &Format::Csv, piece).expect("it is UTF-16");
                assert_eq!(String::from_utf8(found).unwrap(), text, "{big} {mark} {piece}");
            }
        }
        let mut broken = utf16("a\n", false, true);
        broken.extend([0x00, 0xd8, b'x', 0, b'\n', 0, b'y']);
        let found = lines(&broken, &Format::Lines, 3).unwrap();
        assert_eq!(found, b"a\n\xffx\n\xff", "what is no character is not UTF-8 either");
    }

    #[test]
    fn lines_of_utf_8_are_left_as_they_are() {
        for text in [
            "",
            "a,b\n1,x\n",
            "a,b\r\n1,x\r\n",
            "a\r",
            "a,\"x\ry\"\n1,2\n",
            "ü",
            "{\"a\":1}\n{\"a\":\n",
            "a,b\r\n",
        ] {
            for format in [Format::Csv, Format::Json, Format::Lines] {
                assert_eq!(lines(text.as_bytes(), &format, 1), None, "{text:?} {format:?}");
            }
        }
    }

    #[test]
    fn carriage_returns_alone_end_lines_if_nothing_else_does() {
        let found = lines(b"a,b\r1,x\r2,y\r", &Format::Csv, 1).unwrap();
        assert_eq!(found, b"a,b\n1,x\n2,y\n");
        assert_eq!(lines(&utf16("a\rb\r", false, true), &Format::Csv, 3).unwrap(), b"a\nb\n");
        assert_eq!(lines(b"{\"a\":1}\r{\"a\":2}", &Format::Json, 4).unwrap(), b"{\"a\":1}\n{\"a\":2}");
    }

    #[test]
    fn more_must_come_until_it_shows_what_a_text_is() {
        let of = |text: &[u8], format| TextShape::of(text, false, &format);
        assert_eq!(of(b"", Format::Csv), None);
        assert_eq!(of(b"a", Format::Csv), None);
        assert_eq!(of(b"a,b\r", Format::Csv), None, "LF may follow");
        assert_eq!(of(b"a,b\r\n", Format::Csv), Some(None));
        assert_eq!(of(b"{\n", Format::Json), None);
        assert_eq!(of(b"{\"a\": 1}\n", Format::Json), Some(None));
        assert!(of(b"{\n  \"a\"", Format::Json).flatten().is_some());
        assert!(of(b"  [{\"a\"\n", Format::Json).flatten().is_some());
        assert!(of(b" [{\"a\"", Format::Json).flatten().is_some());
        assert_eq!(of(b"[\0", Format::Json), None, "it may be UTF-16");
    }

    /// The same values, written by another program in the ways in which JSON is written.
    #[test]
    fn json_documents_have_the_values_that_serde_finds() {
        let values: Vec<serde_json::Value> = (0..40)
            .map(|at| {
                serde_json::json!({
                    "a": at, "t": "br[ack]ets {and} \"quotes\", \\ and\nlines",
                    "n": {"x": [1, [2, {"y": null}]], "e": {}},
                    "l": [], "u": "ü€"
                })
            })
            .collect();
        let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
        let array = serde_json::Value::Array(values.clone());
        let documents = [
            array.to_string(),
            pretty(&array),
            format!(
                "[\n{}\n]\n",
                values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",\n")
            ),
            values.iter().map(&pretty).collect::<Vec<_>>().join("\n"),
            values.iter().map(&pretty).collect::<Vec<_>>().join(""),
            format!("{array}\n{array}").replacen("}][", "}]\n[", 1),
            values.iter().map(|value| pretty(value).replace('\n', "\r")).collect::<Vec<_>>().join("\r"),
            format!("\u{feff}{array}"),
            values.iter().map(|value| pretty(value).replace('\n', "\r\n")).collect::<Vec<_>>().join("\r\n"),
        ];
        for (number, document) in documents.iter().enumerate() {
            for piece in [1, 7, 4096] {
                let found = lines(document.as_bytes(), &Format::Json, piece);
                let found = String::from_utf8(found.unwrap_or_else(|| panic!("{number}"))).unwrap();
                let found: Vec<serde_json::Value> =
                    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let twice = [&values[..], &values[..]].concat();
                assert_eq!(found, if number == 5 { twice } else { values.clone() }, "document {number}");
            }
        }
    }

    #[test]
    fn a_stream_gives_the_lines_of_the_whole_text() {
        let texts: [(&[u8], Format); 5] = [
            (b"{\"a\":1}\n{\"a\":2}\n", Format::Json),
            (b"{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n", Format::Json),
            (b" [{\"a\": 1}, {\"a\": 2}]", Format::Json),
            (b"a,b\r1,2\r", Format::Csv),
            (b"\xff\xfea\0\n\0", Format::Csv),
        ];
        for (text, format) in texts {
            let whole = lines(text, &format, text.len()).unwrap_or(text.to_vec());
            for piece in [1, 2, 5, 100] {
                let mut stream = LineStream::new(format.clone());
                let mut found = Vec::new();
                text.chunks(piece).for_each(|bytes| found.extend_from_slice(&stream.push(bytes, false)));
                found.extend_from_slice(&stream.push(b"", true));
                assert_eq!(found, whole, "{text:?} {piece}");
            }
        }
    }

    #[test]
    fn a_document_that_is_cut_off_has_a_last_line_that_is_no_object() {
        let found =
            |text: &str| String::from_utf8(lines(text.as_bytes(), &Format::Json, 3).unwrap()).unwrap();
        assert_eq!(found("[{\"a\":1},{\"a\":2}"), "{\"a\":1}\n{\"a\":2}\n[\n");
        assert_eq!(found("[{\"a\":1},{\"a\""), "{\"a\":1}\n{\"a\"\n[\n");
        assert_eq!(found("[1, \"x\", null]"), "1\n\"x\"\nnull\n");
        assert_eq!(found("[]"), "");
    }
}
