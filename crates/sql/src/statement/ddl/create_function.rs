//! `CREATE FUNCTION` and `CREATE AGGREGATE`.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::{Span as TokenSpan, Token, TokenWithSpan};

use super::typed_name::{TypedName, columns, data_type, typed_names};
use super::{body_text, function_code};
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::parser::{row_counts, tokens};
use crate::statement::{FunctionCode, Name, Options, StatementKind};
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
    /// Whether it is an aggregate: one value for the rows of a group.
    pub is_aggregate: bool,
    /// The rows that it is called with, if it takes any.
    pub input: Option<InputRows>,
    /// What it is called with; behind its rows, if it takes any.
    pub parameters: Vec<TypedName>,
    /// What a call gives.
    pub result: FunctionResult,
    /// How the result is computed, with the places of the definition.
    pub body: FunctionBody,
    /// The body without places, for calls: an error in another text must not point into this one. That of code is `body`.
    pub(crate) unplaced: FunctionBody,
}

/// `name TABLE (column type, ...)` as the first parameter, and `PARTITION BY column, ...` behind the result: rows that a
/// function takes, with a state for each key.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRows {
    /// The name of the parameter.
    pub name: Name,
    /// The columns that the rows must have.
    pub columns: Vec<TypedName>,
    /// The columns whose values are the key; none: all rows share a state.
    pub key: Vec<Name>,
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
    Code(Box<FunctionCode>),
}

impl FunctionResult {
    /// The declared types, with their places.
    pub(crate) fn types(&self) -> Vec<(&ast::DataType, Span)> {
        match self {
            FunctionResult::Value((data_type, span)) => vec![(data_type, *span)],
            FunctionResult::Rows(columns) => {
                columns.iter().map(|column| (&column.data_type, column.type_span)).collect()
            }
        }
    }
}

/// Reads what follows `CREATE FUNCTION`.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let mut head = Head::read(cursor, or_replace, "the name of the function")?;
    let is_code = function_code::is_next(cursor);
    match (&head.result, &mut head.input) {
        (FunctionResult::Rows(_), Some(input)) if is_code => input.key = partition_by(cursor, input)?,
        (FunctionResult::Rows(columns), None) if is_code => {
            let message = "code that is loaded gives a value for values, and rows for rows";
            let error = TextError::new(cursor.script(), columns[0].name.span, message);
            return Err(error.with_hint(
                "write name (input TABLE (column type, ...)) for a function of rows, or define it in SQL",
            ));
        }
        (_, Some(input)) => {
            let message = "a function that takes rows gives rows, and its code is loaded";
            let error = TextError::new(cursor.script(), input.name.span, message);
            return Err(error.with_hint(
                "write RETURNS TABLE (column type, ...) and LANGUAGE wasm; a function in SQL can name the table itself",
            ));
        }
        _ => {}
    }
    if is_code {
        let state = match head.input {
            Some(_) => state(cursor)?,
            None => Vec::new(),
        };
        let code = function_code::read(cursor, options)?;
        return Ok(head.with_code(FunctionCode { state, ..code }));
    }
    let (tokens, place) = body_tokens(cursor)?;
    let without_places =
        tokens.iter().map(|token| TokenWithSpan::new(token.token.clone(), TokenSpan::empty())).collect();
    let body = body(cursor.script(), tokens, place, &head.result)?;
    options.refuse("a function in SQL")?;
    let unplaced = body_of(cursor.script(), without_places, place, &head.result)?;
    Ok(head.with_bodies(body, unplaced))
}

/// Reads what follows `CREATE AGGREGATE`.
pub(crate) fn read_aggregate(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let mut head = Head::read(cursor, or_replace, "the name of the aggregate")?;
    head.is_aggregate = true;
    let refused = match (&head.result, &head.input) {
        (FunctionResult::Rows(columns), _) => Some((columns[0].name.span, "an aggregate gives a value")),
        (_, Some(input)) => Some((input.name.span, "an aggregate takes values, not rows")),
        _ if head.parameters.is_empty() => Some((head.name.span, "an aggregate has at least one parameter")),
        _ => None,
    };
    if let Some((place, message)) = refused {
        let hint = "write CREATE AGGREGATE name (parameter type) RETURNS type STATE (column type) \
                    LANGUAGE wasm AS 'file'";
        return Err(TextError::new(cursor.script(), place, message).with_hint(hint));
    }
    if !function_code::is_next(cursor) {
        return Err(cursor
            .unexpected("STATE (column type, ...) and LANGUAGE wasm: the code of an aggregate is loaded"));
    }
    let state = state(cursor)?;
    let code = function_code::read(cursor, options)?;
    Ok(head.with_code(FunctionCode { state, ..code }))
}

