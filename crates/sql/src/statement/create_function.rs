//! `CREATE FUNCTION`.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::{Span as TokenSpan, Token, TokenWithSpan};

use super::cursor::Cursor;
use super::{FunctionCode, Name, Options, StatementKind, body_text, function_code, row_counts, tokens};
use crate::TextError;
use crate::text::{Script, Span};

/// How many parameters a function has at most.
const PARAMETERS_MAX: usize = 100;

/// `CREATE FUNCTION name (parameter type, ...) RETURNS type AS 'expression'`, or `LANGUAGE wasm AS 'file'`.
///
/// ```
/// use tidemill_sql::{FunctionResult, StatementKind, parse};
///
/// let text = "CREATE FUNCTION mph(kmh DOUBLE) RETURNS DOUBLE AS 'kmh / 1.609344'";
/// let StatementKind::CreateFunction(create) = parse(text, "example")?.remove(0).kind else { panic!() };
/// assert_eq!((create.name.as_str(), create.parameters.len()), ("mph", 1));
/// assert!(matches!(create.result, FunctionResult::Value(_)));
/// # Ok::<(), tidemill_sql::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// Its name.
    pub name: Name,
    /// Whether it takes the place of a function of the same name.
    pub or_replace: bool,
    /// Whether an existing function stays.
    pub if_not_exists: bool,
    /// What it is called with.
    pub parameters: Vec<TypedName>,
    /// What a call gives.
    pub result: FunctionResult,
    /// How the result is computed, with the places of the definition.
    pub body: FunctionBody,
    /// The body without places, for calls: an error in another text must not point into this one. That of code is `body`.
    pub(crate) unplaced: FunctionBody,
}

/// A parameter of a function, or a column of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedName {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub data_type: ast::DataType,
    /// Where the type is written.
    pub type_span: Span,
}

/// What a call of a function gives.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionResult {
    /// `RETURNS type`: one value of a type that is written at a place.
    Value((ast::DataType, Span)),
    /// `RETURNS TABLE (column type, ...)`: rows.
    Rows(Vec<TypedName>),
}

/// How a function computes its result.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionBody {
    /// An expression over the parameters.
    Expression(Box<ast::Expr>),
    /// A query that may name the parameters.
    Query(Box<ast::Query>),
    /// Code that is loaded.
    Code(FunctionCode),
}

impl FunctionResult {
    /// The declared types, with their places.
    pub(super) fn types(&self) -> Vec<(&ast::DataType, Span)> {
        match self {
            FunctionResult::Value((data_type, span)) => vec![(data_type, *span)],
            FunctionResult::Rows(columns) => {
                columns.iter().map(|column| (&column.data_type, column.type_span)).collect()
            }
        }
    }
}

/// Reads what follows `CREATE FUNCTION`.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the function")?;
    let parameters = parameters(cursor)?;
    cursor.expect("RETURNS")?;
    let result = match cursor.take(&["TABLE"]) {
        true => FunctionResult::Rows(columns(cursor)?),
        false => FunctionResult::Value(data_type(cursor)?),
    };
    let (body, unplaced) = match function_code::is_next(cursor) {
        true => {
            if let FunctionResult::Rows(columns) = &result {
                let message = "code that is loaded gives a value, not rows";
                let error = TextError::new(cursor.script(), columns[0].name.span, message);
                return Err(error.with_hint("write RETURNS type, or define the function of rows in SQL"));
            }
            let code = FunctionBody::Code(function_code::read(cursor, options)?);
            (code.clone(), code)
        }
        false => {
            let (tokens, place) = body_tokens(cursor)?;
            let without_places = tokens
                .iter()
                .map(|token| TokenWithSpan::new(token.token.clone(), TokenSpan::empty()))
                .collect();
            let body = body(cursor.script(), tokens, place, &result)?;
            options.refuse("a function in SQL")?;
            (body, body_of(cursor.script(), without_places, place, &result)?)
        }
    };
    let create = CreateFunction { name, or_replace, if_not_exists, parameters, result, body, unplaced };
    Ok(StatementKind::CreateFunction(Box::new(create)))
}

