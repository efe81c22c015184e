//! The cursors and prepared statements of a session, as clients read them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::table::CellKind::{Flag, Moment, Text};
use super::table::{Cell, Table};

/// An open cursor.
pub(crate) struct OpenCursor {
    pub name: String,
    pub statement: String,
    pub is_held: bool,
    pub is_scrollable: bool,
    pub created: SystemTime,
}

/// A prepared statement.
pub(crate) struct OpenPrepared {
    pub name: String,
    pub statement: String,
}

/// The cursors and prepared statements of a session.
#[derive(Default)]
pub(crate) struct OpenStatements {
    pub cursors: Vec<OpenCursor>,
    pub prepared: Vec<OpenPrepared>,
}

impl OpenStatements {
    /// Returns `pg_cursors` or `pg_prepared_statements`.
    pub(super) fn table(&self, name: &str) -> Option<Table> {
        match name {
            "pg_cursors" => Some(Table {
                columns: &[
                    ("name", Text),
                    ("statement", Text),
                    ("is_holdable", Flag),
                    ("is_binary", Flag),
                    ("is_scrollable", Flag),
                    ("creation_time", Moment),
                ],
                values: self.cursors.iter().map(OpenCursor::row).collect(),
            }),
            "pg_prepared_statements" => Some(Table {
                columns: &[("name", Text), ("statement", Text), ("from_sql", Flag)],
                values: self
                    .prepared
                    .iter()
                    .map(|one| vec![one.name.as_str().into(), one.statement.as_str().into(), false.into()])
                    .collect(),
            }),
            _ => None,
        }
    }
}

impl OpenCursor {
    fn row(&self) -> Vec<Cell> {
        let created = self.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
        vec![
            self.name.as_str().into(),
            self.statement.as_str().into(),
            self.is_held.into(),
            false.into(),
            self.is_scrollable.into(),
            Cell::Moment(created),
        ]
    }
}
