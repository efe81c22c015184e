//! Executes statements; relative paths of files in definitions that are kept stand for those in a folder.

use std::path::PathBuf;

use super::{Planner, Reply};
use crate::statement::{Statement, StatementKind};
use crate::text::TextError;

impl Planner {
    /// Whether its queries may name a file in place of a relation (`FROM 'clicks.csv'`). It may at first; a server refuses
    /// it to users who are not to see the files of its machine.
    pub fn set_opens_files(&mut self, opens_files: bool) {
        self.opens_files = opens_files;
    }

    /// See [`set_opens_files`](Planner::set_opens_files).
    pub fn opens_files(&self) -> bool {
        self.opens_files
    }

    /// Relative paths of files in definitions are those in this folder from here on, and are kept so: executed again in another
    /// working directory, they mean the same. Unless it is told, a planner leaves them as they are written.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// planner.set_paths_in(Some("/data".into()));
    /// let sink = "CREATE SINK s WITH (path = 'out.csv') AS SELECT value FROM sequence(rate => 1)";
    /// planner.execute(&parse(sink, "example").unwrap()[0]).unwrap();
    /// assert!(planner.catalog().definitions()[0].statement.contains("path = '/data/out.csv'"));
    /// ```
    pub fn set_paths_in(&mut self, folder: Option<PathBuf>) {
        self.paths_in = folder;
    }

    /// Says what a statement means. A definition is added to its version of the catalogue, and a setting is changed.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        if let StatementKind::Drop { kind, name, cascade: true, .. } = &statement.kind {
            return self.drop_with_users(*kind, name, statement);
        }
        if let Some(added) = self.as_added_columns(statement) {
            return self.execute_as_written(&added);
        }
        // `IF NOT EXISTS` of a function that exists does not need the file.
        let whole = if self.catalog.stays(statement) { None } else { self.with_code_of_file(statement)? };
        if let Some(whole) = whole {
            return self.execute_as_written(&whole);
        }
        match self.with_absolute_paths(statement) {
            Some(whole) => self.execute_as_written(&whole),
            None => self.execute_as_written(statement),
        }
    }

    /// A statement in which relative paths are those that are kept; `None`: it has none.
    pub(super) fn with_absolute_paths(&self, statement: &Statement) -> Option<Statement> {
        self.paths_in.as_deref().and_then(|folder| statement.with_path_in(folder))
    }
}
