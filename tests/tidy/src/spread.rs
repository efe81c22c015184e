//! Rules `folder-files` and `type-files`: what belongs together can be seen together.
//!
//! A folder below `src` has few files, so that its list can be read. The methods of a type are in few files, so that a type can be read;
//! whoever needs more of them has a type with more than one duty. What exceeded the bounds when they were set is listed with its number,
//! which only shrinks.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::rust_text::{before_tests, code_only};

/// The most Rust files of a folder.
pub const FOLDER_FILES_MAX: usize = 25;
/// The most files with inherent methods of one type.
pub const TYPE_FILES_MAX: usize = 3;

/// Folders with more files, and how many these have.
pub const LARGE_FOLDERS: &[(&str, usize)] = &[
    ("crates/cli/src/sql", 37),
    ("crates/connect/src/formats", 26),
    ("crates/core/src", 34),
    ("crates/journal/src", 35),
    ("crates/operators/src", 34),
    ("crates/sql/src/query", 35),
    ("crates/sql/src/translate", 39),
    ("crates/store/src", 37),
    ("crates/tidemill/src", 26),
];

/// Types whose methods are in more files, each with the file that defines it and their number.
pub const SPREAD_TYPES: &[(&str, &str, usize)] = &[
    ("crates/engine/src/engine.rs", "Engine", 5),
    ("crates/realtime/src/pool/mod.rs", "PoolState", 4),
    ("crates/server/src/postgres/conversation/mod.rs", "Conversation", 12),
    ("crates/service/src/runtime/mod.rs", "Runtime", 14),
    ("crates/sql/src/catalog/mod.rs", "Catalog", 5),
    ("crates/sql/src/planner/mod.rs", "Planner", 19),
    ("crates/sql/src/query/pipeline.rs", "Pipeline", 6),
    ("crates/sql/src/statement/clauses/mod.rs", "Clauses", 8),
    ("crates/sql/src/statement/mod.rs", "Statement", 6),
    ("crates/sql/src/translate/mod.rs", "Translator", 29),
    ("crates/store/src/fragment_version.rs", "FragmentVersion", 5),
    ("crates/store/src/version.rs", "Version", 5),
    ("crates/store/src/writer.rs", "StoreWriter", 4),
    ("crates/tidemill/src/keyed.rs", "KeyedStream", 6),
    ("crates/tidemill/src/stream.rs", "Stream", 5),
];

/// Checks the folders of these files against a list of exceptions.
pub fn folder_files(paths: &[String], exceptions: &[(&str, usize)]) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths.iter().filter(|path| path.ends_with(".rs") && is_source(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    let listed = |folder: &str| exceptions.iter().find(|(listed, _)| *listed == folder).map(|(_, max)| *max);
    let mut findings: Vec<Finding> = counts
        .iter()
        .filter_map(|(folder, count)| {
            let remedy = "give files with one concern a folder of their own";
            exceeded("folder-files", folder, "files", *count, FOLDER_FILES_MAX, listed(folder), remedy)
        })
        .collect();
    let gone = exceptions.iter().filter(|(folder, _)| !counts.contains_key(folder));
    findings.extend(gone.map(|(folder, _)| is_gone("folder-files", folder)));
    findings
}

/// Checks the types of these files (path and text) against a list of exceptions.
pub fn type_files(files: &[(String, String)], exceptions: &[(&str, &str, usize)]) -> Vec<Finding> {
    let code: Vec<(&str, String)> = files
        .iter()
        .filter(|(path, _)| is_source(path))
        .map(|(path, text)| (path.as_str(), before_tests(&code_only(text)).to_owned()))
        .collect();
    let mut definitions: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (path, code) in &code {
        for name in code.lines().filter_map(defined_type) {
            definitions.entry((package(path), name)).or_default().push(path);
        }
    }
    let mut spread: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (path, code) in &code {
        for name in inherent_impls(code) {
            let known = definitions.get(&(package(path), name)).into_iter().flatten();
            // Of several types of a name, a file extends the one that is nearest.
            if let Some(definition) = known.max_by_key(|definition| shared_folders(path, definition)) {
                spread.entry((definition, name)).or_default().insert(path);
            }
        }
    }
    let listed = |file: &str, name: &str| {
        exceptions.iter().find(|(path, listed, _)| *path == file && *listed == name).map(|(.., max)| *max)
    };
    let mut findings: Vec<Finding> = spread
        .iter()
        .filter_map(|((file, name), files)| {
            let found = format!("files with methods of `{name}`");
            let remedy = "give each duty a type of its own";
            exceeded("type-files", file, &found, files.len(), TYPE_FILES_MAX, listed(file, name), remedy)
        })
        .collect();
    let gone = exceptions.iter().filter(|(file, name, _)| !spread.contains_key(&(*file, *name)));
    findings.extend(gone.map(|(file, ..)| is_gone("type-files", file)));
    findings
}

/// Compares a number with its bound: that of all, or that of an exception, which must not be larger than it need be.
fn exceeded(
    rule: &'static str,
    file: &str,
    what: &str,
    count: usize,
    bound: usize,
    listed: Option<usize>,
    remedy: &str,
) -> Option<Finding> {
    let max = listed.unwrap_or(bound);
    let (found, remedy) = if count > max {
        (format!("{count} {what}, more than {max}"), remedy.to_owned())
    } else if listed.is_some_and(|listed| count < listed) {
        (
            format!("{count} {what} only"),
            "lower its number in `tests/tidy/src/spread.rs`, or remove it".to_owned(),
        )
    } else {
        return None;
    };
    Some(Finding { file: file.to_owned(), line: 0, rule, found, remedy })
}

fn is_gone(rule: &'static str, file: &str) -> Finding {
    Finding {
        file: file.to_owned(),
        line: 0,
        rule,
        found: "is an exception, and is not there".to_owned(),
        remedy: "remove it from `tests/tidy/src/spread.rs`".to_owned(),
    }
}

/// Returns whether a file belongs to the source of a package.
fn is_source(path: &str) -> bool {
    path.contains("/src/")
}

fn package(path: &str) -> &str {
    path.split_once("/src/").map_or("", |(package, _)| package)
}

/// Returns how many folders two paths begin with; the same file has all.
fn shared_folders(path: &str, other: &str) -> usize {
    path.split('/').zip(other.split('/')).take_while(|(one, other)| one == other).count()
}

/// Returns the name of the type that a line defines at the top of a file.
fn defined_type(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or("", |(_, rest)| rest))
        }
        None => line,
    };
    let (kind, rest) = item.trim_start().split_once(' ')?;
    let is_type = matches!(kind, "struct" | "enum" | "union") && !line.starts_with(' ');
    is_type.then(|| word(rest))
}