/// What a function is called, what it takes and what it gives.
struct Head {
    name: Name,
    or_replace: bool,
    if_not_exists: bool,
    is_aggregate: bool,
    input: Option<InputRows>,
    parameters: Vec<TypedName>,
    result: FunctionResult,
}

impl Head {
    /// Reads `[IF NOT EXISTS] name (parameter type, ...) RETURNS type`.
    fn read(cursor: &mut Cursor<'_>, or_replace: bool, what: &str) -> Result<Head, TextError> {
        let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
        let name = cursor.relation_name(what)?;
        let (input, parameters) = parameters(cursor)?;
        cursor.expect("RETURNS")?;
        let result = if cursor.take(&["TABLE"]) {
            FunctionResult::Rows(columns(cursor)?)
        } else {
            FunctionResult::Value(data_type(cursor)?)
        };
        Ok(Head { name, or_replace, if_not_exists, is_aggregate: false, input, parameters, result })
    }

    fn with_code(self, code: FunctionCode) -> StatementKind {
        let code = FunctionBody::Code(Box::new(code));
        self.with_bodies(code.clone(), code)
    }

    fn with_bodies(self, body: FunctionBody, unplaced: FunctionBody) -> StatementKind {
        let Head { name, or_replace, if_not_exists, is_aggregate, input, parameters, result } = self;
        StatementKind::CreateFunction(Box::new(CreateFunction {
            name,
            or_replace,
            if_not_exists,
            is_aggregate,
            input,
            parameters,
            result,
            body,
            unplaced,
        }))
    }
}

/// Reads `PARTITION BY column, ...`, if it is there.
fn partition_by(cursor: &mut Cursor<'_>, input: &InputRows) -> Result<Vec<Name>, TextError> {
    let mut key: Vec<Name> = Vec::new();
    if !cursor.take(&["PARTITION", "BY"]) {
        return Ok(key);
    }
    loop {
        let column = cursor.name("the name of a column")?;
        if !input.columns.iter().any(|known| known.name == column) {
            let names: Vec<&str> = input.columns.iter().map(|column| column.name.as_str()).collect();
            let message = format!("`{}` has no column `{}`", input.name.value, column.value);
            let error = TextError::new(cursor.script(), column.span, message);
            return Err(error.with_hint(format!("it has {}", names.join(", "))));
        }
        if key.contains(&column) {
            let message = format!("`{}` occurs twice", column.value);
            return Err(TextError::new(cursor.script(), column.span, message).with_hint("remove one of them"));
        }
        key.push(column);
        if !cursor.take_symbol(&Token::Comma) {
            return Ok(key);
        }
    }
}

/// Reads `STATE (column type, ...)`.
fn state(cursor: &mut Cursor<'_>) -> Result<Vec<TypedName>, TextError> {
    if !cursor.take(&["STATE"]) {
        return Err(cursor.unexpected("STATE (column type, ...): what is kept for each group or key"));
    }
    columns(cursor)
}

/// Reads `([input TABLE (column type, ...),] parameter type, ...)`.
fn parameters(cursor: &mut Cursor<'_>) -> Result<(Option<InputRows>, Vec<TypedName>), TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    if cursor.take_symbol(&Token::RParen) {
        return Ok((None, Vec::new()));
    }
    let input = input_rows(cursor)?;
    if input.is_some() && !cursor.take_symbol(&Token::Comma) {
        cursor.expect_symbol(&Token::RParen)?;
        return Ok((input, Vec::new()));
    }
    let parameters = typed_names(cursor, "parameter")?;
    match parameters.get(PARAMETERS_MAX) {
        Some(over) => {
            let message = format!("a function has at most {PARAMETERS_MAX} parameters");
            Err(TextError::new(cursor.script(), over.name.span, message)
                .with_hint("divide it into several functions"))
        }
        None => Ok((input, parameters)),
    }
}

/// Reads `name TABLE (column type, ...)`, if it is there.
fn input_rows(cursor: &mut Cursor<'_>) -> Result<Option<InputRows>, TextError> {
    if !cursor.sees_second("TABLE") {
        return Ok(None);
    }
    let name = cursor.name("the name of a parameter")?;
    cursor.expect("TABLE")?;
    Ok(Some(InputRows { name, columns: columns(cursor)?, key: Vec::new() }))
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
    if cursor.take(&["SQL"]) { Ok(true) } else { Err(cursor.unexpected("`SQL` or `wasm`")) }
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