fn parameters(cursor: &mut Cursor<'_>) -> Result<Vec<TypedName>, TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    if cursor.take_symbol(&Token::RParen) {
        return Ok(Vec::new());
    }
    let parameters = typed_names(cursor, "parameter")?;
    match parameters.get(PARAMETERS_MAX) {
        Some(over) => {
            let message = format!("a function has at most {PARAMETERS_MAX} parameters");
            Err(TextError::new(cursor.script(), over.name.span, message)
                .with_hint("divide it into several functions"))
        }
        None => Ok(parameters),
    }
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<TypedName>, TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    typed_names(cursor, "column")
}

/// Reads `name type, ...)`.
fn typed_names(cursor: &mut Cursor<'_>, what: &str) -> Result<Vec<TypedName>, TextError> {
    let mut typed: Vec<TypedName> = Vec::new();
    loop {
        let name = cursor.name(&format!("the name of a {what}"))?;
        if typed.iter().any(|other| other.name == name) {
            let message = format!("two {what}s have the name `{name}`");
            return Err(TextError::new(cursor.script(), name.span, message).with_hint("rename one of them"));
        }
        let (data_type, type_span) = data_type(cursor)?;
        typed.push(TypedName { name, data_type, type_span });
        if !cursor.take_symbol(&Token::Comma) {
            break;
        }
    }
    if cursor.take_symbol(&Token::RParen) { Ok(typed) } else { Err(cursor.unexpected("`,` or `)`")) }
}

fn data_type(cursor: &mut Cursor<'_>) -> Result<(ast::DataType, Span), TextError> {
    let first = cursor.here();
    let data_type = cursor.data_type()?;
    Ok((data_type, cursor.since(first)))
}

/// The tokens of the body, with their places in the script, and the place of the whole body.
fn body_tokens(cursor: &mut Cursor<'_>) -> Result<(Vec<TokenWithSpan>, Span), TextError> {
    let language_is_known = language(cursor)?;
    if cursor.take(&["RETURN"]) {
        let first = cursor.here();
        let tokens = cursor.rest();
        return Ok((tokens, cursor.since(first)));
    }
    if !cursor.take(&["AS"]) {
        return Err(cursor.unexpected("AS and the text of the function, or RETURN and an expression"));
    }
    let (place, quoted) = (cursor.here(), cursor.peek().clone());
    let mut tokens = body_text::tokens(cursor.script(), &quoted)?
        .ok_or_else(|| cursor.unexpected("the text of the function in '...' or $$...$$"))?;
    cursor.advance();
    if !language_is_known {
        language(cursor)?;
    }
    cursor.finish("function")?;
    row_counts::as_calls(&mut tokens);
    Ok((tokens, place))
}

/// Reads `LANGUAGE SQL`.
fn language(cursor: &mut Cursor<'_>) -> Result<bool, TextError> {
    if !cursor.take(&["LANGUAGE"]) {
        return Ok(false);
    }
    match cursor.take(&["SQL"]) {
        true => Ok(true),
        false => Err(cursor.unexpected("`SQL` or `wasm`")),
    }
}

fn body(
    script: &Arc<Script>,
    tokens: Vec<TokenWithSpan>,
    place: Span,
    result: &FunctionResult,
) -> Result<FunctionBody, TextError> {
    if let Some(refused) = tokens::refused(script, &tokens, place) {
        return Err(refused);
    }
    body_of(script, tokens, place, result)
}

fn body_of(
    script: &Arc<Script>,
    tokens: Vec<TokenWithSpan>,
    place: Span,
    result: &FunctionResult,
) -> Result<FunctionBody, TextError> {
    let end = Span { start: place.end, end: place.end };
    let mut cursor = Cursor::new(script, tokens, end);
    let read = match result {
        FunctionResult::Rows(_) => FunctionBody::Query(cursor.query()?),
        FunctionResult::Value(_) if ["SELECT", "WITH", "FROM"].iter().any(|word| cursor.sees(&[word])) => {
            let error = cursor.unexpected("an expression over the parameters");
            return Err(error.with_hint(
                "write the expression alone, or RETURNS TABLE (column type, ...) for a function of rows",
            ));
        }
        FunctionResult::Value(_) => FunctionBody::Expression(Box::new(cursor.expression()?)),
    };
    cursor.finish("function")?;
    Ok(read)
}
