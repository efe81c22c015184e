//! Cursors of a session.

use std::time::SystemTime;

use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::Statement;

use super::answer::{Answer, Fetch, Rows};
use super::cursor_statement::CursorStatement;
use super::limits::check_room;
use super::prepared::PreparedStatement;
use super::{Conversation, Result};
use crate::postgres::pg_catalog::{OpenCursor, OpenPrepared, OpenStatements};
use crate::postgres::values::{Column, columns};
use crate::postgres::wire::TransactionStatus;
use crate::report::{
    DUPLICATE_CURSOR, INVALID_CURSOR_NAME, NO_ACTIVE_TRANSACTION, Report, WRONG_OBJECT_TYPE,
};

/// A query whose rows the client takes some at a time.
pub(super) struct Cursor {
    rows: Rows,
    schema: SchemaRef,
    /// Whether it outlives the transaction.
    is_held: bool,
    /// The text of its query.
    statement: String,
    declared: SystemTime,
}

impl Cursor {
    pub fn rows(&mut self) -> &mut Rows {
        &mut self.rows
    }
}

impl Conversation<'_> {
    pub(super) fn execute_cursor_statement(&mut self, statement: &CursorStatement) -> Result<Answer> {
        match statement {
            CursorStatement::Declare { name, is_held, query } => self.declare(name, *is_held, query),
            CursorStatement::Fetch { name, rows_max, is_move } => {
                let cursor = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
                let columns = columns(&cursor.schema, &[]);
                let (name, rows_max, is_move) = (name.clone(), *rows_max, *is_move);
                Ok(Answer::Fetch(Fetch { name, rows_max, is_move, columns }))
            }
            CursorStatement::Close(None) => {
                self.cursors.clear();
                Ok(Answer::Done("CLOSE CURSOR ALL".to_owned()))
            }
            CursorStatement::Close(Some(name)) => {
                self.cursors.remove(name).ok_or_else(|| no_cursor(name))?;
                Ok(Answer::Done("CLOSE CURSOR".to_owned()))
            }
        }
    }

    fn declare(&mut self, name: &str, is_held: bool, query: &Statement) -> Result<Answer> {
        if self.transaction == TransactionStatus::None && !is_held {
            let report = Report::error(NO_ACTIVE_TRANSACTION, "a cursor lives as long as its transaction");
            return Err(report.with_hint("BEGIN first, or DECLARE it WITH HOLD").into());
        }
        if self.cursors.contains_key(name) {
            return Err(Report::error(DUPLICATE_CURSOR, format!("cursor '{name}' already exists")).into());
        }
        check_room(self.cursors.len(), "cursors", "CLOSE ALL")?;
        let Answer::Rows(rows) = self.execute_statement(query)? else {
            return Err(Report::error(WRONG_OBJECT_TYPE, "a cursor needs a query").into());
        };
        let schema = match rows.schema() {
            Some(schema) => SchemaRef::clone(schema),
            None => {
                let known = self.session.columns(query).map_err(Report::from)?;
                known.ok_or_else(|| Report::error(WRONG_OBJECT_TYPE, "a cursor needs a query"))?
            }
        };
        let (statement, declared) = (query.text.clone(), SystemTime::now());
        self.cursors.insert(name.to_owned(), Cursor { rows, schema, is_held, statement, declared });
        Ok(Answer::Done("DECLARE CURSOR".to_owned()))
    }

    /// Sends the rows that a client fetches. The client is told their columns unless it knows them.
    pub(super) fn fetch(&mut self, fetch: Fetch, is_told: bool) -> Result<()> {
        let Fetch { name, rows_max, is_move, columns } = fetch;
        let mut cursor = self.cursors.remove(&name).ok_or_else(|| no_cursor(&name))?;
        // All that is there: a subscription has no end.
        let rows_max = if rows_max == 0 && cursor.rows.is_subscription() { usize::MAX } else { rows_max };
        cursor.rows.restart_count();
        let word = if is_move {
            self.take_rows(&mut cursor.rows, rows_max, |_, _, _| Ok(()))?;
            "MOVE"
        } else {
            if !is_told {
                self.writer.columns(&columns)?;
            }
            cursor.rows.set_columns(columns);
            self.write_rows(&mut cursor.rows, rows_max)?;
            "FETCH"
        };
        let tag = format!("{word} {}", cursor.rows.given());
        // After an error it is gone, as its query is.
        self.cursors.insert(name, cursor);
        Ok(self.writer.complete(&tag)?)
    }

    /// Executes a cursor as a portal: sends its next rows, at most `rows_max`; 0: all. `None`: there is no such cursor.
    pub(super) fn execute_cursor(&mut self, name: &str, rows_max: usize) -> Option<Result<()>> {
        let columns = self.columns_of_cursor(name, &[]).ok()?;
        Some(self.fetch(Fetch { name: name.to_owned(), rows_max, is_move: false, columns }, true))
    }

    /// Returns the cursors and prepared statements, as `pg_cursors` and `pg_prepared_statements` list them.
    pub(super) fn open_statements(&self) -> OpenStatements {
        let cursor = |(name, cursor): (&String, &Cursor)| OpenCursor {
            name: name.clone(),
            statement: cursor.statement.clone(),
            is_held: cursor.is_held,
            is_scrollable: false,
            created: cursor.declared,
        };
        let text =
            |prepared: &PreparedStatement| prepared.wanted.as_ref()?.query().map(|query| query.text.clone());
        let named = self.statements.iter().filter(|(name, _)| !name.is_empty());
        let prepared = named
            .map(|(name, prepared)| OpenPrepared {
                name: name.clone(),
                statement: text(prepared).unwrap_or_default(),
            })
            .collect();
        OpenStatements { cursors: self.cursors.iter().map(cursor).collect(), prepared }
    }

    /// The columns of the rows that are fetched from a cursor.
    pub(super) fn columns_of_cursor(
        &self,
        name: &str,
        formats: &[u16],
    ) -> std::result::Result<Vec<Column>, Report> {
        let cursor = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
        Ok(columns(&cursor.schema, formats))
    }

    /// Those that do not outlive their transaction, which has ended.
    pub(super) fn close_cursors(&mut self) {
        self.cursors.retain(|_, cursor| cursor.is_held);
    }
}

fn no_cursor(name: &str) -> Report {
    Report::error(INVALID_CURSOR_NAME, format!("there is no cursor '{name}'"))
}
