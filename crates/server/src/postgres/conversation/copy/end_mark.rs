//! The line `\.` by which psql ends rows that are typed in. It sends the line with the rows, also in CSV.

/// Every beginning of the line that can be the end of what has come so far, the longest first.
const BEGINNINGS: [&[u8]; 5] = [b"\\.\r\n", b"\\.\n", b"\\.\r", b"\\.", b"\\"];

/// Takes a last line `\.` away. A line like it with more behind it stays.
#[derive(Debug, Default)]
pub(crate) struct EndMark {
    /// A line that may be the mark: nothing has come behind it.
    held: Vec<u8>,
    /// What was passed on ends within a line.
    is_within_line: bool,
}

impl EndMark {
    /// What can be read of these bytes and those before them.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut rows = std::mem::take(&mut self.held);
        rows.extend(bytes);
        let is_line = |start: usize| match start {
            0 => !self.is_within_line,
            start => rows[start - 1] == b'\n',
        };
        let start = |beginning: &&[u8]| rows.ends_with(beginning).then(|| rows.len() - beginning.len());
        if let Some(start) = BEGINNINGS.iter().filter_map(start).find(|start| is_line(*start)) {
            self.held = rows.split_off(start);
        }
        if let Some(last) = rows.last() {
            self.is_within_line = *last != b'\n';
        }
        rows
    }

    /// Nothing more comes: what was held and is not the mark.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        if held.starts_with(b"\\.") { Vec::new() } else { held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> String {
        let mut mark = EndMark::default();
        let mut rows: Vec<u8> = pieces.iter().flat_map(|piece| mark.pass(piece.as_bytes())).collect();
        rows.extend(mark.finish());
        String::from_utf8(rows).unwrap()
    }

    #[test]
    fn only_a_last_line_is_the_mark() {
        for (text, rows) in [
            ("1,a\n\\.\n", "1,a\n"),
            ("1,a\r\n\\.\r\n", "1,a\r\n"),
            ("1,a\n\\.", "1,a\n"),
            ("\\.\n", ""),
            ("1,a\n\\.\n2,b\n", "1,a\n\\.\n2,b\n"),
            ("1,\\.\n", "1,\\.\n"),
            ("1,a\n\\", "1,a\n\\"),
            ("1,a\n\\.x", "1,a\n\\.x"),
            ("", ""),
        ] {
            assert_eq!(read(&[text]), rows, "{text:?}");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(read(&letters), rows, "{text:?} letter by letter");
        }
    }
}
