//! The blocks of a page, with what the markers before them say.

/// Something of a page that has a meaning here.
#[derive(Debug, PartialEq)]
pub enum Item {
    Block(Block),
    /// A comment of several lines: what it is, and its text.
    Hidden {
        line: usize,
        what: String,
        text: String,
    },
    /// A marker before something that is not a block.
    Idle {
        line: usize,
    },
}

/// A block of code.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// The number of its first line in the page, from 1.
    pub line: usize,
    /// What stands behind the fence; `None`: it is indented.
    pub language: Option<String>,
    pub text: String,
    /// What the markers say, one each.
    pub markers: Vec<String>,
}

const MARKER: &str = "<!-- example:";
const RUN_BY_CI: &str = "<!-- ci:";

/// Reads a page.
pub fn items(page: &str) -> Vec<Item> {
    let lines: Vec<&str> = page.lines().collect();
    let mut items = Vec::new();
    let mut markers: Vec<String> = Vec::new();
    let mut marked_at = 0;
    let mut after_blank = true;
    let mut at = 0;
    while at < lines.len() {
        let (line, first) = (lines[at], at);
        at += 1;
        if let Some(rest) = line.strip_prefix(MARKER) {
            match rest.trim_end().strip_suffix("-->") {
                Some(said) => {
                    markers.extend(divided(said));
                    marked_at = at;
                }
                None => {
                    let end = until(&lines, at, |line| line.trim_end() == "-->");
                    let text = joined(&lines[at..end], 0);
                    items.push(Item::Hidden { line: at, what: rest.trim().to_owned(), text });
                    at = end + 1;
                }
            }
        } else if line.starts_with(RUN_BY_CI) {
            markers.push("ci".to_owned());
            marked_at = at;
        } else if let Some(language) = line.strip_prefix("```") {
            let end = until(&lines, at, |line| line.trim_end() == "```");
            let (language, text) = (Some(language.trim().to_owned()), joined(&lines[at..end], 0));
            let markers = std::mem::take(&mut markers);
            items.push(Item::Block(Block { line: first + 1, language, text, markers }));
            at = end + 1;
        } else if is_indented(line) && after_blank {
            let mut end = until(&lines, at, |line| !is_indented(line) && !line.trim().is_empty());
            while lines[end - 1].trim().is_empty() {
                end -= 1;
            }
            let markers = std::mem::take(&mut markers);
            let text = joined(&lines[first..end], 4);
            items.push(Item::Block(Block { line: first + 1, language: None, text, markers }));
            at = end;
        } else if !line.trim().is_empty() && !markers.is_empty() {
            items.push(Item::Idle { line: marked_at });
            markers.clear();
        }
        let last = lines[at.min(lines.len()) - 1];
        after_blank = last.trim().is_empty() || last.trim_end().ends_with("-->");
    }
    if !markers.is_empty() {
        items.push(Item::Idle { line: marked_at });
    }
    items
}

/// The markers of a comment; a reason continues to its end.
fn divided(said: &str) -> Vec<String> {
    let mut markers = Vec::new();
    let mut rest = said.trim();
    while let Some((marker, others)) = rest.split_once(';').filter(|(marker, _)| !marker.contains(':')) {
        markers.push(marker.trim().to_owned());
        rest = others.trim();
    }
    markers.push(rest.to_owned());
    markers
}

fn is_indented(line: &str) -> bool {
    line.starts_with("    ") && !line.trim().is_empty()
}

fn until(lines: &[&str], from: usize, is_end: impl Fn(&str) -> bool) -> usize {
    lines[from..].iter().position(|line| is_end(line)).map_or(lines.len(), |found| from + found)
}

fn joined(lines: &[&str], indent: usize) -> String {
    lines.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect()
}

#[test]
fn blocks_are_found_with_their_markers() {
    let page = "words\n    go on\n\n    a\n\n      b\n\nwords\n<!-- example: file x; not run: a; b -->\n\n\
                ```sql\nc\n```\n<!-- example: given\nd\n-->\n    e\n";
    let block = |line, language: Option<&str>, text: &str, markers: &[&str]| {
        let markers = markers.iter().map(ToString::to_string).collect();
        Item::Block(Block { line, language: language.map(str::to_owned), text: text.to_owned(), markers })
    };
    let expected = [
        block(4, None, "a\n\n  b\n", &[]),
        block(11, Some("sql"), "c\n", &["file x", "not run: a; b"]),
        Item::Hidden { line: 14, what: "given".into(), text: "d\n".into() },
        block(17, None, "e\n", &[]),
    ];
    assert_eq!(items(page), expected);
}
