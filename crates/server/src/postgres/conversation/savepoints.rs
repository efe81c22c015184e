//! Savepoints: what is undone are settings, tables that were created, and rows that were inserted, updated or deleted. After an error, a client
//! returns to one to continue.

use tidemill_service::TableSavepoint;

use super::limits::check_room;
use super::transaction_settings::SettingsInTransaction;
use super::{Conversation, Result};
use crate::postgres::wire::TransactionStatus;
use crate::report::{INVALID_SAVEPOINT, NO_ACTIVE_TRANSACTION, Report};

/// A statement about a savepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SavepointStatement {
    Set(String),
    Release(String),
    RollbackTo(String),
}

/// A point of a transaction to which a client can return.
pub(super) struct Savepoint {
    name: String,
    settings: SettingsInTransaction,
    /// How many inserts there were before.
    inserts: usize,
    /// How many tables were created before.
    tables: usize,
    changes: TableSavepoint,
}

impl SavepointStatement {
    /// What words in capitals say whose last one is `name`; `None` if it is not about savepoints.
    pub fn read(upper: &[&str], name: &str) -> Option<SavepointStatement> {
        let name = name.to_owned();
        match upper {
            ["SAVEPOINT", _] => Some(SavepointStatement::Set(name)),
            ["RELEASE", _] | ["RELEASE", "SAVEPOINT", _] => Some(SavepointStatement::Release(name)),
            ["ROLLBACK" | "ABORT", "TO", _]
            | ["ROLLBACK" | "ABORT", "TO" | "WORK" | "TRANSACTION", "SAVEPOINT" | "TO", _]
            | ["ROLLBACK" | "ABORT", "WORK" | "TRANSACTION", "TO", "SAVEPOINT", _] => {
                Some(SavepointStatement::RollbackTo(name))
            }
            _ => None,
        }
    }

    pub fn tag(&self) -> &'static str {
        match self {
            SavepointStatement::Set(_) => "SAVEPOINT",
            SavepointStatement::Release(_) => "RELEASE",
            SavepointStatement::RollbackTo(_) => "ROLLBACK",
        }
    }
}

impl Conversation<'_> {
    pub(super) fn execute_savepoint_statement(&mut self, statement: &SavepointStatement) -> Result<()> {
        if self.transaction == TransactionStatus::None {
            let report = Report::error(NO_ACTIVE_TRANSACTION, "savepoints are points of a transaction");
            return Err(report.with_hint("BEGIN first").into());
        }
        let place = |name: &str| {
            let place = self.savepoints.iter().rposition(|known| known.name == name);
            place.ok_or_else(|| Report::error(INVALID_SAVEPOINT, format!("there is no savepoint '{name}'")))
        };
        match statement {
            SavepointStatement::Set(name) => {
                check_room(self.savepoints.len(), "savepoints", "RELEASE some of them")?;
                let settings = self.settings_in_transaction();
                let inserts = self.inserted.len();
                let tables = self.created_tables.len();
                let changes = self.session.table_savepoint();
                self.savepoints.push(Savepoint { name: name.clone(), settings, inserts, tables, changes });
            }
            SavepointStatement::Release(name) => {
                let place = place(name)?;
                self.savepoints.truncate(place);
            }
            SavepointStatement::RollbackTo(name) => {
                let place = place(name)?;
                self.savepoints.truncate(place + 1);
                let settings = self.savepoints[place].settings.clone();
                self.return_to_settings(settings)?;
                self.inserted.truncate(self.savepoints[place].inserts);
                let changes = self.savepoints[place].changes.clone();
                self.session.return_to_table_savepoint(&changes).map_err(Report::from)?;
                self.drop_created_tables(self.savepoints[place].tables)?;
                self.transaction = TransactionStatus::Open;
            }
        }
        Ok(())
    }
}
