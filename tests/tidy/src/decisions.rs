//! Decisions have a status, and an index that lists each of them.

use crate::Finding;

/// The folder of the decisions.
pub const FOLDER: &str = "docs/decisions";
/// The index.
pub const INDEX: &str = "docs/decisions/README.md";

/// Returns what is wrong with the pages (file name and text), and with the index of them.
pub fn check(index: &str, pages: &[(String, String)]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = pages.iter().flat_map(|(name, text)| page(index, name, text)).collect();
    for (line, text) in (1..).zip(index.lines()) {
        let Some(name) = text.strip_prefix("- [").and_then(|rest| link(rest)) else { continue };
        if !pages.iter().any(|(page, _)| page == name) {
            findings.push(finding(
                INDEX.to_owned(),
                line,
                format!("there is no page {name}"),
                "remove the line",
            ));
        }
    }
    findings
}

fn page(index: &str, name: &str, text: &str) -> Vec<Finding> {
    let file = format!("{FOLDER}/{name}");
    let mut lines = text.lines();
    let number = name.get(..4).unwrap_or_default();
    let Some(title) = lines.next().and_then(|line| line.strip_prefix(&format!("# {number} "))) else {
        let found = format!("the first line is not '# {number} Title'");
        return vec![finding(file, 1, found, "begin with the number and the topic, in the field's words")];
    };
    let mut findings = Vec::new();
    if !lines.nth(1).is_some_and(is_status) {
        findings.push(finding(
            file.clone(),
            3,
            "the third line is not the status".to_owned(),
            "write 'Status: accepted. YYYY-MM-DD.', or what superseded the decision, as docs/decisions/README.md says",
        ));
    }
    let entry = format!("- [{number}]({name}) {title}");
    if !index.lines().any(|line| line == entry || line.starts_with(&format!("{entry} (superseded "))) {
        findings.push(finding(
            file,
            1,
            "the index does not list it".to_owned(),
            &format!("add '{entry}' to {INDEX}"),
        ));
    }
    findings
}

/// Returns whether a line says a status and a date.
fn is_status(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("Status: ").and_then(|rest| rest.strip_suffix('.')) else {
        return false;
    };
    let Some((status, date)) = rest.rsplit_once(". ") else { return false };
    let is_date = date.len() == 10
        && date
            .char_indices()
            .all(|(at, letter)| if at == 4 || at == 7 { letter == '-' } else { letter.is_ascii_digit() });
    let is_known = status == "accepted"
        || ["superseded by [", "accepted; superseded in part by ["]
            .iter()
            .any(|known| status.starts_with(known));
    is_date && is_known
}

/// Returns where a link leads whose text is not over yet.
fn link(text: &str) -> Option<&str> {
    text.split_once("](")?.1.split_once(')').map(|(name, _)| name)
}

fn finding(file: String, line: usize, found: String, remedy: &str) -> Finding {
    Finding { file, line, rule: "decisions", found, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &str, name: &str, text: &str) -> Vec<String> {
        check(index, &[(name.to_owned(), text.to_owned())]).into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_page_needs_a_title_a_status_and_its_line_in_the_index() {
        let index = "# Decisions\n\n- [0001](0001-a.md) Total order\n";
        assert!(
            found(index, "0001-a.md", "# 0001 Total order\n\nStatus: accepted. 2026-11-20.\n").is_empty()
        );
        assert_eq!(
            found(index, "0001-a.md", "# 0001 Total order\n\n2026-11-20\n"),
            ["the third line is not the status"]
        );
        assert_eq!(
            found(index, "0001-a.md", "# 0001 Order\n\nStatus: accepted. 2026-11-20.\n"),
            ["the index does not list it"]
        );
        assert_eq!(found(index, "0001-a.md", "# Total order\n"), ["the first line is not '# 0001 Title'"]);
        assert_eq!(
            found(index, "0002-b.md", "# 0002 B\n\nStatus: accepted. 2026-11-20.\n"),
            ["the index does not list it", "there is no page 0001-a.md"]
        );
    }

    #[test]
    fn a_status_says_what_took_its_place() {
        assert!(is_status("Status: superseded by [0002](0002-b.md). 2026-11-20."));
        assert!(is_status(
            "Status: accepted; superseded in part by [0002](0002-b.md) (threads). 2026-11-20."
        ));
        assert!(!is_status("Status: accepted. yesterday."));
        assert!(!is_status("Status: rejected. 2026-11-20."));
        assert!(!is_status("2026-11-20"));
    }
}
