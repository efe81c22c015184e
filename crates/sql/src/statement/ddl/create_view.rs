//! `CREATE VIEW` and `CREATE MATERIALIZED VIEW`.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Options, StatementKind};

/// `CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name AS query [WITH (...)]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub name: Name,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
    /// The query.
    pub query: Box<ast::Query>,
    /// `WITH (...)`, before `AS` or at the end.
    pub options: Options,
}

/// `CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [PRIMARY KEY (...)] AS query [WITH (...)]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMaterializedView {
    /// Its name.
    pub name: Name,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
    /// The columns that identify its rows; empty if not given.
    pub key: Vec<Name>,
    /// The query.
    pub query: Box<ast::Query>,
    /// `WITH (...)`, before `AS` or at the end.
    pub options: Options,
}

/// Reads what follows `CREATE VIEW`.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the view")?;
    let (query, options) = body(cursor, &name, options)?;
    Ok(StatementKind::CreateView(CreateView { name, or_replace, if_not_exists, query, options }))
}

/// Reads what follows `CREATE MATERIALIZED VIEW`.
pub(crate) fn read_materialized(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the view")?;
    let mut key = Vec::new();
    if cursor.take(&["PRIMARY", "KEY"]) {
        key = cursor.names("the name of a column")?;
    }
    let (query, options) = body(cursor, &name, options)?;
    let view = CreateMaterializedView { name, or_replace, if_not_exists, key, query, options };
    Ok(StatementKind::CreateMaterializedView(view))
}

fn body(
    cursor: &mut Cursor<'_>,
    name: &Name,
    options: Options,
) -> Result<(Box<ast::Query>, Options), TextError> {
    if cursor.peek().token == Token::LParen {
        let error = cursor.unexpected("AS and a query");
        return Err(error
            .with_hint(format!("name the columns in the query: CREATE VIEW {name} AS SELECT a AS b ...")));
    }
    let options = Options::read_before(cursor, options)?;
    cursor.expect("AS")?;
    let query = cursor.query()?;
    cursor.finish("query")?;
    Ok((query, options))
}
