//! The number of terminal columns that a text takes.

use unicode_width::UnicodeWidthStr;

/// The columns of a terminal that a text takes: two for wide characters and emoji, none for combining marks.
///
/// ```
/// use tidemill_connect::formats::encode::display_width;
/// assert_eq!(display_width("abc"), 3);
/// assert_eq!(display_width("日本"), 4);
/// assert_eq!(display_width("e\u{301}"), 1);
/// ```
pub fn display_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combining_characters_count_as_terminals_draw_them() {
        assert_eq!(display_width(""), 0);
        assert_eq!(display_width("é"), 1);
        assert_eq!(display_width("🚗"), 2);
        assert_eq!(display_width("ｱ"), 1);
        assert_eq!(display_width("ア"), 2);
        assert_eq!(display_width("นี่"), 1);
        // One picture of four people.
        assert_eq!(display_width("👨\u{200d}👩\u{200d}👧\u{200d}👦"), 2);
        assert_eq!(display_width("❤\u{fe0f}"), 2);
    }
}
