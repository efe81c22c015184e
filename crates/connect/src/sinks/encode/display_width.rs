//! How many columns of a terminal a text takes.

/// Characters that take two columns (East Asian wide and emoji), as ranges; coarse on purpose.
const WIDE: [(u32, u32); 9] = [
    (0x1100, 0x115f),
    (0x2e80, 0xa4cf),
    (0xac00, 0xd7a3),
    (0xf900, 0xfaff),
    (0xfe30, 0xfe6f),
    (0xff00, 0xff60),
    (0xffe0, 0xffe6),
    (0x1f300, 0x1faff),
    (0x20000, 0x3fffd),
];

/// Characters that take none: combining marks, joiners, variation selectors.
const ZERO: [(u32, u32); 4] = [(0x0300, 0x036f), (0x200b, 0x200f), (0x20d0, 0x20ff), (0xfe00, 0xfe0f)];

fn width_of(character: char) -> usize {
    let code = u32::from(character);
    let within = |ranges: &[(u32, u32)]| ranges.iter().any(|range| (range.0..=range.1).contains(&code));
    match code {
        0..0x300 => 1,
        _ if within(&ZERO) => 0,
        _ if within(&WIDE) => 2,
        _ => 1,
    }
}

/// The width of a text.
pub(super) fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.chars().map(width_of).sum(),
    }
}

/// The bytes of the longest start of a text that is not wider than `width_max`.
pub(super) fn prefix(text: &str, width_max: usize) -> usize {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += width_of(character);
        if taken > width_max {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combining_characters_count_as_terminals_draw_them() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("é"), 1);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("日本"), 4);
        assert_eq!(width("🚗"), 2);
    }

    #[test]
    fn a_prefix_ends_between_characters() {
        assert_eq!(prefix("日本語", 5), "日本".len());
        assert_eq!(prefix("abc", 5), 3);
        assert_eq!(prefix("abc", 2), 2);
    }
}
