//! What is still open in a statement whose lines are being typed.

/// The mark before its next line: what has to be closed first.
pub(crate) fn mark(text: &str) -> &'static str {
    match open(text) {
        Some('\'') => "'>",
        Some('"') => "\">",
        Some('*') => "*>",
        Some(_) => "(>",
        None => "->",
    }
}

/// Whether the text ends within quotes.
pub(crate) fn is_in_quotes(text: &str) -> bool {
    matches!(open(text), Some('\'' | '"'))
}

/// The innermost thing that is open at the end of the text: a quote, a comment (`*`) or a bracket.
fn open(text: &str) -> Option<char> {
    let mut brackets = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            // A doubled quote ends one text and begins the next.
            quote @ ('\'' | '"') if !chars.by_ref().any(|char| char == quote) => return Some(quote),
            '-' if chars.peek() == Some(&'-') => {
                chars.by_ref().find(|char| *char == '\n');
            }
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                if !ends_comment(&mut chars) {
                    return Some('*');
                }
            }
            '(' | '[' | '{' => brackets.push(char),
            ')' | ']' | '}' => drop(brackets.pop()),
            _ => {}
        }
    }
    brackets.pop()
}

/// Passes the end of a comment; `false` if there is none.
fn ends_comment(chars: &mut impl Iterator<Item = char>) -> bool {
    let mut last = ' ';
    chars.any(|char| std::mem::replace(&mut last, char) == '*' && char == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_tells_what_is_open() {
        for (text, expected) in [
            ("SELECT 1", "->"),
            ("SELECT 'it''s", "'>"),
            ("SELECT 'it''s'", "->"),
            ("SELECT \"a", "\">"),
            ("SELECT count(", "(>"),
            ("SELECT count(')')", "->"),
            ("SELECT 1 -- it's (", "->"),
            ("SELECT 1 -- it's\n, (", "(>"),
            ("SELECT /* it's (", "*>"),
            ("SELECT /* it's ( */ 1", "->"),
            ("SELECT /*/ 1", "*>"),
        ] {
            assert_eq!(mark(text), expected, "{text}");
        }
        assert!(is_in_quotes("SELECT 'a\n") && !is_in_quotes("SELECT (1"));
    }
}
