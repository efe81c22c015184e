//! Rule `prose`: phrases that are exact but read as translated, in comments and in pages.
//!
//! The list holds only phrases for which there is always a plainer one, so that it gives no false alarms. Messages and
//! other code are not examined, and neither are code blocks of pages.

use crate::Finding;

/// Phrases, in lower case, each with a plain alternative.
pub const PHRASES: &[(&str, &str)] = &[
    ("without a word", "silently"),
    ("told of", "reported, or notified of"),
    ("gone on with", "resumed, or continued"),
    ("goes on behind", "continues after"),
    ("going on behind", "continuing after"),
    ("anew", "again, or a verb with re-: rebuilt, rewritten, restarted"),
    ("what came of", "the result of"),
    ("what has come of", "the result of"),
    ("of so many", "of this many, or name the number"),
    ("at most so many", "at most this many, or name the number"),
    ("after so many", "after this many, or name the number"),
    ("after so long", "after this long, or name the time"),
    ("made again", "recomputed, or replayed"),
    ("is no error", "is not an error"),
    ("are not there on", "are not supported on"),
];

/// The rule, for Rust files and Markdown pages; other files are not examined.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<(usize, &str)> = match path.rsplit('.').next() {
        Some("rs") => comments(text),
        Some("md") => paragraphs(text),
        _ => return Vec::new(),
    };
    let mut findings = Vec::new();
    for (line, content) in lines {
        let content = content.to_lowercase();
        for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| has_phrase(&content, phrase)) {
            findings.push(Finding {
                file: path.to_owned(),
                line,
                rule: "prose",
                found: format!("`{phrase}` reads as translated"),
                remedy: format!("write: {plain}"),
            });
        }
    }
    findings
}

/// The lines of a Rust file that are comments.
fn comments(text: &str) -> Vec<(usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("//")).collect()
}

/// The lines of a page outside its code blocks.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !line.starts_with("    ") {
            lines.push((number, line));
        }
    }
    lines
}

/// Whether the phrase is in the line and not part of longer words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + phrase.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn comments_of_rust_files_are_examined() {
        let phrase = PHRASES[0].0;
        let text =
            format!("/// It stops {phrase}.\nlet text = \"{phrase}\";\n    // {}!\n", phrase.to_uppercase());
        assert_eq!(lines("crates/core/src/a.rs", &text), [1, 3]);
        assert!(lines("crates/core/src/a.sql", &text).is_empty());
    }

    #[test]
    fn pages_are_examined_outside_their_code() {
        let phrase = PHRASES[0].0;
        let text = format!("It stops {phrase}.\n\n    {phrase}\n\n```\n{phrase}\n```\n| {phrase} |\n");
        assert_eq!(lines("docs/guide/a.md", &text), [1, 8]);
    }

    #[test]
    fn a_phrase_is_whole_words() {
        assert!(has_phrase("it was told of.", "told of"));
        assert!(!has_phrase("it was told off", "told of"));
        assert!(!has_phrase("retold of", "told of"));
    }
}
