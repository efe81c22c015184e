//! A statement as a client has sent it.

use std::borrow::Cow;
use std::sync::Arc;

use tidemill_service::Role;
use tidemill_sql::{Parameter, Piece, Statement, StatementKind};

use super::change_statement::{ChangeOrInsert, ChangeStatement};
use super::copy::statement::CopyStatement;
use super::cursor_statement::CursorStatement;
use super::insert_statement::InsertStatement;
use super::own_statement::OwnStatement;
use super::prepare_statement::PrepareStatement;
use super::table_statement::TableStatement;
use crate::report::Report;
use crate::sessions::identity::{self, Identity};

/// A statement: of the language, or one that only sessions of PostgreSQL's clients have.
#[derive(Clone, Debug)]
pub(crate) enum ClientStatement {
    Own(OwnStatement),
    Copy(CopyStatement),
    Insert(InsertStatement),
    Change(ChangeStatement),
    Cursor(CursorStatement),
    Prepare(PrepareStatement),
    Table(TableStatement),
    Statement(Box<Statement>),
    /// A query that was prepared, with the values of its parameters.
    Prepared(Arc<Statement>, Arc<[Parameter]>),
    /// `SET LOCAL` of a setting of the language: the statement without `LOCAL`.
    SetLocal(Box<Statement>),
}

/// Whether other sessions may see the text of a statement.
fn is_shown(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Explain { statement, .. } | StatementKind::ExplainWhy(statement) => {
            is_shown(&statement.kind)
        }
        StatementKind::Set { .. } => false,
        kind => !kind.is_definition(),
    }
}

impl ClientStatement {
    /// The role that it needs.
    pub fn needed_role(&self, identity: &Identity) -> Role {
        match self {
            ClientStatement::Own(OwnStatement::User(statement)) => statement.needed_role(identity),
            // What is executed is looked at for itself.
            ClientStatement::Own(_) | ClientStatement::Prepare(_) => Role::Reader,
            // An input of a sink is a definition, which is looked at once it is known to be one.
            ClientStatement::Copy(CopyStatement::In { .. })
            | ClientStatement::Insert(_)
            | ClientStatement::Change(_) => Role::Writer,
            ClientStatement::Table(_) => Role::Owner,
            ClientStatement::Statement(_)
            | ClientStatement::Prepared(..)
            | ClientStatement::SetLocal(_)
            | ClientStatement::Copy(CopyStatement::Out { .. })
            | ClientStatement::Cursor(_) => {
                self.query().map_or(Role::Reader, |query| identity::needed_role(&query.kind))
            }
        }
    }

    /// Whether it waits for nothing but its turn among the queries that are planned and computed. Definitions wait for what they start, and
    /// rows that are pushed wait for room.
    pub fn is_answered_at_once(&self) -> bool {
        match self {
            ClientStatement::Own(own) => !matches!(own, OwnStatement::Commit),
            ClientStatement::Copy(CopyStatement::In { .. })
            | ClientStatement::Insert(_)
            | ClientStatement::Change(_)
            | ClientStatement::Table(_) => false,
            ClientStatement::Statement(statement) => !statement.kind.is_definition(),
            _ => true,
        }
    }

    /// The statement of the language that it executes.
    pub fn query(&self) -> Option<&Statement> {
        match self {
            ClientStatement::Statement(statement) | ClientStatement::SetLocal(statement) => Some(statement),
            ClientStatement::Prepared(query, _) => Some(query),
            ClientStatement::Copy(CopyStatement::Out { query, .. }) => Some(query),
            ClientStatement::Insert(InsertStatement { query, .. }) => Some(query),
            ClientStatement::Cursor(CursorStatement::Declare { query, .. }) => Some(query),
            ClientStatement::Own(_)
            | ClientStatement::Change(_)
            | ClientStatement::Copy(_)
            | ClientStatement::Cursor(_)
            | ClientStatement::Prepare(_)
            | ClientStatement::Table(_) => None,
        }
    }

    /// What other sessions see of it; `None`: nothing, because it is done at once. Of a definition they see the first two words: the
    /// rest may contain passwords.
    pub fn shown(&self) -> Option<Cow<'_, str>> {
        let query = match self {
            ClientStatement::Copy(CopyStatement::In { .. }) => return Some("COPY ... FROM STDIN".into()),
            ClientStatement::Table(TableStatement::Create(..)) => return Some("CREATE TABLE ...".into()),
            ClientStatement::Insert(InsertStatement { source, .. }) => {
                return Some(format!("INSERT INTO {source} ...").into());
            }
            ClientStatement::Change(change) => return Some(change.shown().into()),
            other => other.query()?,
        };
        Some(if is_shown(&query.kind) {
            Cow::Borrowed(&query.text)
        } else {
            query.text.split_whitespace().take(2).chain(["..."]).collect::<Vec<_>>().join(" ").into()
        })
    }

    /// The query, if it can be executed any number of times without anything but its values being different: it calls nothing that
    /// changes a setting, and its plan does not depend on them.
    pub fn repeatable_query(&self) -> Option<&Statement> {
        match self {
            ClientStatement::Statement(statement)
                if matches!(statement.kind, StatementKind::Query(..))
                    && !statement.has_constant_parameters() =>
            {
                statement.setting_calls().is_ok_and(|calls| calls.is_empty()).then_some(statement)
            }
            _ => None,
        }
    }

    /// The same with values in the place of parameters.
    pub fn bind(&self, values: &[Parameter]) -> Result<ClientStatement, Report> {
        let values: Vec<Option<Parameter>> = values.iter().cloned().map(Some).collect();
        let mut bound = self.clone();
        if let ClientStatement::Change(change) = &mut bound {
            *change = change.bind(&values);
        } else if let ClientStatement::Statement(query)
        | ClientStatement::Copy(CopyStatement::Out { query, .. })
        | ClientStatement::Insert(InsertStatement { query, .. })
        | ClientStatement::Cursor(CursorStatement::Declare { query, .. }) = &mut bound
        {
            **query = query.bind(&values).map_err(Report::from)?;
        }
        Ok(bound)
    }

    pub fn read(piece: &Piece) -> Result<ClientStatement, Report> {
        let words = piece.words();
        if let Some(copy) = CopyStatement::read(piece, &words) {
            return copy.map(ClientStatement::Copy);
        }
        if let Some(change) = ChangeStatement::read(piece, &words) {
            return Ok(match change? {
                ChangeOrInsert::Change(change) => ClientStatement::Change(change),
                ChangeOrInsert::Insert(insert) => ClientStatement::Insert(insert),
            });
        }
        if let Some(cursor) = CursorStatement::read(piece, &words) {
            return cursor.map(ClientStatement::Cursor);
        }
        if let Some(table) = TableStatement::read(piece, &words) {
            return table.map(ClientStatement::Table);
        }
        if let Some(prepare) = PrepareStatement::read(piece, &words) {
            return prepare.map(ClientStatement::Prepare);
        }
        match OwnStatement::read(&words) {
            Some(Ok(own)) => Ok(ClientStatement::Own(own)),
            Some(Err(report)) => Err(report),
            None => {
                let is = |at: usize, word: &str| {
                    words.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word))
                };
                let scope = is(0, "SET") && words.len() > 3 && (is(1, "LOCAL") || is(1, "SESSION"));
                let read = if scope { piece.without(1).read() } else { piece.read() };
                let statement = Box::new(read.map_err(|error| Report::of_reading(&error))?);
                Ok(if scope && is(1, "LOCAL") {
                    ClientStatement::SetLocal(statement)
                } else {
                    ClientStatement::Statement(statement)
                })
            }
        }
    }
}
