//! Statements that change the rows of a table: `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `TRUNCATE`.
//!
//! A change is computed by queries, which say what becomes of which row. They read the table under the names here.

mod conflict;
mod made;
mod merge;
mod queries;
mod read;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{self, Expr};

pub use self::conflict::Conflict;
pub use self::made::Assigned;
pub use self::merge::{Merged, MergedAction};
use super::parameters::{Bound, numbers_in};
use super::{Parameter, Piece};
use crate::TextError;
use crate::text::{Problem, Script, Span};
use tidemill_trees::syntax::walk_mut;

/// The rows of the table, with the column [`ROW`], in the queries of a change.
pub const TARGET: &str = "$target";
/// The number of a row.
pub const ROW: &str = "$row";
/// The rows that a statement has inserted, updated or deleted, in its `RETURNING`.
pub const AFFECTED: &str = "$affected";

/// The columns of a table whose rows are changed.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// Its columns.
    pub columns: SchemaRef,
    /// The columns that identify a row; none if rows may be equal in all columns.
    pub key: Vec<usize>,
    /// What each column has in a row that does not say it.
    pub(crate) defaults: Vec<Option<Expr>>,
}

impl TableShape {
    /// Whether a column has a default other than NULL.
    pub fn has_defaults(&self) -> bool {
        self.defaults.iter().any(Option::is_some)
    }
}

/// A statement that changes the rows of a table.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// The table.
    pub table: String,
    /// What it does.
    pub kind: ChangeKind,
    change: Box<ast::Statement>,
    /// The query whose `WITH` stands before it.
    with: Option<Box<ast::Query>>,
    script: Arc<Script>,
    span: Span,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `INSERT INTO`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE FROM`
    Delete,
    /// `MERGE INTO`
    Merge,
    /// `TRUNCATE`
    Truncate,
}

impl ChangeKind {
    /// The first word of the statement.
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Insert => "INSERT",
            ChangeKind::Update => "UPDATE",
            ChangeKind::Delete => "DELETE",
            ChangeKind::Merge => "MERGE",
            ChangeKind::Truncate => "TRUNCATE",
        }
    }
}

impl TableChange {
    /// What a statement changes; `None` if it begins as something else.
    ///
    /// ```
    /// use tidemill_sql::{TableChange, divide};
    /// let piece = divide("UPDATE t SET a = $1 WHERE b = 2", "example").unwrap().remove(0);
    /// let change = TableChange::read(&piece).unwrap().unwrap();
    /// assert_eq!((change.table.as_str(), change.parameters()), ("t", 1));
    /// ```
    pub fn read(piece: &Piece) -> Option<Result<TableChange, TextError>> {
        read::read(piece)
    }

    /// Its text, without its `;`.
    pub fn text(&self) -> &str {
        self.script.slice(self.span)
    }

    /// How many parameters it has: the highest number among `$1`, `$2`, ...
    pub fn parameters(&self) -> usize {
        let of_with = self.with.iter().flat_map(|with| numbers_in(&**with));
        numbers_in(&*self.change).into_iter().chain(of_with).max().unwrap_or(0)
    }

    /// It with a value for each of its parameters.
    #[must_use]
    pub fn bind(&self, values: &[Option<Parameter>]) -> TableChange {
        let mut bound = self.clone();
        let _ = walk_mut(&mut *bound.change, &mut Bound(values));
        if let Some(with) = &mut bound.with {
            let _ = walk_mut(&mut **with, &mut Bound(values));
        }
        bound
    }

    /// An error at the statement.
    pub fn error(&self, message: impl Into<String>) -> TextError {
        TextError::new(&self.script, self.span, message)
    }

    fn unknown_column(&self, name: &str) -> TextError {
        let message = format!("table '{}' has no column '{name}'", self.table);
        self.error(message).of(Problem::UnknownColumn)
    }

    fn not_supported(&self, message: &str, hint: &str) -> TextError {
        self.error(message).of(Problem::NotSupported).with_hint(hint)
    }
}
