//! The files that a path means.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

use super::failure::{failed, is_pattern};
use super::folders::Walk;

/// The most files that may be read as one source.
const FILES_MAX: usize = 1_000_000;

/// Whether the path means a single file, even if that does not exist yet.
pub(super) fn is_single(path: &str) -> bool {
    !Path::new(path).is_dir() && (Path::new(path).exists() || !is_pattern(path))
}

/// The files that exist now, in the order of their names. Finding none is not an error here.
pub(super) fn list(path: &str) -> Result<Vec<PathBuf>, Cause> {
    let plain = Path::new(path);
    let mut files = Vec::new();
    if plain.is_dir() {
        for entry in std::fs::read_dir(plain).map_err(|error| failed(path, error))? {
            let entry = entry.map_err(|error| failed(path, error))?.path();
            if !is_hidden(&entry) {
                add(&mut files, entry, path)?;
            }
        }
    } else if plain.exists() {
        files.push(plain.to_owned());
    } else if is_pattern(path) {
        for entry in matching(path, path)? {
            add(&mut files, entry, path)?;
        }
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// The files that match a pattern; `path` is the whole pattern, for messages. `**` is expanded here, because links may
/// be circular.
fn matching(pattern: &str, path: &str) -> Result<Vec<PathBuf>, Cause> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let Some(at) = parts.iter().position(|part| *part == "**") else { return plain_matches(pattern, path) };
    let (before, behind) = (parts[..at].join("/"), parts[at + 1..].join("/"));
    let starts = match before.as_str() {
        "" if at == 0 => vec![PathBuf::from(".")],
        "" => vec![PathBuf::from("/")],
        _ => plain_matches(&before, path)?,
    };
    let mut found = Vec::new();
    for folder in Walk::below(starts)? {
        let folder = folder.strip_prefix(".").unwrap_or(&folder).join("");
        let folder = glob::Pattern::escape(&folder.to_string_lossy());
        found.extend(matching(&format!("{folder}{behind}"), path)?);
    }
    Ok(found)
}

/// The files that match a pattern without `**`.
fn plain_matches(pattern: &str, path: &str) -> Result<Vec<PathBuf>, Cause> {
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let matches = glob::glob_with(pattern, options).map_err(|error| {
        Cause::user(format!("{path}: no valid pattern: {error}; write [*] for a star itself"))
            .with_source(error)
    })?;
    let failed = |error: glob::GlobError| {
        let path = error.path().display().to_string();
        failed(&path, error.into())
    };
    matches.map(|entry| entry.map_err(failed)).collect()
}

fn add(files: &mut Vec<PathBuf>, entry: PathBuf, path: &str) -> Result<(), Cause> {
    if !entry.is_file() {
        return Ok(());
    }
    if files.len() == FILES_MAX {
        return Err(Cause::resource(format!(
            "{path}: more than {FILES_MAX} files; name fewer in one pattern"
        )));
    }
    files.push(entry);
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_')))
}
