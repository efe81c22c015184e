//! What PostgreSQL says in words that DataFusion's planner does not know, or takes for something else, in words that it knows: texts of lists
//! and bytes that are cast, `~x`, `mod(a, b)`, `max_by(a, b)`, the number of a column in DISTINCT ON,
//! `substring(x FROM 'pattern')`.
//!
//! Columns have been named before, after the expressions as they are written.

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Distinct, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Parens, Query, Select,
    SelectItem, SetExpr, Subscript, TableFactor, TypedString, UnaryOperator, Value, ValueWithSpan,
    VisitorMut,
};

use super::exact_constants::computed;
use super::syntax::ident;
use super::{
    extreme_of_other, json, like_escape, list_literal, ordinality, other_names, similar_to, whole_rows,
};
use crate::statement::{meant_type, text_length};
use tidemill_trees::syntax::{Node, walk_mut};

/// `IS DISTINCT FROM` as an operator, which the planner hands to a planner of expressions with the types of both sides.
pub(crate) const DISTINCT: &str = "IS DISTINCT FROM";
/// `IS NOT DISTINCT FROM` as an operator.
pub(crate) const NOT_DISTINCT: &str = "IS NOT DISTINCT FROM";

/// Translates a query or an expression.
///
/// # Errors
/// If a text is not of the type to which it is cast.
pub(crate) fn translate(node: &mut impl Node) -> Result<()> {
    let mut words = Words { error: None };
    let _ = walk_mut(node, &mut words);
    words.error.map_or(Ok(()), Err)
}

struct Words {
    error: Option<DataFusionError>,
}

impl VisitorMut for Words {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            texts_of_one_type(&mut values.rows);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            json::values(&mut values.rows);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        json::rows(table);
        match ordinality::rows(table) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        whole_rows::translate(select);
        columns_for_numbers(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match translated(expression) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn translated(expression: &mut Expr) -> Result<()> {
    match expression {
        Expr::Cast { expr, data_type: data_type @ (DataType::JSON | DataType::JSONB), .. } => {
            *expression = json::checked(taken(expr), data_type);
        }
        Expr::TypedString(TypedString {
            data_type: data_type @ (DataType::JSON | DataType::JSONB),
            value,
            ..
        }) => {
            *expression = json::checked(Expr::Value(value.clone()), data_type);
        }
        Expr::Cast { expr, data_type: DataType::Uuid, .. } => *expression = uuid(taken(expr)),
        Expr::TypedString(TypedString { data_type: DataType::Uuid, value, .. }) => {
            *expression = uuid(Expr::Value(value.clone()));
        }
        Expr::Cast { kind, expr, data_type, .. } if text_length(data_type).is_some() => {
            let length = text_length(data_type).unwrap_or_default();
            let is_padded = matches!(data_type, DataType::Char(_) | DataType::Character(_));
            *expression = cut(kind.clone(), taken(expr), length, is_padded);
        }
        Expr::Cast { expr, data_type, .. } => {
            meant_type(data_type);
            let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = expr.as_ref()
            else {
                return Ok(());
            };
            match data_type {
                DataType::Array(_) => {
                    let (list, depth) = list_literal::list(text)?;
                    **expr = list;
                    // A type of lists has lists of any depth.
                    for _ in lists_in(data_type)..depth {
                        let items = Box::new(data_type.clone());
                        *data_type = DataType::Array(ArrayElemTypeDef::SquareBracket(items, None));
                    }
                }
                DataType::Bytea => *expression = bytes(text)?,
                _ => {}
            }
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            meant_type(data_type);
            if let (DataType::Bytea, Value::SingleQuotedString(text)) = (data_type, &value.value) {
                *expression = bytes(text)?;
            }
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
            let minus_one = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) };
            let operand = Box::new(taken(expr));
            let op = BinaryOperator::BitwiseXor;
            *expression = nested(Expr::BinaryOp { left: operand, op, right: Box::new(minus_one) });
        }
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
            if let Some(meant) = other_names::overlap(left, right) {
                *expression = meant;
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGOverlap, right } => {
            let lists = [left, right].map(|list| FunctionArg::Unnamed(FunctionArgExpr::Expr(taken(list))));
            *expression = super::syntax::call(ident("array_has_any"), lists.into());
        }
        Expr::BinaryOp { left, op, right } => {
            plain_operator(op);
            if let Some(value) = computed(left, op, right) {
                *expression = value;
            }
        }
        Expr::Substring { expr, substring_from: Some(pattern), substring_for: None, .. }
            if is_text(pattern) =>
        {
            *expression = matched(taken(expr), taken(pattern));
        }
        Expr::Identifier(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("localtimestamp") =>
        {
            *expression = super::syntax::call(ident("now"), Vec::new());
        }
        Expr::IsDistinctFrom(left, right) => *expression = operator(left, DISTINCT, right),
        Expr::IsNotDistinctFrom(left, right) => *expression = operator(left, NOT_DISTINCT, right),
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            like_escape::translate(pattern, escape_char)?;
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let escape = match escape_char.as_ref().map(|escape| &escape.value) {
                Some(Value::SingleQuotedString(escape)) => escape.chars().next(),
                _ => Some('\\'),
            };
            let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(pattern), .. }) =
                pattern.as_ref()
            else {
                return Ok(());
            };
            let regular = similar_to::regular_expression(pattern, escape).ok_or_else(|| {
                plan_datafusion_err!("the pattern '{pattern}' ends in its escape character")
            })?;
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            let right = Box::new(Expr::value(Value::SingleQuotedString(regular)));
            *expression = nested(Expr::BinaryOp { left: Box::new(taken(expr)), op, right });
        }
        Expr::Function(call) => {
            if let Some(meant) = meant(call) {
                *expression = meant;
            }
        }
        _ => {}
    }
    Ok(())
}

