//! Finds where the records of a CSV and their fields begin and end.

/// A field: `bytes[begin..end]`, without its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    begin: u32,
    /// The end, and whether it was quoted in the highest bit.
    end: u32,
}

const QUOTED: u32 = 1 << 31;

impl Span {
    fn new(begin: usize, end: usize, quoted: bool) -> Span {
        Span { begin: begin as u32, end: end as u32 | if quoted { QUOTED } else { 0 } }
    }

    /// A field without text.
    pub(crate) fn empty(at: usize) -> Span {
        Span::new(at, at, false)
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.begin as usize..(self.end & !QUOTED) as usize
    }

    pub(crate) fn is_quoted(self) -> bool {
        self.end & QUOTED != 0
    }

    /// Replaces doubled quotes by single ones in place. The remainder at the end is filled with quotes, so that the
    /// number of newlines before any later position does not change.
    pub(crate) fn unescape(self, bytes: &mut [u8], quote: u8) -> Span {
        let field = &mut bytes[self.range()];
        let (mut from, mut to) = (0, 0);
        while from < field.len() {
            field[to] = field[from];
            from += if field[from] == quote { 2 } else { 1 };
            to += 1;
        }
        field[to..].fill(quote);
        Span::new(self.begin as usize, self.begin as usize + to, true)
    }
}

/// What is found at a position where a record may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record with this many fields; the next begins at `next`. `escaped`: some field has doubled quotes.
    Record { next: usize, fields: usize, escaped: bool },
    /// An empty line.
    Empty { next: usize },
    /// The record does not end in these bytes.
    Incomplete,
    /// It is broken.
    Bad(&'static str),
}

/// Reads the record that begins at `start`, and passes its fields by number to the callback. A field is quoted only if
/// a quote is its first byte; elsewhere a quote is an ordinary character.
#[inline]
pub(crate) fn next_record(
    bytes: &[u8],
    start: usize,
    delimiter: u8,
    quote: u8,
    mut field: impl FnMut(usize, Span),
) -> Step {
    let mut at = start;
    let mut column = 0;
    let mut escaped = false;
    loop {
        let end = match bytes.get(at) {
            None => return Step::Incomplete,
            Some(&first) if first == quote => {
                let (end, doubled) = match end_of_quoted(bytes, at + 1, quote) {
                    Some(found) => found,
                    None => return Step::Incomplete,
                };
                escaped |= doubled;
                field(column, Span::new(at + 1, end, true));
                match bytes[end + 1..] {
                    [byte, ..] if byte == delimiter || byte == b'\n' => end + 1,
                    [b'\r', b'\n', ..] => end + 2,
                    [] | [b'\r'] => return Step::Incomplete,
                    _ => {
                        return Step::Bad(
                            "text follows a closing quote (a quote in a quoted field is doubled)",
                        );
                    }
                }
            }
            Some(_) => {
                let Some(length) = bytes[at..].iter().position(|&byte| byte == delimiter || byte == b'\n')
                else {
                    return Step::Incomplete;
                };
                let end = at + length;
                let is_last = bytes[end] == b'\n';
                let has_return = is_last && end > at && bytes[end - 1] == b'\r';
                let content_end = end - usize::from(has_return);
                if is_last && column == 0 && content_end == start {
                    return Step::Empty { next: end + 1 };
                }
                field(column, Span::new(at, content_end, false));
                end
            }
        };
        column += 1;
        at = end + 1;
        if bytes[end] == b'\n' {
            return Step::Record { next: at, fields: column, escaped };
        }
    }
}

/// Where the closing quote is, and whether doubled quotes came before it.
fn end_of_quoted(bytes: &[u8], begin: usize, quote: u8) -> Option<(usize, bool)> {
    let mut from = begin;
    let mut doubled = false;
    loop {
        let end = from + memchr::memchr(quote, &bytes[from..])?;
        if bytes.get(end + 1) != Some(&quote) {
            return Some((end, doubled));
        }
        doubled = true;
        from = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> (Step, Vec<String>) {
        let mut found = Vec::new();
        let mut bytes = text.as_bytes().to_vec();
        let step = next_record(text.as_bytes(), 0, b',', b'"', |_, span| found.push(span));
        let fields = found
            .into_iter()
            .map(|span| if span.is_quoted() { span.unescape(&mut bytes, b'"') } else { span })
            .collect::<Vec<_>>();
        (step, fields.iter().map(|span| String::from_utf8_lossy(&bytes[span.range()]).into_owned()).collect())
    }

    #[test]
    fn quotes_delimiters_and_line_ends_are_told_apart() {
        let (step, found) = fields("a,\"b\"\"\n,c\",,d\"e\r\nnext");
        assert_eq!(step, Step::Record { next: 17, fields: 4, escaped: true });
        assert_eq!(found, ["a", "b\"\n,c", "", "d\"e"]);
        assert_eq!(fields("\r\n").0, Step::Empty { next: 2 });
        assert_eq!(fields("\"\"\n").0, Step::Record { next: 3, fields: 1, escaped: false });
        assert_eq!(fields("a,b").0, Step::Incomplete);
        assert_eq!(fields("a,\"b\"").0, Step::Incomplete);
        assert!(matches!(fields("\"a\"b\n").0, Step::Bad(_)));
    }
}
