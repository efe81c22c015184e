//! Numbers that are written out as values of columns: they are decimals, as in PostgreSQL, where they would be floating-point numbers otherwise.

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, SelectItem, SetExpr, UnaryOperator, Value, ValueWithSpan,
};

/// Casts the numbers that are written out as values of columns of these types. Returns whether there were any.
pub(super) fn cast_numbers(rows: &mut SetExpr, columns: &[&DataType]) -> bool {
    let mut is_changed = false;
    match rows {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (value, column) in row.iter_mut().zip(columns) {
                    is_changed |= cast_number(value, column);
                }
            }
        }
        SetExpr::Select(select) => {
            for (item, column) in select.projection.iter_mut().zip(columns) {
                match item {
                    SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                        is_changed |= cast_number(value, column);
                    }
                    // From here on, the places of the columns are not known.
                    _ => break,
                }
            }
        }
        SetExpr::Query(query) => is_changed = cast_numbers(&mut query.body, columns),
        SetExpr::SetOperation { left, right, .. } => {
            is_changed = cast_numbers(left, columns) | cast_numbers(right, columns);
        }
        _ => {}
    }
    is_changed
}

fn cast_number(value: &mut Expr, column: &DataType) -> bool {
    let data_type = match column {
        column if column.is_integer() => ast::DataType::BigInt(None),
        column if column.is_string() => ast::DataType::Text,
        _ => return false,
    };
    let mut number = &*value;
    while let Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = number {
        number = inner;
    }
    let is_fraction = matches!(number, Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. })
        if text.contains('.'));
    if is_fraction {
        let null = Expr::value(Value::Null);
        let expr = Box::new(std::mem::replace(value, null));
        *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
    }
    is_fraction
}
