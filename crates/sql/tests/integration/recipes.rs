//! Hints that contain a statement: `tests/golden/recipes.txt` shows each behind what it is said about, and runs what
//! it says. Those that nobody has run yet are listed in `recipes_not_run.txt`, which only becomes shorter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Words with which the statements of recipes begin, or which only they have.
const WORDS: [&str; 6] = ["SELECT ", "CREATE ", "OVER (", "JOIN ", "ROW_NUMBER", "GROUP BY "];

fn package() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap())
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The strings of a file in the language of this program, in their order, without its tests and comments.
fn strings(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let (mut strings, mut chars) = (Vec::new(), code.chars().peekable());
    while let Some(char) = chars.next() {
        match char {
            // A character, which may be a quote.
            '\'' if chars.peek() == Some(&'"') => drop(chars.next()),
            '"' => {
                let mut string = String::new();
                while let Some(char) = chars.next().filter(|char| *char != '"') {
                    if char != '\\' {
                        string.push(char);
                        continue;
                    }
                    match chars.next() {
                        Some('\n') => while chars.next_if(|char| char.is_whitespace()).is_some() {},
                        Some(escaped) => string.push(escaped),
                        None => {}
                    }
                }
                strings.push(string);
            }
            _ => {}
        }
    }
    strings
}

/// What begins like a hint, and is none: messages, and sentences of the planner that are recognised.
const NO_HINTS: [&str; 2] = [
    "must appear in the GROUP BY clause",
    "column `{column}` is neither in GROUP BY nor inside an aggregate",
];

/// A hint begins with a small letter, as the end of a message does.
fn is_recipe(string: &str) -> bool {
    string.starts_with(|char: char| char.is_ascii_lowercase())
        && string.len() > 30
        && !NO_HINTS.contains(&string)
        && WORDS.iter().any(|word| string.contains(word))
}

/// Its longest piece between what is filled in.
fn longest_piece(recipe: &str) -> &str {
    let pieces = recipe.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, rest)| rest));
    pieces.max_by_key(|piece| piece.len()).unwrap_or(recipe)
}

#[test]
fn every_statement_of_a_hint_is_run_or_listed() {
    let golden = std::fs::read_to_string(package().join("../../tests/golden/recipes.txt")).unwrap();
    let path = package().join("tests/integration/recipes_not_run.txt");
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    let listed: BTreeSet<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    let mut files = Vec::new();
    sources(&package().join("src"), &mut files);
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let recipes: BTreeSet<String> =
        texts.flat_map(|text| strings(&text)).filter(|text| is_recipe(text)).collect();
    assert!(recipes.len() > 50, "only {} hints with statements were found", recipes.len());
    let not_run = |recipe: &&String| !golden.contains(longest_piece(recipe));
    let not_run: BTreeSet<&str> = recipes.iter().filter(not_run).map(String::as_str).collect();
    if std::env::var_os("TIDEMILL_UPDATE").is_some_and(|value| value == "1") {
        let shorter: Vec<&str> = not_run.intersection(&listed).copied().collect();
        std::fs::write(&path, shorter.join("\n") + "\n").unwrap();
    }
    let new: Vec<&&str> = not_run.difference(&listed).collect();
    assert!(new.is_empty(), "run these in tests/golden/recipes.txt: {new:#?}");
    let gone: Vec<&&str> = listed.difference(&not_run).collect();
    assert!(gone.is_empty(), "these are run, or gone; remove them from the list: {gone:#?}");
}
