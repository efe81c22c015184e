//! Rule `glossary`: what the glossary names exists, and the names that it retires do not.

use crate::Finding;
use crate::rust_text::code_only;

/// The file with the glossary.
pub const FILE: &str = "docs/glossary.md";

/// The heading above the retired names.
const RETIRED: &str = "## Retired names";

/// Words before the name of an item.
const ITEMS: [&str; 7] = ["struct", "enum", "trait", "type", "union", "fn", "const"];

/// A row of a table.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// Checks the glossary against the Rust files (path and text); `exists` says whether a path is there.
pub fn check(glossary: &str, files: &[(String, String)], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let code: Vec<(&str, String)> =
        files.iter().map(|(path, text)| (path.as_str(), code_only(text))).collect();
    let (terms, retired) = glossary.split_once(RETIRED).unwrap_or((glossary, ""));
    let terms_lines = terms.lines().count();
    let mut findings = terms_in_order(&rows(terms, 0));
    for row in rows(terms, 0) {
        for place in row.cells.last().into_iter().flat_map(|cell| quoted(cell)) {
            if !is_there(place, &code, &exists) {
                let found = format!("`{place}` is neither a public item nor a path");
                findings.push(finding(row.line, found, "name what is there, or remove the term"));
            }
        }
    }
    for row in rows(retired, terms_lines) {
        let [names, .., folder] = &row.cells[..] else { continue };
        let folder = quoted(folder).next().unwrap_or_default();
        for name in quoted(names) {
            // A crate's folder has tests, too, whose names are their own.
            let source =
                if folder.contains("/src") { format!("{folder}/") } else { format!("{folder}/src/") };
            let defined = code.iter().filter(|(path, _)| path.starts_with(&source));
            for (path, _) in defined.filter(|(_, code)| defines(code, name, &ITEMS[..5], false)) {
                let found = format!("`{name}` is retired, and {path} defines it");
                findings.push(finding(row.line, found, "use the term beside it, or find a better one"));
            }
        }
    }
    findings
}

/// The rows of all tables but their heads.
fn rows(text: &str, lines_before: usize) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut is_body = false;
    for (line, content) in (lines_before + 1..).zip(text.lines()) {
        let Some(inner) = content.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|')) else {
            is_body = false;
            continue;
        };
        let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
        if is_body {
            rows.push(Row { line, cells });
        } else {
            is_body = cells.iter().all(|cell| cell.starts_with("---"));
        }
    }
    rows
}

/// The words between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn terms_in_order(rows: &[Row<'_>]) -> Vec<Finding> {
    let wrong = rows.windows(2).filter(|pair| pair[0].cells.first() >= pair[1].cells.first());
    wrong
        .map(|pair| {
            let found = format!("`{}` is not behind `{}`", pair[1].cells[0], pair[0].cells[0]);
            finding(pair[1].line, found, "keep the terms in alphabetical order, each once")
        })
        .collect()
}

/// A path of the repository, or a public item as `package::Name`.
fn is_there(place: &str, code: &[(&str, String)], exists: &impl Fn(&str) -> bool) -> bool {
    match place.split_once("::") {
        None => exists(place),
        Some((package, name)) => {
            let folder = format!("crates/{}/src/", package.trim_start_matches("tidemill_").replace('_', "-"));
            code.iter().any(|(path, code)| path.starts_with(&folder) && defines(code, name, &ITEMS, true))
        }
    }
}

/// Whether an item of this name is defined; if so wanted, with `pub` before it.
fn defines(code: &str, name: &str, items: &[&str], is_public: bool) -> bool {
    code.lines().any(|line| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let at = words.windows(2).position(|pair| items.contains(&pair[0]) && pair[1] == name);
        at.is_some() && (!is_public || line.trim_start().starts_with("pub "))
    })
}

fn finding(line: usize, found: String, remedy: &str) -> Finding {
    Finding { file: FILE.to_owned(), line, rule: "glossary", found, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(glossary: &str) -> Vec<(usize, String)> {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file(
                "crates/flow/src/a.rs",
                "pub struct Gateway;\npub(crate) struct Hidden<T>(T);\n// struct Badge\n",
            ),
            file("crates/sql/src/a.rs", "struct Badge;"),
        ];
        let findings = check(glossary, &files, |path| path == "crates/flow/src/a.rs");
        findings.into_iter().map(|finding| (finding.line, finding.found)).collect()
    }

    #[test]
    fn what_is_named_is_there_and_public() {
        let rows = "# G\n\n| term | meaning | where |\n|---|---|---|\n| a | b | `tidemill_flow::Gateway` |\n| c | d \
                    `x` | `crates/flow/src/a.rs` |\n";
        assert_eq!(found(rows), []);
        let wrong = "| t | m | w |\n|---|---|---|\n| a | b | `tidemill_flow::Hidden` |\n| b | | \
                     `tidemill_sql::Gateway` |\n| c | d | `crates/no.rs` |\n";
        assert_eq!(found(wrong).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn terms_are_in_order_and_single() {
        let rows = "| t | m | w |\n|---|---|---|\n| b | | |\n| a | | |\n| a | | |\n";
        assert_eq!(
            found(rows),
            [(4, "`a` is not behind `b`".to_owned()), (5, "`a` is not behind `a`".to_owned())]
        );
    }

    #[test]
    fn retired_names_do_not_come_back() {
        let table = |folder: &str| {
            format!(
                "# G\n{RETIRED}\n\n| name | now | in |\n|---|---|---|\n| `Gone`, `Badge` | `B` | `{folder}` |\n"
            )
        };
        assert_eq!(found(&table("crates/flow")), []);
        assert_eq!(
            found(&table("crates/sql")),
            [(6, "`Badge` is retired, and crates/sql/src/a.rs defines it".to_owned())]
        );
        assert_eq!(found(&table("crates/flow").replace("Badge", "Hidden")).len(), 1, "private ones neither");
    }
}
