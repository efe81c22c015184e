//! Names and parentheses as statements have them.

/// A name, without quotes.
pub(super) fn name(word: &str) -> String {
    match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => word.to_owned(),
    }
}

/// A name as PostgreSQL reads it: in small letters, unless it is quoted.
pub(super) fn folded(word: &str) -> String {
    if word.starts_with('"') { name(word) } else { word.to_lowercase() }
}

/// Where the parenthesis at the beginning is closed.
pub(super) fn closed(words: &[String]) -> Option<usize> {
    let mut depth = 0_usize;
    words.iter().position(|word| {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}
