//! One cycle for all views that are read together: the newest that all of them have.

use tidemill_engine::Cause;
use tidemill_store::Version;

use crate::relations::stored_rows::StoredRows;

/// For each store its version at the newest cycle that all of them have reached and still keep. A view that is so far
/// behind that others no longer keep its cycle is left out, with that reason. Views whose cycles are not comparable, because
/// they have clocks of their own, are read as of the newest cycle of each clock.
pub(super) fn versions_at_one_cycle(stores: &[StoredRows]) -> Vec<Result<Version, Cause>> {
    let mut versions: Vec<Option<Result<Version, Cause>>> = stores.iter().map(StoredRows::chosen).collect();
    while let Some(first) = versions.iter().position(Option::is_none) {
        let together: Vec<usize> = (first..stores.len())
            .filter(|at| versions[*at].is_none() && stores[*at].clock().is_comparable(stores[first].clock()))
            .collect();
        let of_clock: Vec<&StoredRows> = together.iter().map(|at| &stores[*at]).collect();
        for (at, version) in together.into_iter().zip(under_one_clock(&of_clock)) {
            versions[at] = Some(version);
        }
    }
    versions.into_iter().flatten().collect()
}

fn under_one_clock(stores: &[&StoredRows]) -> Vec<Result<Version, Cause>> {
    if let [only] = stores {
        return vec![Ok(only.reader().latest())];
    }
    let reached: Vec<u64> = stores.iter().map(|stored| stored.clock().reached(stored.reader())).collect();
    let mut ends = reached.clone();
    ends.sort_unstable();
    ends.dedup();
    let mut found = Vec::new();
    for end in ends {
        let version = |(stored, reached): (&&StoredRows, &u64)| {
            if *reached >= end {
                stored.reader().before_cycle(end)
            } else {
                Err(is_behind(stored.name(), *reached, end))
            }
        };
        found = stores.iter().zip(&reached).map(version).collect();
        let is_kept = |(version, reached): (&Result<Version, Cause>, &u64)| *reached < end || version.is_ok();
        if found.iter().zip(&reached).all(is_kept) {
            break;
        }
    }
    found
}

fn is_behind(name: &str, reached: u64, end: u64) -> Cause {
    let has = match reached.checked_sub(1) {
        Some(cycle) => format!("has the cycles up to {cycle} only"),
        None => "has no cycle yet".to_owned(),
    };
    Cause::resource(format!(
        "view '{name}' {has}, and the other views no longer keep the rows that they had then (the oldest cycle that \
         they can show together is {}); read it by itself, or let the others keep more versions: WITH \
         (retain_versions = 100000)",
        end.saturating_sub(1)
    ))
}
