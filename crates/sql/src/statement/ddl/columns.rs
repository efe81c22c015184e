//! The columns of a source or table, its watermark and its key.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Span};
use crate::text::duration::interval_ns;
use crate::{TextError, closest};

/// A column of a source or table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: Name,
    /// Its type; `None` for a computed column, whose type is that of its expression.
    pub data_type: Option<ast::DataType>,
    /// The place of the type; of the name if there is none.
    pub type_span: Span,
    /// Rows without a value are refused.
    pub not_null: bool,
    /// `DEFAULT`: what a row of a table gets that has no value for it.
    pub default: Option<ast::Expr>,
    /// Computed from the other columns instead of read: `event_time AS to_timestamp_seconds(time)`. `NOT NULL` comes
    /// before `AS`; behind it, it would be part of the expression.
    pub computed: Option<ast::Expr>,
    /// The place of the whole column.
    pub span: Span,
}

/// `WATERMARK FOR column AS column - delay`: a row comes at most `delay_ns` after rows with later times.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    /// The column of event times.
    pub column: Name,
    /// How late a row may come, in nanoseconds; 0 or more.
    pub delay_ns: i64,
    /// Its place.
    pub span: Span,
}

/// The contents of the parentheses after the name of a source or table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The columns; empty if they are to be inferred from the data.
    pub columns: Vec<Column>,
    /// `WATERMARK FOR ...`.
    pub watermark: Option<Watermark>,
    /// `PRIMARY KEY`: the columns that identify rows; empty if not given.
    pub key: Vec<Name>,
}

/// Reads `( ... )` if it comes next.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Columns, TextError> {
    let mut read = Columns::default();
    if !cursor.take_symbol(&Token::LParen) {
        return Ok(read);
    }
    loop {
        // `WATERMARK ts AS ts` would be a computed column of type `ts`.
        if cursor.sees(&["WATERMARK", "FOR"]) || (cursor.sees(&["WATERMARK"]) && cursor.sees_third("AS")) {
            watermark(cursor, &mut read)?;
        } else if cursor.sees(&["PRIMARY", "KEY"]) {
            key(cursor, &mut read)?;
        } else {
            column(cursor, &mut read)?;
        }
        if cursor.take_symbol(&Token::Comma) {
            continue;
        }
        if cursor.take_symbol(&Token::RParen) {
            break;
        }
        return Err(cursor.unexpected("`,` or `)`"));
    }
    check(cursor, &read)?;
    Ok(read)
}

