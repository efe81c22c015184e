//! Prepared statements and portals.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_sql::{Parameter, ParameterType, Statement};

use super::answer::Rows;
use super::client_statement::ClientStatement;
use crate::postgres::values::Column;
use crate::report::Report;

/// A statement that was read once, to be executed any number of times. `None`: an empty text.
pub(super) struct PreparedStatement {
    pub wanted: Option<ClientStatement>,
    /// The query, if it is one over relations of the language alone: its plan is kept for other values.
    pub query: Option<Arc<Statement>>,
    pub parameters: Vec<ParameterType>,
    /// The numbers of their types: those that the client has given, which it wants to hear again.
    pub oids: Vec<u32>,
    /// As the client was told before any values were there.
    told: Mutex<Option<Vec<Column>>>,
}

impl PreparedStatement {
    pub fn new(
        wanted: Option<ClientStatement>,
        parameters: Vec<ParameterType>,
        oids: Vec<u32>,
    ) -> PreparedStatement {
        PreparedStatement { wanted, query: None, parameters, oids, told: Mutex::default() }
    }

    /// With the query whose plan is kept.
    pub fn with_query(self, query: Option<Arc<Statement>>) -> PreparedStatement {
        PreparedStatement { query, ..self }
    }

    /// Whether rows have the columns that the client was told, if it was. It reads them as such.
    pub fn has_columns(&self, columns: &[Column]) -> bool {
        // An expression is called by its parameters' values.
        let is_expression =
            |name: &str| name == "NULL" || !name.chars().all(|char| char.is_alphanumeric() || char == '_');
        let is_same = |(told, now): (&Column, &Column)| {
            told.kind == now.kind && (told.name == now.name || is_expression(&told.name))
        };
        self.told()
            .as_ref()
            .is_none_or(|told| told.len() == columns.len() && told.iter().zip(columns).all(is_same))
    }

    /// Notes the columns that were described to the client.
    pub fn tell(&self, columns: &[Column]) {
        *self.told() = Some(columns.to_vec());
    }

    fn told(&self) -> MutexGuard<'_, Option<Vec<Column>>> {
        self.told.lock()
    }

    /// The statement with values for its parameters; `None`: an empty text.
    pub fn with_values(&self, values: Vec<Parameter>) -> Result<Option<ClientStatement>, Report> {
        match &self.query {
            Some(query) => Ok(Some(ClientStatement::Prepared(Arc::clone(query), values.into()))),
            None => self.wanted.as_ref().map(|wanted| wanted.bind(&values)).transpose(),
        }
    }
}

/// A prepared statement with its values.
pub(super) struct Portal {
    pub prepared: Arc<PreparedStatement>,
    pub wanted: Option<ClientStatement>,
    /// Of the results.
    pub formats: Vec<u16>,
    /// As the client was told.
    pub columns: Option<Vec<Column>>,
    pub progress: Progress,
}

/// How far a portal is.
pub(super) enum Progress {
    NotStarted,
    Rows(Box<Rows>),
    Done,
}
