//! What PostgreSQL says in words that DataFusion's planner does not know, or takes for something else, in words that it knows: texts of lists
//! and bytes that are cast, `~x`, `mod(a, b)`, `max_by(a, b)`, the number of a column in DISTINCT ON, the columns of USING.
//!
//! Columns have been named before, after the expressions as they are written.

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Distinct, ExcludeSelectItem, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, TypedString, UnaryOperator, Value,
    ValueWithSpan, VisitorMut, WildcardAdditionalOptions,
};

use super::exact_constants::computed;
use super::syntax::ident;
use super::{extreme_of_other, like_escape, list_literal, whole_rows};
use crate::statement::meant_type;
use tidemill_trees::syntax::{Node, walk_mut};

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

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        whole_rows::translate(select);
        columns_for_numbers(select);
        common_columns_first(select);
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
        Expr::BinaryOp { left, op, right } => {
            if let Some(value) = computed(left, op, right) {
                *expression = value;
            }
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            like_escape::translate(pattern, escape_char);
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
fn meant(call: &Function) -> Option<Expr> {
    let name = call.name.0.as_slice();
    let [name] = name else { return None };
    let name = name.as_ident()?.value.to_ascii_lowercase();
    if let Some(order) = extreme_of_other::order(&name) {
        return extreme_of_other::call(call, order);
    }
    if name == "json_agg" {
        let listed = Function { name: ident("array_agg"), ..call.clone() };
        let listed = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(listed)));
        return Some(super::syntax::call(ident("array_to_json"), vec![listed]));
    }
    if !["mod", "if", "date_add", "date_sub"].contains(&name.as_str()) {
        return None;
    }
    let mut given = arguments(call)?;
    let binary = |given: Vec<Expr>, op| {
        let [left, right] = <[Expr; 2]>::try_from(given).ok()?;
        Some(nested(Expr::BinaryOp { left: Box::new(nested(left)), op, right: Box::new(nested(right)) }))
    };
    match name.as_str() {
        "mod" => binary(given, BinaryOperator::Modulo),
        "date_add" => binary(given, BinaryOperator::Plus),
        "date_sub" => binary(given, BinaryOperator::Minus),
        _ if given.len() == 3 => {
            let (otherwise, result) = (given.pop()?, given.pop()?);
            let condition = given.pop()?;
            Some(case(condition, result, otherwise))
        }
        _ => None,
    }
}

/// `CASE WHEN condition THEN result ELSE otherwise END`
fn case(condition: Expr, result: Expr, otherwise: Expr) -> Expr {
    use datafusion::sql::sqlparser::ast::CaseWhen;
    use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: Some(Box::new(otherwise)),
    }
}

/// The arguments of a call, if they are plain expressions and nothing else is said.
fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.filter.is_none() && call.over.is_none() && list.clauses.is_empty();
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect::<Option<Vec<_>>>().filter(|_| is_plain)
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

/// `SELECT *` begins with the columns of USING, wherever they are in the first table: it is `SELECT k, a.* EXCLUDE (k), b.* EXCLUDE (k)`.
fn common_columns_first(select: &mut Select) {
    let [TableWithJoins { relation, joins }] = select.from.as_slice() else { return };
    let mut lists = joins.iter().map(|join| using(&join.join_operator));
    let Some(Some(columns)) = lists.next() else { return };
    // Where joins have other columns, one of them may have a column of the same name that is not joined.
    if columns.is_empty() || !lists.all(|others| others == Some(columns)) {
        return;
    }
    let relations = std::iter::once(relation).chain(joins.iter().map(|join| &join.relation));
    let Some(relations) = relations.map(name_of).collect::<Option<Vec<ObjectName>>>() else { return };
    let columns: Vec<ObjectName> = columns.to_vec();
    let idents = columns.iter().filter_map(|column| column.0.last()?.as_ident().cloned());
    let common: Vec<SelectItem> =
        idents.map(|column| SelectItem::UnnamedExpr(Expr::Identifier(column))).collect();
    let rest = relations.into_iter().map(|relation| {
        let opt_exclude = Some(ExcludeSelectItem::Multiple(columns.clone()));
        let options = WildcardAdditionalOptions { opt_exclude, ..WildcardAdditionalOptions::default() };
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(relation), options)
    });
    let star: Vec<SelectItem> = common.into_iter().chain(rest).collect();
    let items = mem::take(&mut select.projection).into_iter();
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if is_plain(options));
    select.projection =
        items.flat_map(|item| if is_star(&item) { star.clone() } else { vec![item] }).collect();
}

/// The name by which the columns of a relation are qualified.
fn name_of(relation: &TableFactor) -> Option<ObjectName> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => {
            alias.columns.is_empty().then(|| ObjectName::from(vec![alias.name.clone()]))
        }
        TableFactor::Table { name, alias: None, args: None, .. } => Some(name.clone()),
        _ => None,
    }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_ilike.is_none()
}

fn using(join: &JoinOperator) -> Option<&[ObjectName]> {
    match join {
        JoinOperator::Join(JoinConstraint::Using(columns))
        | JoinOperator::Inner(JoinConstraint::Using(columns))
        | JoinOperator::Left(JoinConstraint::Using(columns))
        | JoinOperator::LeftOuter(JoinConstraint::Using(columns)) => Some(columns),
        _ => None,
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