fn uuid(text: Expr) -> Expr {
    super::syntax::call(ident("uuid_of_text"), vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(text))])
}

/// The beginning of a text, as a cast to `VARCHAR(20)` gives it. Blanks at the end of a `CHAR(20)` do not count.
fn cut(kind: CastKind, value: Expr, length: u64, is_padded: bool) -> Expr {
    let argument = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    let data_type = DataType::Varchar(None);
    let text = Expr::Cast { kind, expr: Box::new(value), data_type, array: false, format: None };
    let text =
        super::syntax::call(ident("left"), vec![argument(text), argument(number(&length.to_string()))]);
    if is_padded { super::syntax::call(ident("rtrim"), vec![argument(text)]) } else { text }
}

/// `OPERATOR(pg_catalog.+)` is `+`.
fn plain_operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(parts) = &*op else { return };
    let [.., symbol] = parts.as_slice() else { return };
    *op = match symbol.as_str() {
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "||" => BinaryOperator::StringConcat,
        _ => return,
    };
}

fn is_text(expression: &Expr) -> bool {
    match expression {
        Expr::Value(ValueWithSpan { value, .. }) => matches!(
            value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
        ),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_))
        }
        Expr::Nested(inner) => is_text(inner),
        _ => false,
    }
}

/// `substring(text FROM pattern)`: what the first parentheses of a pattern match, or the whole pattern.
fn matched(text: Expr, pattern: Expr) -> Expr {
    let argument = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    let groups = Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("regexp_match")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(text), argument(pattern)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
    let first = AccessExpr::Subscript(Subscript::Index { index: number("1") });
    Expr::CompoundFieldAccess { root: Box::new(groups), access_chain: vec![first] }
}

/// A text in VALUES is of the type that another row says: `VALUES (DATE '2026-01-31'), ('2026-02-01')`. Beside numbers, the planner sees to it.
fn texts_of_one_type(rows: &mut [Parens<Vec<Expr>>]) {
    let columns = rows.iter().map(|row| row.len()).min().unwrap_or_default();
    for column in 0..columns {
        let is_text = |cell: &Expr| {
            matches!(cell, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
        };
        if !rows.iter().any(|row| is_text(&row[column])) {
            continue;
        }
        let Some(data_type) = rows.iter().find_map(|row| written_type(&row[column])) else { continue };
        for row in rows.iter_mut().filter(|row| is_text(&row[column])) {
            let text = taken(&mut row[column]);
            row[column] = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(text),
                data_type: data_type.clone(),
                array: false,
                format: None,
            };
        }
    }
}

/// The type that an expression says.
fn written_type(expression: &Expr) -> Option<DataType> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::Boolean(_), .. }) => Some(DataType::Boolean),
        Expr::TypedString(TypedString { data_type, .. }) | Expr::Cast { data_type, .. } => {
            Some(data_type.clone())
        }
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Nested(inner) => written_type(inner),
        _ => None,
    }
}

/// Returns an operator that the planner has no word for.
fn operator(left: &mut Expr, name: &str, right: &mut Expr) -> Expr {
    let op = BinaryOperator::Custom(name.to_owned());
    nested(Expr::BinaryOp { left: Box::new(taken(left)), op, right: Box::new(taken(right)) })
}

/// How deep the lists of a type are.
fn lists_in(data_type: &DataType) -> usize {
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(items) | ArrayElemTypeDef::SquareBracket(items, _),
        ) => 1 + lists_in(items),
        _ => 0,
    }
}

/// What a call means; `None` if it is a call of the language.
fn meant(call: &mut Function) -> Option<Expr> {
    let name = call.name.0.as_slice();
    let [name] = name else { return None };
    let name = name.as_ident()?.value.to_ascii_lowercase();
    if let Some(order) = extreme_of_other::order(&name) {
        return extreme_of_other::call(call, order);
    }
    if let Some(meant) = json::meant(&name, call) {
        return Some(meant);
    }
    other_names::meant(&name, call)
}

/// Bytes as PostgreSQL writes them: `\xDEAD`, or letters with `\\` for a backslash and `\ooo` for other bytes.
pub(crate) fn bytes_of(text: &str) -> Result<Vec<u8>> {
    let wrong = || plan_datafusion_err!("'{text}' is not a BYTEA: write the bytes as '\\x0AFF'");
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<char> = digits.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
        let byte = |pair: &[char]| match pair {
            [high, low] => Some((high.to_digit(16)? * 16 + low.to_digit(16)?) as u8),
            _ => None,
        };
        return digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(wrong);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                rest = behind;
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = behind;
            }
            (b'\\', _) => return Err(wrong()),
            (byte, _) => bytes.push(*byte),
        }
    }
    Ok(bytes)
}

fn bytes(text: &str) -> Result<Expr> {
    let digits: String = bytes_of(text)?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Expr::value(Value::HexStringLiteral(digits)))
}

/// `DISTINCT ON (1)` names the first column.
fn columns_for_numbers(select: &mut Select) {
    let Some(Distinct::On(keys)) = &mut select.distinct else { return };
    for key in keys {
        let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = key else { continue };
        let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }) =
            place.and_then(|place| select.projection.get(place))
        {
            *key = column.clone();
        }
    }
}

/// An expression, in whose place is nothing.
fn taken(place: &mut Expr) -> Expr {
    mem::replace(place, Expr::value(Value::Null))
}

fn nested(inner: Expr) -> Expr {
    Expr::Nested(Box::new(inner))
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}
