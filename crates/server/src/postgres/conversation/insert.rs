//! Inserts rows into sources and tables, and creates and drops these tables.

use tidemill_connect::memory::PushTarget;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::DataType;
use tidemill_service::{Reply, Role, chosen_columns};
use tidemill_sql::{ChangeKind, ClientTable, NewTable, ParameterType, divide, fitted_rows};

use super::answer::{Answer, Rows};
use super::change_statement::ChangeStatement;
use super::client_statement::ClientStatement;
use super::insert_statement::InsertStatement;
use super::inserted_rows::InsertedRows;
use super::table_statement::TableStatement;
use super::{Conversation, Result};
use crate::postgres::wire::TransactionStatus;
use crate::report::{
    ACTIVE_TRANSACTION, INVALID_VALUE, QUERY_CANCELED, Report, SUCCESSFUL, SYNTAX_ERROR, WRONG_OBJECT_TYPE,
};

impl Conversation<'_> {
    pub(super) fn insert(&mut self, statement: &InsertStatement) -> Result<Answer> {
        let catalog = self.session.runtime().catalog();
        let is_relation = || catalog.listed().iter().any(|relation| relation.name == statement.source);
        if catalog.push_target(&statement.source).is_none()
            && !is_relation()
            && let Some(definition) = &statement.definition
        {
            self.identity.check(self.role, Role::Owner)?;
            return self.execute_statement(definition);
        }
        let before = self.inserted.len();
        let count = match self.add_rows(statement) {
            Ok(count) => count,
            Err(stop) => {
                // A statement inserts all of its rows or none.
                self.inserted.truncate(before);
                return Err(stop);
            }
        };
        if self.transaction == TransactionStatus::None {
            self.take_in_inserted()?;
        }
        Ok(Answer::Done(format!("INSERT 0 {count}")))
    }

    /// Adds the rows of a statement to those that are inserted; how many there are.
    fn add_rows(&mut self, statement: &InsertStatement) -> Result<usize> {
        let (target, places) = self.places(statement)?;
        let types: Vec<&DataType> =
            places.iter().map(|place| target.schema().field(*place).data_type()).collect();
        let query = statement.query.with_numbers_for(&types);
        let mut count = 0;
        let mut add = |inserted: &mut InsertedRows, rows: &RecordBatch| -> Result<()> {
            let rows = fitted(rows, statement, &places, &target)?;
            count += rows.num_rows();
            if rows.num_rows() > 0 {
                inserted.add(target.clone(), rows)?;
            }
            Ok(())
        };
        let reply = match self.session.execute(&query) {
            Ok(reply) => reply,
            Err(error) => {
                let rows = query.rows_of_values();
                if rows.len() < 2 {
                    return Err(Report::from(error).into());
                }
                // The values of a column have types that do not go together, but each of them may become that of the column.
                let goes_on = self.goes_on();
                for row in rows {
                    if !goes_on() {
                        return Err(Report::error(QUERY_CANCELED, "the insert was cancelled").into());
                    }
                    match self.session.execute(&row).map_err(Report::from)? {
                        Reply::Rows(row) => add(&mut self.inserted, &row)?,
                        _ => return Err(Report::from(error).into()),
                    }
                }
                return Ok(count);
            }
        };
        match reply {
            Reply::Rows(rows) => add(&mut self.inserted, &rows)?,
            Reply::Batches(mut batches) => {
                batches.try_for_each(|rows| add(&mut self.inserted, &rows.map_err(Report::from)?))?;
            }
            _ => {
                let message = "only values, and queries over views and tables, can be inserted";
                let hint =
                    "to write what a query over streams gives, CREATE SINK, or CREATE VIEW over both streams";
                return Err(Report::error(WRONG_OBJECT_TYPE, message).with_hint(hint).into());
            }
        }
        Ok(count)
    }

    /// Gives the rows that were inserted to their sources, and waits until they are safe.
    pub(super) fn take_in_inserted(&mut self) -> Result<()> {
        let inserted = std::mem::take(&mut self.inserted);
        let goes_on = self.goes_on();
        let mut pushed = Vec::new();
        for piece in inserted.rows() {
            let (target, rows) = piece?;
            pushed.push(target.push(&rows, &goes_on).map_err(Report::from)?);
        }
        for pushed in &pushed {
            pushed.settle(&goes_on).map_err(Report::from)?;
        }
        Ok(())
    }

    /// The types that parameters have because they are values of columns.
    pub(super) fn types_of_inserted(&self, statement: &InsertStatement) -> Vec<(usize, ParameterType)> {
        let Ok((target, places)) = self.places(statement) else { return Vec::new() };
        let kind = |(number, column): (usize, usize)| {
            let field = target.schema().field(*places.get(column)?);
            Some((number, ParameterType::of_column(field.data_type())?))
        };
        statement.query.whole_values().into_iter().filter_map(kind).collect()
    }

    /// The source, and the numbers of the columns that values are for.
    fn places(&self, statement: &InsertStatement) -> std::result::Result<(PushTarget, Vec<usize>), Report> {
        let target = self.session.push_target(&statement.source, "inserted")?;
        let places = match &statement.columns {
            Some(columns) => chosen_columns(target.schema(), columns, "values")?,
            None => (0..target.schema().fields().len()).collect(),
        };
        Ok((target, places))
    }
}

