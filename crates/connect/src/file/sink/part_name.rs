//! The names of the files in a folder, and which of its files are ours.

use std::fs::File;
use std::path::{Path, PathBuf};

use tidemill_core::Cause;

use super::text_file::open_failed;

/// The manifest's name in its folder.
pub(crate) const MANIFEST: &str = ".manifest";

/// The name of a file while it is being written.
pub(crate) fn open_name(first_cycle: u64, ending: &str) -> String {
    format!(".part-{first_cycle:020}.{ending}")
}

/// The name of a complete file.
pub(crate) fn complete_name(first_cycle: u64, last_cycle: u64, ending: &str) -> String {
    format!("part-{first_cycle:020}-{last_cycle:020}.{ending}")
}

/// The meaning of one of our names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartName {
    /// It is being written.
    Open { first_cycle: u64 },
    /// It is complete.
    Complete { last_cycle: u64 },
}

impl PartName {
    /// `ending_now`: that of the files which are written now, besides those of the built-in formats.
    fn parse(name: &str, ending_now: &str) -> Option<PartName> {
        let (numbers, ending) =
            name.split_once('.').filter(|(start, _)| !start.is_empty()).or_else(|| {
                let (start, ending) = name.strip_prefix('.')?.split_once('.')?;
                Some((&name[..=start.len()], ending))
            })?;
        if ending != ending_now && !["csv", "tsv", "ndjson", "parquet", "arrow"].contains(&ending) {
            return None;
        }
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        if let Some(first_cycle) = numbers.strip_prefix(".part-") {
            return Some(PartName::Open { first_cycle: number(first_cycle)? });
        }
        let (first_cycle, last_cycle) = numbers.strip_prefix("part-")?.split_once('-')?;
        number(first_cycle)?;
        Some(PartName::Complete { last_cycle: number(last_cycle)? })
    }
}

/// Our files in a folder, in the order of their names. Files written now have this ending.
pub(crate) fn parts(folder: &Path, ending: &str) -> Result<Vec<(PathBuf, PartName)>, Cause> {
    let failed = |error| {
        Cause::operation(format!("folder '{}' cannot be read: {error}", folder.display())).with_source(error)
    };
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let part = name.to_str().and_then(|name| PartName::parse(name, ending));
        parts.extend(part.map(|part| (entry.path(), part)));
    }
    parts.sort_by(|first, second| first.0.cmp(&second.0));
    Ok(parts)
}

/// Refuses a folder that has files of ours.
pub(crate) fn refuse_parts(folder: &Path, ending: &str) -> Result<(), Cause> {
    if parts(folder, ending)?.is_empty() && !folder.join(MANIFEST).exists() {
        return Ok(());
    }
    Err(Cause::user(format!(
        "folder '{}' contains results of an earlier query; choose another folder, or allow their removal \
         with overwrite = true",
        folder.display()
    )))
}

/// Removes the manifest of an earlier query, before its files: it must never describe files that do not exist any more.
pub(crate) fn forget_manifest(folder: &Path) -> Result<(), Cause> {
    let path = folder.join(MANIFEST);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(open_failed(&path, error)),
        _ => Ok(()),
    }
}

/// Removes our files from a folder.
pub(crate) fn remove_parts(folder: &Path, ending: &str) -> Result<(), Cause> {
    let parts = parts(folder, ending)?;
    parts
        .iter()
        .try_for_each(|(path, _)| std::fs::remove_file(path).map_err(|error| open_failed(path, error)))
}

/// Reports at once, and not at the first commit, if files cannot be created.
pub(crate) fn refuse_unwritable(folder: &Path) -> Result<(), Cause> {
    let path = folder.join(".part-probe");
    File::create(&path).map_err(|error| open_failed(folder, error))?;
    std::fs::remove_file(&path).map_err(|error| open_failed(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_not_ours() {
        assert_eq!(PartName::parse(&open_name(7, "csv"), "logfmt"), Some(PartName::Open { first_cycle: 7 }));
        let complete = complete_name(7, u64::MAX, "parquet");
        assert_eq!(PartName::parse(&complete, "logfmt"), Some(PartName::Complete { last_cycle: u64::MAX }));
        let own = complete_name(7, 9, "logfmt");
        assert_eq!(PartName::parse(&own, "logfmt"), Some(PartName::Complete { last_cycle: 9 }));
        assert_eq!(PartName::parse(&own, "csv"), None);
        let others = [
            "part-of-me.csv",
            "part-.csv",
            "part-1.csv",
            ".part-1-2.csv",
            "part-1-2.txt",
            "part-1-2",
            "",
            ".",
        ];
        for other in others.into_iter().chain(["part-1-2.csv.bak", "part-+1-2.csv", ".csv"]) {
            assert_eq!(PartName::parse(other, "logfmt"), None, "{other}");
        }
    }
}
