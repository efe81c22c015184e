//! The rows that a query may have stopped at, in its error message.

use std::path::Path;

use tidemill_engine::{Positions, Skips};

/// More ranges of positions than this are not spelled out.
const RANGES_MAX: usize = 8;

/// Which rows a query may have failed over, and how they are left out; `None` if it is not known.
pub(crate) fn suspects(rows: &Skips, journal: &Path) -> Option<String> {
    let (stream, positions) = rows.iter().next()?;
    let told = rows.iter().map(|(stream, positions)| format!("{} of '{stream}'", spelled_out(positions)));
    let told: Vec<String> = told.collect();
    let first: Positions = positions.ranges().iter().take(1).cloned().collect();
    Some(format!(
        "The rows being processed were at position {}. If one of them is the cause, and you cannot fix it \
         otherwise, `tidemill journal skip {} SCRIPT --stream {stream} --positions {first}` skips it",
        told.join(" and "),
        journal.display()
    ))
}

fn spelled_out(positions: &Positions) -> String {
    let ranges = positions.ranges();
    let told: Positions = ranges.iter().take(RANGES_MAX).cloned().collect();
    if ranges.len() > RANGES_MAX {
        format!("{told}, ... up to {}", ranges[ranges.len() - 1].end - 1)
    } else {
        told.to_string()
    }
}