impl Conversation<'_> {
    /// What a statement means under the catalogue as it is: an `INSERT` may be for a source or a sink.
    pub(super) fn resolved(&self, wanted: ClientStatement) -> std::result::Result<ClientStatement, Report> {
        match wanted {
            ClientStatement::Change(ChangeStatement { change, insert: Some(insert) })
                if self.session.client_table(&change.table).is_none() =>
            {
                match insert {
                    Ok(insert) => Ok(ClientStatement::Insert(*insert)),
                    Err(report) if self.session.names().contains(&change.table) => Err(report),
                    // It is told that there is no table.
                    Err(_) => Ok(ClientStatement::Change(ChangeStatement { change, insert: None })),
                }
            }
            other => Ok(other),
        }
    }

    pub(super) fn change(&mut self, statement: &ChangeStatement) -> Result<Answer> {
        if let ClientStatement::Insert(insert) = self.resolved(ClientStatement::Change(statement.clone()))? {
            return self.insert(&insert);
        }
        self.session.set_lock_timeout(self.settings.lock_timeout());
        let changed = self.session.change(&statement.change).map_err(Report::from)?;
        let tag = match statement.change.kind {
            ChangeKind::Insert => format!("INSERT 0 {}", changed.rows),
            ChangeKind::Truncate => "TRUNCATE TABLE".to_owned(),
            kind => format!("{} {}", kind.word(), changed.rows),
        };
        Ok(match changed.returned {
            None => Answer::Done(tag),
            Some(rows) => Answer::Rows(Rows::returned(rows, tag, &self.session)?),
        })
    }
}

/// Rows as the columns of the source have them.
fn fitted(
    rows: &RecordBatch,
    statement: &InsertStatement,
    places: &[usize],
    target: &PushTarget,
) -> std::result::Result<RecordBatch, Report> {
    let given = rows.num_columns();
    if given > places.len() || (statement.columns.is_some() && given < places.len()) {
        let message = format!("{given} values are given for {} columns", places.len());
        return Err(Report::error(SYNTAX_ERROR, message));
    }
    let rows = fitted_rows(rows, &places[..given], target.schema());
    rows.map_err(|cause| Report { code: INVALID_VALUE, ..Report::from(cause) })
}

impl Conversation<'_> {
    pub(super) fn execute_table_statement(&mut self, statement: &TableStatement) -> Result<Answer> {
        let done = |tag: &str| Ok(Answer::Done(tag.to_owned()));
        match statement {
            TableStatement::Create(table, is_lenient) => {
                self.create_table(table, *is_lenient)?;
                done("CREATE TABLE")
            }
            TableStatement::Drop { names, is_lenient, statement } => {
                let catalog = self.session.runtime().catalog();
                let tables = names.iter().filter(|name| ClientTable::of(&catalog, name).is_some()).count();
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

    fn create_table(&mut self, table: &NewTable, is_lenient: bool) -> Result<()> {
        if self.session.names().contains(&table.name) {
            let message = format!("there is already a source, table or view '{}'", table.name);
            if is_lenient {
                return Ok(self.writer.report(&Report::notice(SUCCESSFUL, message))?);
            }
            let report = Report::error("42P07", message);
            return Err(report.with_hint("choose another name, or DROP what has this one").into());
        }
        let is_durable = self.session.runtime().clock().journal_folder().is_some();
        let [source, view] = table.definitions(is_durable);
        self.define(&source)?;
        if let Err(stop) = self.define(&view) {
            // After a refused CREATE nothing stays defined.
            let [_, source] = NewTable::drops(&table.name);
            self.define(&source)?;
            return Err(stop);
        }
        if self.transaction == TransactionStatus::Open {
            self.created_tables.push(table.name.clone());
        }
        Ok(())
    }

    fn drop_table(&mut self, table: &str) -> Result<()> {
        NewTable::drops(table).iter().try_for_each(|drop| self.define(drop))
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
