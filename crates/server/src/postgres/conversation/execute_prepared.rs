//! Executes `PREPARE` and `EXECUTE`.

use std::sync::Arc;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_service::Reply;
use tidemill_sql::{Parameter, ParameterType, Statement};

use super::answer::{Answer, Rows};
use super::client_statement::ClientStatement;
use super::limits::check_room;
use super::prepare_statement::{PrepareStatement, query, wrong};
use super::prepared::PreparedStatement;
use super::{Conversation, Result};
use crate::postgres::values::{Column, columns, kind_of_parameter, parameter, write_value};
use crate::report::{DUPLICATE_STATEMENT, INVALID_VALUE, NOT_SUPPORTED, PROTOCOL_VIOLATION, Report};
use crate::text_rows::plan_rows;

impl Conversation<'_> {
    pub(super) fn execute_prepare_statement(&mut self, statement: &PrepareStatement) -> Result<Answer> {
        match statement {
            PrepareStatement::Prepare { name, types, statement } => {
                if self.statements.contains_key(name) {
                    let message = format!("prepared statement '{name}' already exists");
                    return Err(Report::error(DUPLICATE_STATEMENT, message).into());
                }
                check_room(self.statements.len(), "prepared statements", "DEALLOCATE ALL")?;
                let types: Vec<u32> = self.types(types)?;
                let prepared =
                    self.prepared_of(Some(ClientStatement::Statement(statement.clone())), &types)?;
                self.statements.insert(name.clone(), Arc::new(prepared));
                Ok(Answer::Done("PREPARE".to_owned()))
            }
            PrepareStatement::Execute { name, values, is_explained } => {
                let prepared = self.prepared(name)?;
                let values = self.values(&prepared, name, values.as_deref())?;
                match prepared.with_values(values)? {
                    Some(wanted) if *is_explained => self.explain(name, &wanted),
                    Some(wanted) => self.execute(&wanted),
                    None => Ok(Answer::Done("EXECUTE".to_owned())),
                }
            }
        }
    }

    fn explain(&mut self, name: &str, wanted: &ClientStatement) -> Result<Answer> {
        let text = match wanted {
            ClientStatement::Prepared(query, values) => {
                self.session.explain_with(query, values).map_err(Report::from)?
            }
            _ => None,
        };
        let text = text.ok_or_else(|| {
            let message = format!("'{name}' is planned each time that it is executed");
            Report::error(NOT_SUPPORTED, message).with_hint("EXPLAIN SELECT ..., with the values")
        })?;
        Ok(Answer::Rows(Rows::ready(plan_rows(&text, false), "EXPLAIN", &self.session)?))
    }

    /// The columns of the rows of a statement that was prepared; `None` if it gives none.
    pub(super) fn columns_of_executed(
        &mut self,
        name: &str,
        formats: &[u16],
    ) -> std::result::Result<Option<Vec<Column>>, Report> {
        let prepared = self.prepared(name)?;
        let nulls = prepared.parameters.iter().map(|kind| Parameter::null(*kind)).collect();
        let wanted = prepared.with_values(nulls)?;
        self.columns_of(wanted.as_ref(), formats)
    }

    /// The numbers of types, as the protocol has them.
    fn types(&mut self, types: &[String]) -> Result<Vec<u32>> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let cast = |(index, kind): (usize, &String)| format!("CAST(${} AS {kind})", index + 1);
        let casts = query(&types.iter().enumerate().map(cast).collect::<Vec<_>>().join(", "))?;
        let kinds = self.session.parameter_types(&casts, &[]);
        Ok(kinds.into_iter().map(|kind| kind_of_parameter(kind).oid()).collect())
    }

    /// The values that EXECUTE gives, as the types of the parameters have them.
    fn values(
        &mut self,
        prepared: &PreparedStatement,
        name: &str,
        query: Option<&Statement>,
    ) -> Result<Vec<Parameter>> {
        let row = match query {
            None => None,
            Some(query) => {
                match self.session.execute(query).map_err(|error| Report::from(error).without_place())? {
                    Reply::Rows(row) => Some(row),
                    _ => return Err(wrong("the values of EXECUTE are constants").into()),
                }
            }
        };
        let given = row.as_ref().map_or(0, RecordBatch::num_columns);
        let kinds = &prepared.parameters;
        if given != kinds.len() {
            let message = format!("'{name}' has {} parameters, but {given} values were given", kinds.len());
            return Err(Report::error(PROTOCOL_VIOLATION, message).into());
        }
        let Some(row) = row else { return Ok(Vec::new()) };
        let texts = columns(&row.schema(), &[]);
        let value = |(index, kind): (usize, &ParameterType)| {
            let mut text = Vec::new();
            let is_there = write_value(&texts[index], row.column(index), 0, &mut text);
            parameter(*kind, false, is_there.then_some(&*text))
                .map_err(|why| Report::error(INVALID_VALUE, format!("${}: {why}", index + 1)))
        };
        Ok(kinds.iter().enumerate().map(value).collect::<std::result::Result<_, _>>()?)
    }
}
