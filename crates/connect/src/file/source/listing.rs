//! The files that a path means.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

use super::failure::{failed, is_pattern};
use super::folders::FolderWalk;

/// How names match patterns.
const MATCHING: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: false,
    require_literal_separator: false,
    require_literal_leading_dot: true,
};
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

/// The one folder that has all files of a path, if there is one, and whether a name in it is that of such a file.
pub(super) struct OneFolder {
    folder: PathBuf,
    names: Option<glob::Pattern>,
}

impl OneFolder {
    /// `None`: a single file, or files of several folders.
    pub(super) fn of(path: &str) -> Option<OneFolder> {
        if Path::new(path).is_dir() {
            return Some(OneFolder { folder: PathBuf::from(path), names: None });
        }
        if is_single(path) {
            return None;
        }
        let (folder, names) = path.rsplit_once('/').unwrap_or(("", path));
        // Only if the paths of its files are known: a pattern shortens what it goes through.
        let is_absolute = folder.starts_with('/');
        let mut parts = folder.split('/').skip(usize::from(is_absolute));
        let is_plain = !path.contains('/') || parts.all(|part| !matches!(part, "" | "." | ".."));
        if !is_plain || is_pattern(folder) || names == "**" {
            return None;
        }
        Some(OneFolder { folder: PathBuf::from(folder), names: Some(glob::Pattern::new(names).ok()?) })
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Path {
        if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder }
    }

    /// The file of this name, if it is one of them and there.
    pub(super) fn file(&self, name: &OsStr) -> Option<PathBuf> {
        let is_meant = match &self.names {
            Some(names) => name.to_str().is_some_and(|name| names.matches_with(name, MATCHING)),
            None => !is_hidden(Path::new(name)),
        };
        let path = self.folder.join(name);
        (is_meant && path.is_file()).then_some(path)
    }
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
    for folder in FolderWalk::below(starts)? {
        let folder = folder.strip_prefix(".").unwrap_or(&folder).join("");
        let folder = glob::Pattern::escape(&folder.to_string_lossy());
        found.extend(matching(&format!("{folder}{behind}"), path)?);
    }
    Ok(found)
}

/// The files that match a pattern without `**`.
fn plain_matches(pattern: &str, path: &str) -> Result<Vec<PathBuf>, Cause> {
    let matches = glob::glob_with(pattern, MATCHING).map_err(|error| {
        Cause::user(format!("{path}: invalid pattern: {error}; write [*] for a literal star"))
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
            "{path}: more than {FILES_MAX} files match; use a narrower pattern"
        )));
    }
    files.push(entry);
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_')))
}
