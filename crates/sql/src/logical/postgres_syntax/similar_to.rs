//! `text SIMILAR TO 'pattern'` as a regular expression. DataFusion (55.2) takes the pattern for one, and accepts a match of a part of the
//! text.

/// Returns the regular expression of a pattern of the SQL standard; `None` if it ends in the escape character.
///
/// In a pattern, `%` and `_` are any letters and any letter, `| * + ? {m,n} ( ) [ ]` mean what they mean in regular expressions, and a
/// letter behind the escape character stands for itself.
pub(crate) fn regular_expression(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut regular = String::from("(?s)^(?:");
    let mut letters = pattern.chars();
    let mut is_in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            letter if Some(letter) == escape => {
                regular.push_str(&regex::escape(letters.next()?.encode_utf8(&mut [0; 4])))
            }
            '[' if !is_in_class => {
                is_in_class = true;
                regular.push('[');
            }
            ']' => {
                is_in_class = false;
                regular.push(']');
            }
            letter if is_in_class => regular.push(letter),
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | ')' => regular.push(letter),
            // Its groups are not asked for.
            '(' => regular.push_str("(?:"),
            other => regular.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    regular.push_str(")$");
    Some(regular)
}

#[cfg(test)]
mod tests {
    use super::regular_expression;

    #[test]
    fn letters_of_regular_expressions_stand_for_themselves() {
        let of = |pattern| regular_expression(pattern, Some('\\')).unwrap();
        assert_eq!(of("a.b%_"), r"(?s)^(?:a\.b.*.)$");
        assert_eq!(of(r"(a|b)+\%[^x.]"), "(?s)^(?:(?:a|b)+%[^x.])$");
        assert_eq!(regular_expression("a\\", Some('\\')), None);
        assert_eq!(regular_expression("a#%", Some('#')).unwrap(), "(?s)^(?:a%)$");
    }
}
