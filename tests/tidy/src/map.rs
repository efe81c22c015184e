//! The map of `ARCHITECTURE.md` names what exists, and nothing else.
//!
//! The map is the fenced code block whose opening fence says `map`, or the first one below a heading with that
//! word. A line without indentation that begins with a folder (`crates/`) says where we are; an indented line names
//! one of its folders with its first word. A whole path (`crates/core`) may stand at the beginning of any line.

use crate::Finding;
use crate::tree::MAPPED;

/// The file with the map.
pub const FILE: &str = "ARCHITECTURE.md";

/// A folder that the map names, and the line where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the repository's root, like `crates/core`.
    pub path: String,
    /// From 1.
    pub line: usize,
}

/// The folders of [`MAPPED`] that the map names; `None` if the text has no map.
pub fn entries(text: &str) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut top = String::new();
    for (line, content) in block(text)? {
        let name = content.trim_start_matches([' ', '\t', '├', '└', '│', '─']);
        let indented = name.len() < content.len();
        let Some(word) = name.split_whitespace().next() else { continue };
        let path = word.trim_end_matches(['/', ':', ',']);
        if path.contains('/') {
            entries.push(Entry { path: path.to_owned(), line });
        } else if !indented {
            top = path.to_owned();
        } else if !path.is_empty() && !path.starts_with('(') {
            entries.push(Entry { path: format!("{top}/{path}"), line });
        }
    }
    let mapped = |entry: &Entry| MAPPED.iter().any(|top| entry.path.starts_with(&format!("{top}/")));
    entries.retain(mapped);
    Some(entries)
}

/// The lines of the map's block, with their numbers.
fn block(text: &str) -> Option<Vec<(usize, &str)>> {
    let mut lines = (1..).zip(text.lines());
    let mut below_heading = false;
    loop {
        let (_, line) = lines.next()?;
        let words = line.to_lowercase();
        let says_map = words.split(|c: char| !c.is_alphanumeric()).any(|word| word == "map");
        if line.starts_with("```") {
            let block: Vec<_> = lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).collect();
            if says_map || below_heading {
                return Some(block);
            }
        } else if line.starts_with('#') {
            below_heading = says_map;
        }
    }
}

/// Rule `map`: `exists` says whether a path of the map is there.
pub fn check(text: &str, folders: &[String], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let Some(entries) = entries(text) else {
        let found = "there is no map".to_owned();
        return vec![finding(0, found, "add a fenced code block that opens with ```map")];
    };
    let unnamed = folders.iter().filter(|folder| !entries.iter().any(|entry| entry.path == **folder));
    let mut findings: Vec<Finding> = unnamed
        .map(|folder| {
            finding(0, format!("the map does not name `{folder}`"), "add a line that says what it is for")
        })
        .collect();
    let stale = entries.iter().filter(|entry| !exists(&entry.path));
    findings.extend(stale.map(|entry| {
        finding(
            entry.line,
            format!("the map names `{}`, which is not there", entry.path),
            "remove or mend the line",
        )
    }));
    findings
}

fn finding(line: usize, found: String, remedy: &str) -> Finding {
    Finding { file: FILE.to_owned(), line, rule: "map", found, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Architecture\n```sh\nls\n```\n## The map\n```\ncrates/\n  core    ids\n  split   routing\n\
                        \napps/linear-road   the benchmark\ndocs/\n  guide  for users\n  (later: more)\n```\n";

    #[test]
    fn entries_are_the_first_words_of_the_block() {
        let found: Vec<(String, usize)> =
            entries(TEXT).unwrap().into_iter().map(|entry| (entry.path, entry.line)).collect();
        let expected = [("crates/core", 8), ("crates/split", 9), ("apps/linear-road", 11)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn the_fence_may_say_map() {
        let text = "# Any\n```map\ntests/\n├── tidy   the rules\n```\n";
        assert_eq!(entries(text), Some(vec![Entry { path: "tests/tidy".to_owned(), line: 4 }]));
        assert_eq!(entries("# Any\n```sh\ntests/\n```\n"), None);
    }

    #[test]
    fn what_is_not_named_and_what_is_not_there_are_found() {
        let folders = ["apps/linear-road", "crates/core", "crates/flow"].map(str::to_owned);
        let found: Vec<String> = check(TEXT, &folders, |path| path != "crates/split")
            .iter()
            .map(|finding| finding.to_string())
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("does not name `crates/flow`"), "{found:?}");
        assert!(found[1].starts_with("ARCHITECTURE.md:9: [map]"), "{found:?}");
    }
}
