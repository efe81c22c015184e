//! `CREATE SINK`.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Options, StatementKind};

/// `CREATE [OR REPLACE] SINK [IF NOT EXISTS] name [FROM relation | FROM (query) | AS query] WITH (...)`; the
/// options may also stand before `FROM` or `AS`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSink {
    /// Its name.
    pub name: Name,
    /// Its input; `None` if `INSERT INTO` provides it.
    pub input: Option<SinkInput>,
    /// The target of the rows, and how they are written.
    pub options: Options,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
}

/// The input of a sink.
#[derive(Clone, Debug, PartialEq)]
pub enum SinkInput {
    /// The rows of a source or view.
    Relation(Name),
    /// The rows of a query.
    Query(Box<ast::Query>),
}

/// Reads what follows `CREATE SINK`.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the sink")?;
    let options = Options::read_before(cursor, options)?;
    let (input, options) = input(cursor, options)?;
    Ok(StatementKind::CreateSink(CreateSink { name, input, options, or_replace, if_not_exists }))
}

fn input(cursor: &mut Cursor<'_>, options: Options) -> Result<(Option<SinkInput>, Options), TextError> {
    if cursor.take(&["AS"]) {
        let query = cursor.query()?;
        cursor.finish("query")?;
        return Ok((Some(SinkInput::Query(query)), options));
    }
    if !cursor.take(&["FROM"]) {
        cursor.finish("CREATE SINK statement")?;
        return Ok((None, options));
    }
    let input = if cursor.peek().token == Token::LParen {
        SinkInput::Query(cursor.query()?)
    } else {
        SinkInput::Relation(cursor.relation_name("the name of a source or view, or a query in parentheses")?)
    };
    let options = Options::read_before(cursor, options)?;
    cursor.finish("CREATE SINK statement")?;
    Ok((Some(input), options))
}
