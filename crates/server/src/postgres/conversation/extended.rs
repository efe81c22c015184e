//! Statements in steps: parse, bind, describe, execute.

use std::sync::Arc;

use tidemill_sql::{Parameter, ParameterType, Statement, StatementKind};

use super::answer::Answer;
use super::client_statement::ClientStatement;
use super::cursor_statement::CursorStatement;
use super::limits::check_room;
use super::prepare_statement::PrepareStatement;
use super::prepared::{Portal, PreparedStatement, Progress};
use super::type_query;
use super::{Conversation, Result};
use crate::postgres::pg_catalog;
use crate::postgres::values::{Column, columns, kind_of_parameter, parameter, type_of_parameter};
use crate::postgres::wire::{Bind, Target};
use crate::report::{
    DUPLICATE_CURSOR, DUPLICATE_STATEMENT, INVALID_CURSOR_NAME, INVALID_STATEMENT_NAME, INVALID_VALUE,
    NOT_SUPPORTED, PROGRAM_LIMIT, PROTOCOL_VIOLATION, Report,
};
use crate::text_rows::{PLAN_COLUMN, text_schema};

impl Conversation<'_> {
    pub(super) fn parse(&mut self, name: String, text: &str, types: &[u32]) -> Result<()> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement '{name}' already exists");
            return Err(Report::error(DUPLICATE_STATEMENT, message).into());
        }
        check_room(self.statements.len(), "prepared statements", "DEALLOCATE ALL")?;
        let own_answer = type_query::answering(text);
        let text = own_answer.unwrap_or(text);
        let pieces = tidemill_sql::divide(text, "query").map_err(|error| Report::of_reading(&error))?;
        let wanted = match pieces.as_slice() {
            [] => None,
            [piece] => Some(ClientStatement::read(piece)?),
            [_, more, ..] => {
                let report =
                    Report::of_reading(&more.error("a prepared statement must be a single statement"));
                return Err(report.with_hint("prepare each of them, or send them as a simple query").into());
            }
        };
        if own_answer.is_some() {
            let (parameters, oids) = (vec![type_query::PARAMETER], vec![type_query::PARAMETER_OID]);
            let prepared = PreparedStatement::new(wanted, parameters, oids);
            self.statements.insert(name, Arc::new(prepared));
            return Ok(self.writer.parse_complete()?);
        }
        let prepared = self.prepared_of(wanted, types)?;
        self.statements.insert(name, Arc::new(prepared));
        Ok(self.writer.parse_complete()?)
    }

    /// A statement, prepared for parameters of which some have these types.
    pub(super) fn prepared_of(
        &mut self,
        wanted: Option<ClientStatement>,
        types: &[u32],
    ) -> Result<PreparedStatement> {
        let wanted = wanted.map(|wanted| self.resolved(wanted)).transpose()?;
        let given = types.iter().map(|oid| type_of_parameter(*oid));
        let given = given.collect::<std::result::Result<Vec<_>, _>>();
        let mut given = given.map_err(|why| Report::error(NOT_SUPPORTED, why))?;
        let parameters = match wanted.as_ref().and_then(ClientStatement::query) {
            Some(statement) => {
                if statement.parameters() > usize::from(u16::MAX) {
                    let message = format!("a statement has at most {} parameters", u16::MAX);
                    return Err(Report::error(PROGRAM_LIMIT, message).into());
                }
                if let Some(ClientStatement::Insert(insert)) = &wanted {
                    for (number, kind) in self.types_of_inserted(insert) {
                        given.resize(given.len().max(number), None);
                        given[number - 1].get_or_insert(kind);
                    }
                }
                match self.catalogue_planner(statement, false) {
                    Some(planner) => planner.parameter_types(statement, &given),
                    None => self.session.parameter_types(statement, &given),
                }
            }
            None => match &wanted {
                Some(ClientStatement::Change(statement)) => {
                    if statement.change.parameters() > usize::from(u16::MAX) {
                        let message = format!("a statement has at most {} parameters", u16::MAX);
                        return Err(Report::error(PROGRAM_LIMIT, message).into());
                    }
                    self.session.parameters_of_change(&statement.change, &given)
                }
                _ => Vec::new(),
            },
        };
        let oid = |(index, kind): (usize, &ParameterType)| {
            let given = types.get(index).copied().filter(|oid| type_of_parameter(*oid) == Ok(Some(*kind)));
            given.unwrap_or_else(|| kind_of_parameter(*kind).oid())
        };
        let oids = parameters.iter().enumerate().map(oid).collect();
        let query = Self::repeatable(wanted.as_ref());
        Ok(PreparedStatement::new(wanted, parameters, oids).with_query(query))
    }

    /// The query whose plan is to be kept. PostgreSQL's catalogue is built again for each query.
    fn repeatable(wanted: Option<&ClientStatement>) -> Option<Arc<Statement>> {
        let query = wanted?.repeatable_query()?;
        (!pg_catalog::is_named_in(query)).then(|| Arc::new(query.clone()))
    }

    pub(super) fn prepared(&self, name: &str) -> std::result::Result<Arc<PreparedStatement>, Report> {
        self.statements.get(name).cloned().ok_or_else(|| {
            Report::error(INVALID_STATEMENT_NAME, format!("there is no prepared statement '{name}'"))
        })
    }

    pub(super) fn bind(&mut self, bind: Bind) -> Result<()> {
        let Bind { portal, statement, formats, values, result_formats } = bind;
        let prepared = self.prepared(&statement)?;
        if !portal.is_empty() && self.portals.contains_key(&portal) {
            let message = format!("portal '{portal}' already exists");
            return Err(Report::error(DUPLICATE_CURSOR, message).into());
        }
        check_room(self.portals.len(), "portals", "close some of them")?;
        if values.len() != prepared.parameters.len() {
            let message = format!(
                "the statement has {} parameters, but {} values were given",
                prepared.parameters.len(),
                values.len()
            );
            return Err(Report::error(PROTOCOL_VIOLATION, message).into());
        }
        if formats.len() > 1 && formats.len() != values.len() {
            return Err(Report::error(
                PROTOCOL_VIOLATION,
                "the number of formats is not the number of parameters",
            )
            .into());
        }
        if let Some(format) = formats.iter().chain(&result_formats).find(|format| **format > 1) {
            return Err(Report::error(
                PROTOCOL_VIOLATION,
                format!("format {format} is unknown; 0 is text and 1 is binary"),
            )
            .into());
        }
        let values = bound(&prepared, &formats, &values)?;
        let wanted = prepared.with_values(values)?;
        let portal_of = Portal {
            prepared,
            wanted,
            formats: result_formats,
            columns: None,
            progress: Progress::NotStarted,
        };
        self.portals.insert(portal, portal_of);
        Ok(self.writer.bind_complete()?)
    }

    pub(super) fn describe(&mut self, target: &Target) -> Result<()> {
        match target {
            Target::Statement(name) => {
                let prepared = self.prepared(name)?;
                let columns = self.columns_of_executed(name, &[])?;
                if let Some(columns) = &columns {
                    prepared.tell(columns);
                }
                self.writer.parameter_types(&prepared.oids)?;
                self.write_columns(columns.as_deref())
            }
            Target::Portal(name) => {
                let Some(portal) = self.portals.get(name) else {
                    // DECLARE makes a portal, too.
                    let columns = self.columns_of_cursor(name, &[]).map_err(|_| no_portal(name))?;
                    return self.write_columns(Some(&columns));
                };
                let (wanted, formats) = (portal.wanted.clone(), portal.formats.clone());
                let columns = match &portal.columns {
                    Some(columns) => Some(columns.clone()),
                    None => self.columns_of(wanted.as_ref(), &formats)?,
                };
                if let Some(portal) = self.portals.get_mut(name) {
                    portal.columns = columns.clone();
                }
                self.write_columns(columns.as_deref())
            }
        }
    }

    fn write_columns(&mut self, columns: Option<&[Column]>) -> Result<()> {
        match columns {
            Some(columns) => self.writer.columns(columns)?,
            None => self.writer.no_data()?,
        }
        Ok(())
    }

    /// The columns of the rows of a query whose plan is kept.
    fn columns_of_query(
        &mut self,
        query: &Statement,
        kinds: &[ParameterType],
        formats: &[u16],
    ) -> std::result::Result<Option<Vec<Column>>, Report> {
        let schema = self.session.columns_with(query, kinds).map_err(Report::from)?;
        Ok(schema.map(|schema| columns(&schema, formats)))
    }

    /// The columns of a statement's rows; `None` if it gives none.
    pub(super) fn columns_of(
        &mut self,
        wanted: Option<&ClientStatement>,
        formats: &[u16],
    ) -> std::result::Result<Option<Vec<Column>>, Report> {
        match wanted {
            None
            | Some(
                ClientStatement::Copy(_)
                | ClientStatement::Insert(_)
                | ClientStatement::SetLocal(_)
                | ClientStatement::Table(_),
            ) => Ok(None),
            Some(ClientStatement::Change(statement)) => {
                let schema = self.session.columns_of_change(&statement.change).map_err(Report::from)?;
                Ok(schema.map(|schema| columns(&schema, formats)))
            }
            Some(ClientStatement::Cursor(CursorStatement::Fetch { name, is_move: false, .. })) => {
                self.columns_of_cursor(name, formats).map(Some)
            }
            Some(ClientStatement::Cursor(_) | ClientStatement::Prepare(PrepareStatement::Prepare { .. })) => {
                Ok(None)
            }
            Some(ClientStatement::Prepare(PrepareStatement::Execute { is_explained: true, .. })) => {
                Ok(Some(columns(&text_schema(&[PLAN_COLUMN]), formats)))
            }
            Some(ClientStatement::Prepare(PrepareStatement::Execute { name, .. })) => {
                self.columns_of_executed(name, formats)
            }
            Some(ClientStatement::Prepared(query, values)) => {
                let kinds: Vec<ParameterType> = values.iter().map(|value| value.kind).collect();
                self.columns_of_query(query, &kinds, formats)
            }
            Some(ClientStatement::Own(own)) => {
                let names = own.columns();
                Ok(names.map(|names| columns(&text_schema(&names), formats)))
            }
            Some(ClientStatement::Statement(statement))
                if matches!(
                    statement.kind,
                    StatementKind::Explain { analyze: false, .. } | StatementKind::ExplainOutput(_)
                ) =>
            {
                Ok(Some(columns(&text_schema(&[PLAN_COLUMN]), formats)))
            }
            Some(ClientStatement::Statement(statement)) => {
                let schema = match self.catalogue_planner(statement, false) {
                    Some(mut planner) => planner.columns(statement).map_err(Report::from)?,
                    None => self.session.columns(statement).map_err(Report::from)?,
                };
                Ok(schema.map(|schema| columns(&schema, formats)))
            }
        }
    }

    pub(super) fn execute_portal(&mut self, name: &str, rows_max: usize) -> Result<()> {
        let Some(mut portal) = self.portals.remove(name) else {
            return self.execute_cursor(name, rows_max).unwrap_or_else(|| Err(no_portal(name).into()));
        };
        let executed = self.execute_taken(&mut portal, rows_max);
        if executed.is_ok() {
            self.portals.insert(name.to_owned(), portal);
        }
        executed
    }

    fn execute_taken(&mut self, portal: &mut Portal, rows_max: usize) -> Result<()> {
        let Some(wanted) = &portal.wanted else { return Ok(self.writer.empty_query()?) };
        if let Progress::NotStarted = portal.progress {
            match self.execute(wanted)? {
                Answer::Done(tag) => {
                    portal.progress = Progress::Done;
                    return Ok(self.writer.complete(&tag)?);
                }
                Answer::Fetch(mut fetch) => {
                    fetch.columns = match &portal.columns {
                        Some(columns) => columns.clone(),
                        None => self.columns_of_cursor(&fetch.name, &portal.formats)?,
                    };
                    portal.progress = Progress::Done;
                    return self.fetch(fetch, true);
                }
                Answer::Rows(mut rows) => {
                    let known = rows.schema().map(|schema| columns(schema, &portal.formats));
                    if known.is_some_and(|columns| !portal.prepared.has_columns(&columns)) {
                        return Err(other_columns().into());
                    }
                    match &portal.columns {
                        Some(columns) => rows.set_columns(columns.clone()),
                        None => {
                            let columns = rows.columns(&portal.formats)?.to_vec();
                            rows.set_columns(columns);
                        }
                    }
                    portal.progress = Progress::Rows(Box::new(rows));
                }
            }
        }
        match &mut portal.progress {
            Progress::Rows(rows) => {
                self.write_rows(rows, rows_max)?;
                if rows_max > 0 && !rows.is_over() {
                    return Ok(self.writer.suspended()?);
                }
                let tag = rows.tag();
                rows.restart_count();
                Ok(self.writer.complete(&tag)?)
            }
            Progress::NotStarted | Progress::Done => {
                let report = Report::error("55000", "the portal was already executed");
                Err(report.with_hint("bind the statement again").into())
            }
        }
    }

    pub(super) fn close(&mut self, target: &Target) -> Result<()> {
        match target {
            Target::Statement(name) => drop(self.statements.remove(name)),
            Target::Portal(name) => {
                drop(self.portals.remove(name));
                drop(self.cursors.remove(name));
            }
        }
        Ok(self.writer.close_complete()?)
    }
}

/// In PostgreSQL's words, by which drivers know that they should prepare the statement again.
fn other_columns() -> Report {
    let report = Report::error(NOT_SUPPORTED, "cached plan must not change result type");
    report.with_hint("what the statement reads was defined again with other columns; prepare it again")
}

fn no_portal(name: &str) -> Report {
    Report::error(INVALID_CURSOR_NAME, format!("there is no portal '{name}'"))
}

/// The values as the types of their parameters have them.
fn bound(
    prepared: &PreparedStatement,
    formats: &[u16],
    values: &[Option<Vec<u8>>],
) -> std::result::Result<Vec<Parameter>, Report> {
    let is_binary = |index: usize| match formats {
        [] => false,
        [all] => *all == 1,
        each => each[index] == 1,
    };
    let values = values.iter().zip(&prepared.parameters).enumerate();
    let value = |(index, (value, kind)): (usize, (&Option<Vec<u8>>, &tidemill_sql::ParameterType))| {
        let read = parameter(*kind, is_binary(index), value.as_deref());
        read.map_err(|why| Report::error(INVALID_VALUE, format!("${}: {why}", index + 1)))
    };
    values.map(value).collect()
}