/// The most characters of a text of a type, `VARCHAR(20)`; `None` if it says nothing of that. Blanks are not added to those of a `CHAR(20)`.
pub(crate) fn text_length(data_type: &ast::DataType) -> Option<u64> {
    use ast::DataType as T;
    match data_type {
        T::Varchar(Some(length))
        | T::CharacterVarying(Some(length))
        | T::CharVarying(Some(length))
        | T::Char(Some(length))
        | T::Character(Some(length)) => match length {
            ast::CharacterLength::IntegerLength {
                length,
                unit: None | Some(ast::CharLengthUnits::Characters),
            } => Some(*length),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn column(cursor: &mut Cursor<'_>, read: &mut Columns) -> Result<(), TextError> {
    let first = cursor.here();
    let name = cursor.name("the name of a column")?;
    if read.columns.iter().any(|column| column.name == name) {
        return Err(TextError::new(cursor.script(), name.span, format!("a second column `{name}`")));
    }
    let (mut data_type, mut type_span) = (None, name.span);
    if !cursor.sees(&["AS"]) {
        let start = cursor.here();
        if cursor.peek().token == Token::Comma || cursor.peek().token == Token::RParen {
            let error = cursor.unexpected(&format!("the type of column `{name}`"));
            return Err(
                error.with_hint("remove the whole list of columns to have the types inferred from the data")
            );
        }
        data_type = Some(cursor.data_type()?);
        type_span = cursor.since(start);
    }
    let mut column =
        Column { name, data_type, type_span, not_null: false, default: None, computed: None, span: first };
    loop {
        if cursor.take(&["NOT", "NULL"]) {
            column.not_null = true;
        } else if cursor.sees(&["PRIMARY", "KEY"]) && read.key.is_empty() {
            cursor.take(&["PRIMARY", "KEY"]);
            column.not_null = true;
            read.key.push(column.name.clone());
        } else if column.default.is_none() && cursor.take(&["DEFAULT"]) {
            column.default = Some(cursor.expression()?);
        } else if column.computed.is_none() && cursor.take(&["AS"]) {
            column.computed = Some(cursor.expression()?);
        } else if !cursor.take(&["NULL"]) {
            break;
        }
    }
    column.span = cursor.since(first);
    read.columns.push(column);
    Ok(())
}

fn watermark(cursor: &mut Cursor<'_>, read: &mut Columns) -> Result<(), TextError> {
    let first = cursor.here();
    if read.watermark.is_some() {
        return Err(TextError::new(cursor.script(), first, "a second watermark; a source can have only one"));
    }
    cursor.expect("WATERMARK")?;
    cursor.expect("FOR")?;
    let column = cursor.name("the column of event times")?;
    let mut delay_ns = 0;
    if cursor.take(&["AS"]) {
        let start = cursor.here();
        let expression = cursor.expression()?;
        delay_ns = delay(&column, &expression).map_err(|why| {
            let error = TextError::new(cursor.script(), cursor.since(start), why);
            error.with_hint(format!(
                "write {column} - INTERVAL '5 seconds', or only {column} if rows arrive in order"
            ))
        })?;
    }
    read.watermark = Some(Watermark { column, delay_ns, span: cursor.since(first) });
    Ok(())
}

/// The delay in `column` or `column - INTERVAL ...`.
fn delay(column: &Name, expression: &ast::Expr) -> Result<i64, String> {
    match expression {
        ast::Expr::Identifier(ident) if names(column, ident) => Ok(0),
        ast::Expr::Nested(inner) => delay(column, inner),
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Minus, right } => {
            delay(column, left)?;
            let ast::Expr::Interval(interval) = right.as_ref() else {
                return Err("the delay of a watermark must be an INTERVAL".to_owned());
            };
            let delay_ns = interval_ns(interval)?;
            if delay_ns < 0 {
                Err("the delay of a watermark must not be negative".to_owned())
            } else {
                Ok(delay_ns)
            }
        }
        _ => Err(format!("a watermark must be the column `{column}` minus a fixed delay")),
    }
}

fn names(column: &Name, ident: &ast::Ident) -> bool {
    if ident.quote_style.is_some() {
        ident.value == column.value
    } else {
        ident.value.eq_ignore_ascii_case(&column.value)
    }
}

fn key(cursor: &mut Cursor<'_>, read: &mut Columns) -> Result<(), TextError> {
    let first = cursor.here();
    if !read.key.is_empty() {
        return Err(TextError::new(cursor.script(), first, "a second primary key"));
    }
    cursor.take(&["PRIMARY", "KEY"]);
    read.key = cursor.names("the name of a column")?;
    cursor.take(&["NOT", "ENFORCED"]);
    Ok(())
}

/// Watermark and key must name existing columns, if columns are given.
fn check(cursor: &Cursor<'_>, read: &Columns) -> Result<(), TextError> {
    if read.columns.iter().all(|column| column.computed.is_some()) {
        // The other columns are found in the data.
        return Ok(());
    }
    let known = || read.columns.iter().map(|column| column.name.as_str());
    let named = read.watermark.iter().map(|watermark| &watermark.column).chain(&read.key);
    for name in named {
        if name.meant(known()).is_some() {
            continue;
        }
        let error = TextError::new(cursor.script(), name.span, format!("there is no column `{name}`"));
        let hint = closest(name.as_str(), known()).map(|meant| format!("did you mean {meant}?"));
        let listed = format!("the columns are {}", known().collect::<Vec<_>>().join(", "));
        return Err(error.with_hint(hint.unwrap_or(listed)));
    }
    Ok(())
}
