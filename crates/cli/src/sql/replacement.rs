//! What `tidemill run --replace` says: beforehand what it keeps and what it fills, and at the end how far it is.

use tidemill_engine::Replacement;

use crate::{quantity, terminal};

/// Once the new query has taken over.
pub(crate) const DONE: &str =
    "the new query has caught up and taken over; the state of the old query is removed";

/// Before anything is done: the outputs are those of the new query.
pub(crate) fn announce(found: Option<&Replacement>, outputs: &str) {
    match found {
        None => {
            terminal::tell("--replace: the journal belongs to this query or to none, so nothing is replaced")
        }
        Some(found) => lines(found, outputs).iter().for_each(|line| terminal::tell(line)),
    }
}

fn lines(found: &Replacement, outputs: &str) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(if found.is_continued {
        format!("continuing to replace the query of the journal: {outputs} continue where they are, from")
    } else {
        format!("replacing the query of the journal: {outputs} must be empty, and get every row again from")
    });
    for (name, first, end) in &found.streams {
        let rows = quantity::counted(end - first, "row");
        lines.push(format!(
            "  {name}: {rows} in the journal, from position {}, and what comes",
            quantity::count(*first)
        ));
    }
    for name in &found.new {
        lines.push(format!("  {name}: the journal has none of its rows, so only what comes"));
    }
    for name in &found.unread {
        lines.push(format!("  {name} is not read by the new query; its rows stay in the journal"));
    }
    lines.push(
        "until the new query has caught up, the old one's state stays, nothing that its sinks have is touched, and its \
         script can be run as before, which gives up this replacement"
            .to_owned(),
    );
    lines
}

/// At the end of a run.
pub(crate) const NOT_DONE: &str = "the new query has not caught up, so it has not taken over: run the \
    same command again to continue, or the old script to give it up";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_says_what_is_filled_from_it() {
        let found = Replacement {
            streams: vec![("a".to_owned(), 1200, 1500)],
            new: vec!["b".to_owned()],
            unread: vec!["c".to_owned()],
            is_continued: false,
        };
        let text = lines(&found, "x, y").join("\n");
        for words in [
            "x, y must be empty",
            "a: 300 rows in the journal, from position 1,200",
            "  b: ",
            "  c is not read",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(
            lines(&Replacement { is_continued: true, ..found }, "x")[0].contains("continue where they are")
        );
    }
}
