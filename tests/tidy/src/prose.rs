//! Rule `prose`: phrases that are exact but read as translated, in comments, in string literals and in pages.
//!
//! The list holds only phrases for which there is always a plainer one, so that it gives no false alarms. The literals of
//! tests are not examined, and neither are code blocks of pages.

use crate::Finding;
use crate::rust_text::{before_tests, string_literals};

/// Phrases, in lower case, each with a plain alternative.
pub const PHRASES: &[(&str, &str)] = &[
    ("without a word", "silently"),
    ("told of", "reported, or notified of"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("gone on", "continued, or resumed"),
    ("of so many", "of this many, or name the number"),
    ("in so many", "in this many, or name the number"),
    ("with so many", "with this many, or name the number"),
    ("at most so many", "at most this many, or name the number"),
    ("after so many", "after this many, or name the number"),
    ("as ever", "as usual, or as before"),
    ("is there again", "exists again, or is restored"),
    ("are there again", "exist again, or are restored"),
    ("going on behind", "continuing after"),
    ("anew", "again, or a verb with re-: rebuilt, rewritten, restarted"),
    ("what came of", "the result of"),
    ("what has come of", "the result of"),
    ("after so long", "after this long, or name the time"),
    ("made again", "recomputed, or replayed"),
    ("is no error", "is not an error"),
    ("are not there on", "are not supported on"),
    ("not there before", "must exist before"),
    ("is there also", "exists too"),
    ("is there twice", "occurs twice"),
    ("gives no sense", "makes no sense, or is not valid"),
    ("has come to its end", "has ended"),
];

/// Phrases that stay in a file, because they are stored: names that earlier versions gave, and the page that tells of them.
const KEPT: [(&str, &str); 2] = [
    ("crates/sql/src/translate/adaptive_regions.rs", "anew"),
    ("docs/decisions/0040-operators-that-are-renamed.md", "anew"),
];

/// Verbs after which `no` denies a noun (`it is no number`); English denies the verb (`it is not a number`).
const COPULAS: [&str; 4] = ["is", "are", "was", "were"];

/// Words around `is no` with which it is plain English: `there is no file`, `it is no longer read`.
const BEFORE_COPULA: [&str; 3] = ["there", "here", "where"];
const AFTER_NO: [&str; 11] = [
    "longer",
    "more",
    "less",
    "fewer",
    "larger",
    "smaller",
    "better",
    "worse",
    "matter",
    "different",
    "other",
];

/// The rule, for Rust files and Markdown pages; other files are not examined.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if path == LIST {
        return Vec::new();
    }
    let lines: Vec<(usize, String)> = match path.rsplit('.').next() {
        Some("rs") => comments(text).into_iter().chain(literals(path, text)).collect(),
        Some("md") => paragraphs(text),
        _ => return Vec::new(),
    };
    let mut findings = Vec::new();
    for (line, content) in lines {
        let content = content.to_lowercase();
        let is_kept = |phrase: &str| KEPT.contains(&(path, phrase));
        let listed = PHRASES.iter().filter(|(phrase, _)| has_phrase(&content, phrase) && !is_kept(phrase));
        let listed = listed.map(|(phrase, plain)| ((*phrase).to_owned(), *plain));
        let denied = denied_noun(&content).map(|phrase| (phrase, "is not a, or is not"));
        for (phrase, plain) in listed.chain(denied) {
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

/// The string literals of a Rust file outside of tests, which quote messages and hold data.
fn literals(path: &str, text: &str) -> Vec<(usize, String)> {
    if path.contains("/tests/") || path.ends_with("/tests.rs") {
        return Vec::new();
    }
    string_literals(before_tests(text))
}

/// This file, whose literals are the phrases.
const LIST: &str = "tests/tidy/src/prose.rs";

/// `is no number` and the like, with the words before and after.
fn denied_noun(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let bare = |word: &str| {
        let mut parts = word.rsplit(|c: char| !c.is_alphanumeric());
        parts.find(|part| !part.is_empty()).unwrap_or_default().to_owned()
    };
    let denied = words.windows(4).find(|words| {
        COPULAS.contains(&words[1])
            && words[2] == "no"
            && !BEFORE_COPULA.contains(&bare(words[0]).as_str())
            && !AFTER_NO.contains(&bare(words[3]).as_str())
    });
    denied.map(|words| words.join(" "))
}

/// The lines of a Rust file that are comments.
fn comments(text: &str) -> Vec<(usize, String)> {
    let comments = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("//"));
    comments.map(|(number, line)| (number, line.to_owned())).collect()
}

/// The lines of a page outside its code blocks.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !line.starts_with("    ") {
            lines.push((number, line.to_owned()));
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
    fn comments_and_literals_of_rust_files_are_examined() {
        let phrase = PHRASES[0].0;
        let (first, second) = phrase.split_once(' ').expect("several words");
        let text = format!(
            "/// It stops {phrase}.\nlet {first}_{second} = 1;\n    // {}!\nprint(\"{first} \\\n    {second}\");\n\
             #[cfg(test)]\nmod tests {{\n    print(\"{phrase}\");\n}}\n",
            phrase.to_uppercase()
        );
        assert_eq!(lines("crates/core/src/a.rs", &text), [1, 3, 4]);
        assert_eq!(lines("crates/core/tests/a.rs", &text), [1, 3], "tests quote and hold data");
        assert!(lines("crates/core/src/a.sql", &text).is_empty());
    }

    #[test]
    fn pages_are_examined_outside_their_code() {
        let phrase = PHRASES[0].0;
        let text = format!("It stops {phrase}.\n\n    {phrase}\n\n```\n{phrase}\n```\n| {phrase} |\n");
        assert_eq!(lines("docs/guide/a.md", &text), [1, 8]);
    }

    #[test]
    fn nouns_are_not_denied() {
        assert_eq!(denied_noun("what is no number is skipped"), Some("what is no number".to_owned()));
        assert_eq!(denied_noun("'{text}' is no {}"), Some("'{text}' is no {}".to_owned()));
        for plain in
            ["user(\"there is no file", "it is no longer read", "these are not numbers", "it was no better."]
        {
            assert_eq!(denied_noun(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_phrase_is_whole_words() {
        assert!(has_phrase("it was told of.", "told of"));
        assert!(!has_phrase("it was told off", "told of"));
        assert!(!has_phrase("retold of", "told of"));
    }
}
