//! The rows of a query's views: whether all that a view's rows file names is there, intact, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::error::Cause;

use super::{Finding, FindingKind, refuse_others, sorted_names};
use crate::current_query;
use crate::disk::Disk;
use crate::layout;
use crate::medium::Medium;
use crate::stored_chunks::{ChunkPlace, StoredChunks};
use crate::stored_rows::StoredRowsFile;

/// How often a view is read again if its rows were written meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// What was found about the views of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewVerification {
    /// How many views have rows.
    pub views: u64,
    /// How many chunks they name.
    pub chunks: u64,
    /// How many bytes these have.
    pub bytes: u64,
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
}

/// Reads all chunks that the views of a folder's query name, and lists what they do not name. `named` says which chunks the
/// contents of a rows file name: only who wrote them knows. Nothing is changed, and the query may run meanwhile.
///
/// # Errors
/// If it is not a journal's folder, or cannot be read.
///
/// ```
/// use tidemill_journal::{Journal, inspect};
/// let folder = tempfile::tempdir()?;
/// let journal = Journal::open(folder.path())?;
/// let mut chunks = journal.stored_chunks("totals")?;
/// let place = chunks.write(b"rows")?;
/// chunks.sync()?;
/// journal.stored_rows("totals")?.write(7, b"names it")?;
/// let found = inspect::verify_views(folder.path(), |_| Ok(vec![place]))?;
/// assert_eq!((found.views, found.chunks, found.findings.len()), (1, 1, 0));
/// // The file is unused if nothing names it.
/// let found = inspect::verify_views(folder.path(), |_| Ok(vec![]))?;
/// assert_eq!(found.findings[0].kind, inspect::FindingKind::Unused);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_views(
    folder: &Path,
    named: impl Fn(&[u8]) -> Result<Vec<ChunkPlace>, Cause>,
) -> Result<ViewVerification, Cause> {
    let medium: Arc<dyn Medium> = Arc::new(Disk);
    refuse_others(&*medium, folder)?;
    let mut found = ViewVerification::default();
    for own in current_query::query_folders(&*medium, folder)? {
        let views = layout::views(&own);
        let names = sorted_names(&*medium, &views)?;
        let stem =
            |name: &String| Some(name.strip_suffix(".rows").or(name.strip_suffix(".chunks"))?.to_owned());
        for name in names.iter().filter_map(stem).collect::<BTreeSet<String>>() {
            let view = View { medium: medium.clone(), views: &views, name: &name };
            found.add(view.verify(&named)?);
        }
    }
    Ok(found)
}

impl ViewVerification {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, view: ViewVerification) {
        self.views += view.views;
        self.chunks += view.chunks;
        self.bytes += view.bytes;
        self.findings.extend(view.findings);
    }

    fn find(&mut self, path: PathBuf, offset: u64, reason: String, kind: FindingKind) {
        self.findings.push(Finding { path, offset, reason, kind });
    }
}

struct View<'a> {
    medium: Arc<dyn Medium>,
    views: &'a Path,
    name: &'a str,
}

impl View<'_> {
    fn verify(
        &self,
        named: impl Fn(&[u8]) -> Result<Vec<ChunkPlace>, Cause>,
    ) -> Result<ViewVerification, Cause> {
        let mut attempts = 1;
        loop {
            let rows = self.rows();
            let found = self.compare(&rows, &named)?;
            // The query has written its rows again, and removed what they do not name any more.
            let is_same = matches!((&rows, &self.rows()), (Ok(before), Ok(now)) if before == now);
            if found.findings.is_empty() || is_same || rows.is_err() || attempts == ATTEMPTS_MAX {
                return Ok(found);
            }
            attempts += 1;
        }
    }

    fn rows_path(&self) -> PathBuf {
        self.views.join(format!("{}.rows", self.name))
    }

    fn chunks_path(&self) -> PathBuf {
        self.views.join(format!("{}.chunks", self.name))
    }

    fn rows(&self) -> Result<Option<(u64, Vec<u8>)>, Cause> {
        StoredRowsFile::new(self.medium.clone(), self.rows_path()).read()
    }

    fn compare(
        &self,
        rows: &Result<Option<(u64, Vec<u8>)>, Cause>,
        named: impl Fn(&[u8]) -> Result<Vec<ChunkPlace>, Cause>,
    ) -> Result<ViewVerification, Cause> {
        let mut found = ViewVerification::default();
        let places = match rows {
            Ok(None) => Ok(Vec::new()),
            Ok(Some((_, bytes))) => named(bytes),
            Err(cause) => Err(cause.clone()),
        };
        let places = match places {
            Ok(places) => places,
            // What is used cannot be told from what is not.
            Err(cause) => {
                found.find(self.rows_path(), 0, format!("{cause}; {}", self.remedy()), FindingKind::Damage);
                return Ok(found);
            }
        };
        found.views = rows.iter().flatten().count() as u64;
        let mut by_file: BTreeMap<u64, Vec<ChunkPlace>> = BTreeMap::new();
        for place in places {
            by_file.entry(place.file).or_default().push(place);
        }
        for (file, places) in &by_file {
            self.read(*file, places, &mut found)?;
        }
        self.find_unused(&by_file.keys().copied().collect(), &mut found)?;
        Ok(found)
    }

    /// Reads the chunks of a file, if it is there.
    fn read(&self, file: u64, places: &[ChunkPlace], found: &mut ViewVerification) -> Result<(), Cause> {
        let mut chunks = StoredChunks::open(self.medium.clone(), self.chunks_path())?;
        let path = chunks.path(file);
        if !chunks.has(file) {
            let count = places.len();
            let chunk = if count == 1 { "chunk" } else { "chunks" };
            let reason =
                format!("the file is missing, with {count} {chunk} of '{}'; {}", self.name, self.remedy());
            found.find(path, 0, reason, FindingKind::Damage);
            return Ok(());
        }
        for place in places {
            match chunks.read(place) {
                Ok(bytes) => {
                    found.chunks += 1;
                    found.bytes += bytes.len() as u64;
                }
                Err(cause) => {
                    let reason = format!("{cause}; {}", self.remedy());
                    found.find(path.clone(), place.offset, reason, FindingKind::Damage);
                }
            }
        }
        Ok(())
    }

    fn find_unused(&self, used: &BTreeSet<u64>, found: &mut ViewVerification) -> Result<(), Cause> {
        let folder = self.chunks_path();
        for name in sorted_names(&*self.medium, &folder)? {
            let reason = match StoredChunks::number_of(&name) {
                Some(number) if used.contains(&number) => continue,
                Some(_) => {
                    "the rows of the view name nothing in this file; the next start or snapshot removes it"
                }
                None => "this is not a file of the view; move it elsewhere",
            };
            found.find(folder.join(name), 0, reason.to_owned(), FindingKind::Unused);
        }
        Ok(())
    }

    fn remedy(&self) -> String {
        format!(
            "bring it back from a backup, or remove '{0}.rows' and '{0}.chunks' while nothing runs: the next start \
             fills the view again if the journal still has all rows",
            self.name
        )
    }
}
