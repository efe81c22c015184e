//! Parts of a database that are missing: files that read well elsewhere name them.

use std::path::Path;

use tidemill_engine::inspect::{self, Finding, FindingKind, Listing};
use tidemill_engine::{Epoch, database};

use super::database::{Part, parts, sources};

/// That a file or folder is missing.
pub(super) fn missing_part(path: &Path, reason: String) -> Finding {
    Finding { path: path.to_owned(), offset: 0, reason, kind: FindingKind::Damage }
}

/// Finds files that a database and its queries lack; none if the journal is not that of a database.
pub(super) fn missing(journal: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut found = Vec::new();
    if sources(journal)?.is_none() {
        return Ok(found);
    }
    let listing = inspect::list(journal)?;
    let opened = listing.epochs.iter().rev().find_map(|epoch| match epoch {
        Epoch::Opened { next_cycle } => Some(*next_cycle),
        Epoch::Lost(_) => None,
    });
    match opened {
        None => found.push(missing_part(&journal.join("epochs"), "the file is missing".to_owned())),
        Some(next) if next > listing.cuts.end => {
            let reason = format!("cycles {} to {next} are missing", listing.cuts.end);
            found.push(missing_part(&journal.join("cuts"), reason));
        }
        Some(_) => {}
    }
    for part in parts(journal)? {
        if let Part::Query(folder) = part {
            // What cannot be read is found elsewhere.
            found.extend(of_query(&folder, &listing).unwrap_or_default());
        }
    }
    Ok(found)
}

/// Finds files that a query of a database lacks.
fn of_query(folder: &Path, database: &Listing) -> anyhow::Result<Vec<Finding>> {
    let Some(description) = inspect::query(folder)? else { return Ok(Vec::new()) };
    let names: Vec<&str> = database::sources_of_query(&description).collect();
    let mut found = Vec::new();
    let mut lacks = |path: &Path, reason: String| found.push(missing_part(path, reason));
    let is_missing = |name: &str| !folder.join(name).exists();
    for file in ["identity", "epoch"].into_iter().filter(|file| !names.is_empty() && is_missing(file)) {
        lacks(&folder.join(file), "the file is missing".to_owned());
    }
    let snapshots = inspect::list(folder)?.snapshots;
    let views = folder.join("views");
    let rows = views.read_dir().into_iter().flatten().filter_map(Result::ok);
    let has_rows = rows.into_iter().any(|entry| entry.path().extension().is_some_and(|kind| kind == "rows"));
    if has_rows && snapshots.is_empty() {
        lacks(
            &folder.join("snapshots"),
            "the state that belongs to the rows of the view is missing".to_owned(),
        );
    }
    if views.is_dir() && !has_rows && !snapshots.is_empty() {
        lacks(&views, "the rows that belong to the state of the query are missing".to_owned());
    }
    if let Some(cycle) = snapshots.last().filter(|cycle| **cycle >= database.cuts.end && !names.is_empty()) {
        let end = database.cuts.end;
        lacks(folder, format!("it has the state after cycle {cycle}, but cycles from {end} on are missing"));
    }
    let newest = snapshots.last().map(|cycle| inspect::snapshot(folder, *cycle)).transpose()?;
    for (index, name) in names.iter().enumerate() {
        let stream =
            database.streams.iter().find(|stream| stream.name == *name && !stream.segments.is_empty());
        let end = stream.map_or(0, |stream| stream.end);
        let position = newest.as_ref().and_then(|newest| newest.cut.positions.get(index)).copied();
        if stream.is_none() {
            lacks(folder, format!("the journal of its source '{name}' is missing"));
        } else if let Some(position) = position.filter(|position| *position > end) {
            lacks(
                folder,
                format!("it has rows of '{name}' up to {position}, but the journal only up to {end}"),
            );
        }
    }
    Ok(found)
}
