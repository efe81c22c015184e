//! `CREATE PROCESS`.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::create_places::{PlaceName, place};
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, StatementKind};

/// `CREATE [OR REPLACE] PROCESS [IF NOT EXISTS] name [FOR parameters IN set] [AT | PREFER places] AS query`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateProcess {
    /// Its name.
    pub name: Name,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
    /// For a set of processes: the names of the parameters, and their values.
    pub parameters: Option<(Vec<Name>, ParameterSet)>,
    /// Where it runs, in order of preference; empty: anywhere.
    pub places: Vec<PlaceStep>,
    /// Whether it may run nowhere else.
    pub required: bool,
    /// The query.
    pub query: Box<ast::Query>,
}

/// A set of parameters as written.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterSet {
    /// `(SELECT ...)`: one process for each row.
    Query(Box<ast::Query>),
    /// `(1, 2, 3)`, or an array: one process for each value.
    Values(Box<ast::Expr>),
}

/// A step of an allocation sequence as written.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaceStep {
    /// A place, or any place of a group.
    At(PlaceName),
    /// `NEXT OF group`
    NextOf(Name),
    /// `EACH OF group`
    EachOf(Name),
}

/// Reads what follows `CREATE PROCESS`.
pub(crate) fn read(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the process")?;
    let parameters = if cursor.take(&["FOR"]) { Some(parameters(cursor)?) } else { None };
    let required = cursor.take(&["AT"]);
    let places = if required || cursor.take(&["PREFER"]) { steps(cursor)? } else { Vec::new() };
    if !cursor.take(&["AS"]) {
        return Err(cursor.unexpected("FOR, AT, PREFER or AS and a query"));
    }
    let query = cursor.query()?;
    cursor.finish("query")?;
    let process = CreateProcess { name, or_replace, if_not_exists, parameters, places, required, query };
    Ok(StatementKind::CreateProcess(process))
}

fn parameters(cursor: &mut Cursor<'_>) -> Result<(Vec<Name>, ParameterSet), TextError> {
    let what = "the name of a parameter";
    let names = match cursor.peek().token {
        Token::LParen => cursor.names(what)?,
        _ => vec![cursor.name(what)?],
    };
    cursor.expect("IN")?;
    if cursor.sees_query_in_parentheses() {
        cursor.expect_symbol(&Token::LParen)?;
        let query = cursor.query()?;
        cursor.expect_symbol(&Token::RParen)?;
        return Ok((names, ParameterSet::Query(query)));
    }
    Ok((names, ParameterSet::Values(Box::new(cursor.expression()?))))
}

fn steps(cursor: &mut Cursor<'_>) -> Result<Vec<PlaceStep>, TextError> {
    let mut steps = vec![step(cursor)?];
    while cursor.take_symbol(&Token::Comma) {
        steps.push(step(cursor)?);
    }
    Ok(steps)
}

fn step(cursor: &mut Cursor<'_>) -> Result<PlaceStep, TextError> {
    let what = "the name of places";
    if cursor.take(&["NEXT", "OF"]) {
        return Ok(PlaceStep::NextOf(cursor.relation_name(what)?));
    }
    if cursor.take(&["EACH", "OF"]) {
        return Ok(PlaceStep::EachOf(cursor.relation_name(what)?));
    }
    Ok(PlaceStep::At(place(cursor)?))
}
