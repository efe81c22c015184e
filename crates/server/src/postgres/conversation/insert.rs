//! Inserts rows into sources.

use tidemill_connect::memory::PushTarget;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_service::{Reply, Role};
use tidemill_sql::{ParameterType, fitted_rows};

use super::answer::Answer;
use super::insert_statement::InsertStatement;
use super::inserted_rows::InsertedRows;
use super::push_columns::{chosen, push_target};
use super::{Conversation, Result};
use crate::postgres::wire::TransactionStatus;
use crate::report::{INVALID_VALUE, QUERY_CANCELED, Report, SYNTAX_ERROR, WRONG_OBJECT_TYPE};

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
        let mut count = 0;
        let mut add = |inserted: &mut InsertedRows, rows: &RecordBatch| -> Result<()> {
            let rows = fitted(rows, statement, &places, &target)?;
            count += rows.num_rows();
            if rows.num_rows() > 0 {
                inserted.add(target.clone(), rows)?;
            }
            Ok(())
        };
        let reply = match self.session.execute(&statement.query) {
            Ok(reply) => reply,
            Err(error) => {
                let rows = statement.query.rows_of_values();
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
        let target = push_target(&self.session, &statement.source, "inserted")?;
        let places = match &statement.columns {
            Some(columns) => chosen(target.schema(), columns, "values")?,
            None => (0..target.schema().fields().len()).collect(),
        };
        Ok((target, places))
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