/// Returns the names of the types to which a file's code adds methods.
fn inherent_impls(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let begins_line = at == 0 || code[..at].ends_with('\n');
        let header = code[at + "impl".len()..].split('{').next().unwrap_or_default();
        if !begins_line || !header.starts_with([' ', '<']) {
            continue;
        }
        let header = without_generics(header.trim_start());
        let is_trait = without_nested(header).split_whitespace().any(|word| word == "for");
        if !is_trait {
            let path = header.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next();
            names.extend(path.and_then(|path| path.rsplit(':').next()).filter(|name| !name.is_empty()));
        }
    }
    names
}

/// Returns the header of an `impl` behind its parameters.
fn without_generics(header: &str) -> &str {
    if !header.starts_with('<') {
        return header;
    }
    let mut depth = 0;
    for (at, c) in header.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !header[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return header[at + 1..].trim_start();
        }
    }
    header
}

/// Returns a header without what is between angle brackets, and without its bounds.
fn without_nested(header: &str) -> String {
    let mut depth = 0;
    let mut outside = String::new();
    let mut before = ' ';
    for c in header.split("where").next().unwrap_or_default().chars() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ if depth == 0 => outside.push(c),
            _ => {}
        }
        before = c;
    }
    outside
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned())).collect()
    }

    fn found(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| format!("{}: {}", finding.file, finding.found)).collect()
    }

    #[test]
    fn a_folder_has_few_files() {
        let file = |at: usize| format!("crates/x/src/a/f{at}.rs");
        let mut paths: Vec<String> = (0..FOLDER_FILES_MAX).map(file).collect();
        paths.push("crates/x/tests/f.rs".to_owned());
        assert_eq!(found(folder_files(&paths, &[])), [""; 0]);
        paths.push(file(FOLDER_FILES_MAX));
        assert_eq!(found(folder_files(&paths, &[])), ["crates/x/src/a: 26 files, more than 25"]);
        assert_eq!(found(folder_files(&paths, &[("crates/x/src/a", 26)])), [""; 0]);
        let listed = [("crates/x/src/a", 27), ("crates/x/src/b", 30)];
        let expected = ["crates/x/src/a: 26 files only", "crates/x/src/b: is an exception, and is not there"];
        assert_eq!(found(folder_files(&paths, &listed)), expected);
    }

    #[test]
    fn a_type_has_its_methods_in_few_files() {
        let mut texts = vec![
            ("a.rs", "pub(crate) struct A<'a>(&'a u8);\nimpl A<'_> {\n    fn a(&self) {}\n}\n"),
            ("b.rs", "use crate::a::A;\nimpl<'a> A<'a> {}"),
            (
                "c.rs",
                "impl A<'_> {}\nimpl Default for A<'_> {}\nimpl<T: for<'x> Fn(&'x u8)> From<T> for A<'_> {}",
            ),
            ("d.rs", "impl Drop for A<'_> {}\n#[cfg(test)]\nmod tests {\nimpl A<'_> {}\n}"),
        ];
        assert_eq!(found(type_files(&files(&texts), &[])), [""; 0]);
        texts.push(("e.rs", "impl crate::a::A<'_> {}"));
        let expected = ["crates/x/src/a.rs: 4 files with methods of `A`, more than 3"];
        assert_eq!(found(type_files(&files(&texts), &[])), expected);
        assert_eq!(found(type_files(&files(&texts), &[("crates/x/src/a.rs", "A", 4)])), [""; 0]);
        assert_eq!(found(type_files(&files(&texts), &[("crates/x/src/a.rs", "B", 4)])).len(), 2);
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let texts = [
            ("a/mod.rs", "struct State;\nimpl State {}"),
            ("a/b.rs", "use super::State;\nimpl State {}"),
            ("c/mod.rs", "struct State;\nimpl State {}"),
            ("c/d.rs", "use super::State;\nimpl State {}"),
        ];
        assert_eq!(found(type_files(&files(&texts), &[])), [""; 0]);
    }
}
