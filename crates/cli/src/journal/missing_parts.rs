//! Parts of a database that are missing: files that read well elsewhere name them.

use std::path::{Path, PathBuf};

use tidemill_engine::inspect::{self, Finding, FindingKind, Listing};
use tidemill_engine::{Epoch, database};
use tidemill_sql::Planner;

use super::database::{Part, parts, sources};
use crate::sql::CATALOGUE;

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
    found.extend(without_state(journal).unwrap_or_default());
    Ok(found)
}

/// Finds queries that have begun according to the catalogue, but have no state.
fn without_state(journal: &Path) -> anyhow::Result<Vec<Finding>> {
    let journal = journal.canonicalize()?;
    let Some(catalogue) = journal.parent().map(|above| above.join(CATALOGUE)) else { return Ok(Vec::new()) };
    let begun = tidemill_service::begun_queries(&catalogue, &journal)?.into_iter();
    let lacking = begun.filter(|(_, folder)| matches!(inspect::query(folder), Ok(None)));
    // A query that is not durable keeps nothing.
    let lacking = lacking.filter(|(name, _)| {
        let query = tidemill_service::past_query(Planner::new(), (&catalogue, &journal), name);
        query.is_ok_and(|(pipeline, _)| pipeline.journal().is_some())
    });
    let finding = |(name, folder): (String, PathBuf)| {
        let reason = format!("the file is missing, although query '{name}' has begun");
        missing_part(&folder.join("query"), reason)
    };
    Ok(lacking.map(finding).collect())
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
    let Listing { snapshots, commits, .. } = inspect::list(folder)?;
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
    let kept = snapshots.last().into_iter().chain(commits.values()).max();
    if let Some(cycle) = kept.filter(|cycle| **cycle >= database.cuts.end && !names.is_empty()) {
        let end = database.cuts.end;
        lacks(folder, format!("it has what cycle {cycle} gave, but cycles from {end} on are missing"));
    }
    let resumes = snapshots.last().map_or(0, |cycle| cycle + 1);
    if resumes < database.cuts.first && !names.is_empty() {
        let first = database.cuts.first;
        lacks(folder, format!("it continues with cycle {resumes}, but cycles before {first} are missing"));
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
