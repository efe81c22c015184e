//! Creates and drops tables into which clients put rows.

use tidemill_sql::divide;

use super::answer::Answer;
use super::table_statement::{NewTable, TableStatement};
use super::{Conversation, Result};
use crate::postgres::client_tables::{quoted, source_name, source_of, view};
use crate::postgres::wire::TransactionStatus;
use crate::report::{ACTIVE_TRANSACTION, Report, SUCCESSFUL};

impl Conversation<'_> {
    pub(super) fn execute_table_statement(&mut self, statement: &TableStatement) -> Result<Answer> {
        let done = |tag: &str| Ok(Answer::Done(tag.to_owned()));
        match statement {
            TableStatement::Create(table) => {
                self.create_table(table)?;
                done("CREATE TABLE")
            }
            TableStatement::Drop { names, is_lenient, statement } => {
                let catalog = self.session.runtime().catalog();
                let tables = names.iter().filter(|name| source_of(&catalog, name).is_some()).count();
                if tables == names.len() {
                    self.refuse_in_transaction()?;
                    names.iter().try_for_each(|name| self.drop_table(name))?;
                    return done("DROP TABLE");
                }
                let is_there = |name: &String| self.session.names().contains(name);
                if *is_lenient && !names.iter().any(is_there) {
                    let message = format!("there is no table {}", names.join(", "));
                    self.writer.report(&Report::notice(SUCCESSFUL, message))?;
                    return done("DROP TABLE");
                }
                match statement {
                    Some(statement) => self.execute_statement(statement),
                    None => {
                        let report =
                            Report::error("42P01", "one of them was not created by CREATE TABLE name (...)");
                        Err(report.with_hint("DROP each of them by a statement of its own").into())
                    }
                }
            }
            TableStatement::Index(relation) => {
                if !self.session.names().contains(relation) {
                    let message = format!("there is no source, table or view '{relation}'");
                    return Err(Report::error("42P01", message).into());
                }
                let notice = Report::notice(SUCCESSFUL, "rows are found without indexes, so there is none");
                self.writer.report(&notice)?;
                done("CREATE INDEX")
            }
        }
    }

    fn create_table(&mut self, table: &NewTable) -> Result<()> {
        if self.session.names().contains(&table.name) {
            let message = format!("there is already a source, table or view '{}'", table.name);
            if table.is_lenient {
                return Ok(self.writer.report(&Report::notice(SUCCESSFUL, message))?);
            }
            let report = Report::error("42P07", message);
            return Err(report.with_hint("choose another name, or DROP what has this one").into());
        }
        let source = source_name(&table.name);
        let columns: Vec<&str> = table.columns.iter().map(|(_, definition)| definition.as_str()).collect();
        let is_kept = self.session.runtime().clock().journal_folder().is_some();
        let durable = if is_kept { ", durable = true" } else { "" };
        let columns = columns.join(", ");
        let of_rows =
            format!("CREATE SOURCE {} ({columns}) WITH (connector = 'push'{durable})", quoted(&source));
        self.define(&of_rows)?;
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        if let Err(stop) = self.define(&view(&table.name, &names)) {
            // After a refused CREATE nothing stays defined.
            self.define(&format!("DROP SOURCE {}", quoted(&source)))?;
            return Err(stop);
        }
        if self.transaction == TransactionStatus::Open {
            self.created_tables.push(table.name.clone());
        }
        Ok(())
    }

    fn drop_table(&mut self, table: &str) -> Result<()> {
        self.define(&format!("DROP MATERIALIZED VIEW {}", quoted(table)))?;
        self.define(&format!("DROP SOURCE {}", quoted(&source_name(table))))
    }

    /// Drops the tables that the transaction has created, all but the first ones. They were there for everybody, but nobody was told so.
    pub(super) fn drop_created_tables(&mut self, but: usize) -> Result<()> {
        while self.created_tables.len() > but
            && let Some(table) = self.created_tables.pop()
        {
            self.drop_table(&table)?;
        }
        Ok(())
    }

    fn refuse_in_transaction(&self) -> Result<()> {
        if self.transaction == TransactionStatus::None {
            return Ok(());
        }
        let message = "a table is dropped at once, and ROLLBACK could not bring it back";
        let report = Report::error(ACTIVE_TRANSACTION, message);
        Err(report.with_hint("execute it outside of BEGIN and COMMIT (autocommit)").into())
    }

    /// Executes a statement that the server has written.
    fn define(&mut self, text: &str) -> Result<()> {
        let pieces = divide(text, "table").map_err(|error| Report::of_reading(&error))?;
        for piece in pieces {
            let statement = piece.read().map_err(|error| Report::of_reading(&error))?;
            self.execute_checked(&statement)?;
        }
        Ok(())
    }
}
