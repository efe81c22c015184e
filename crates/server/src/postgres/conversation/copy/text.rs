//! PostgreSQL's text: values between delimiters, with escapes.

use tidemill_connect::formats::{LineParser, ParsedRow};

/// Writes the text of a value.
pub(crate) fn write(text: &[u8], delimiter: u8, line: &mut Vec<u8>) {
    for byte in text {
        let letter = match *byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            byte if byte == delimiter => byte,
            byte => {
                line.push(byte);
                continue;
            }
        };
        line.extend([b'\\', letter]);
    }
}

/// Takes a line of PostgreSQL's text apart.
pub(super) struct EscapedText {
    pub delimiter: u8,
    /// What stands for a value that is not there.
    pub null: String,
    pub columns: Vec<String>,
    pub is_at_header: bool,
}

impl LineParser for EscapedText {
    fn parse<'line>(&mut self, line: &'line str, row: &mut ParsedRow<'line, '_>) -> Result<(), String> {
        // The end of the rows, in versions of the protocol before this one.
        if std::mem::take(&mut self.is_at_header) || line == "\\." {
            row.leave_out();
            return Ok(());
        }
        let mut columns = self.columns.iter();
        let mut fields = 0;
        for field in self.fields(line) {
            fields += 1;
            match columns.next() {
                Some(_) if field == self.null => {}
                Some(column) => row.set(column, unescaped(field)?),
                None => {}
            }
        }
        if fields == self.columns.len() {
            Ok(())
        } else {
            Err(format!("it has {fields} values instead of {}", self.columns.len()))
        }
    }
}

impl EscapedText {
    /// The fields of a line, as they are written.
    fn fields<'line>(&self, line: &'line str) -> impl Iterator<Item = &'line str> + use<'line> {
        let (delimiter, mut rest) = (self.delimiter, Some(line));
        std::iter::from_fn(move || {
            let line = rest?;
            let (mut is_escaped, mut end) = (false, line.len());
            for (at, byte) in line.bytes().enumerate() {
                if byte == delimiter && !is_escaped {
                    end = at;
                    break;
                }
                is_escaped = byte == b'\\' && !is_escaped;
            }
            rest = line.get(end + 1..);
            Some(&line[..end])
        })
    }
}

fn unescaped(field: &str) -> Result<String, String> {
    if !field.contains('\\') {
        return Ok(field.to_owned());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, rest) {
            (b'\\', [letter, after @ ..]) => {
                let (value, digits) = match letter {
                    b'b' => (0x08, 0),
                    b'f' => (0x0c, 0),
                    b'n' => (b'\n', 0),
                    b'r' => (b'\r', 0),
                    b't' => (b'\t', 0),
                    b'v' => (0x0b, 0),
                    b'x' if number(after, 16, 2).1 > 0 => number(after, 16, 2),
                    b'0'..=b'7' => {
                        let (value, digits) = number(rest, 8, 3);
                        (value, digits - 1)
                    }
                    other => (*other, 0),
                };
                bytes.push(value);
                rest = &after[digits..];
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The number at the beginning, and how many digits it has.
fn number(text: &[u8], base: u32, digits_max: usize) -> (u8, usize) {
    let digits = text.iter().take(digits_max).map_while(|byte| char::from(*byte).to_digit(base));
    let (value, count) = digits.fold((0, 0), |(value, count), digit| (value * base + digit, count + 1));
    (value as u8, count)
}
