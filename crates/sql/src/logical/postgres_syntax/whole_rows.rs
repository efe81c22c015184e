//! A relation in the place of a value: `SELECT row_to_json(t) FROM (SELECT a, b FROM ...) t`, which means the row of all columns of `t`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, Value, VisitorMut,
};

use super::syntax::ident;
use tidemill_trees::syntax::walk_mut;

/// Functions of a whole row.
const FUNCTIONS: [&str; 4] = ["array_agg", "json_agg", "row_to_json", "to_json"];

/// Puts rows in the place of the names of subqueries that functions of rows take.
pub(super) fn translate(select: &mut Select) {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let relations: Vec<(String, Vec<Ident>)> = factors.filter_map(columns_of).collect();
    if !relations.is_empty() {
        let _ = walk_mut(&mut select.projection, &mut Rows { relations });
    }
}

/// The name of a subquery and those of its columns, if all of them have one.
fn columns_of(relation: &TableFactor) -> Option<(String, Vec<Ident>)> {
    let TableFactor::Derived { subquery, alias: Some(TableAlias { name, columns, .. }), .. } = relation
    else {
        return None;
    };
    if !columns.is_empty() {
        return Some((name.value.clone(), columns.iter().map(|column| column.name.clone()).collect()));
    }
    let mut body = subquery.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else { return None };
    let column = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(column.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    };
    Some((name.value.clone(), select.projection.iter().map(column).collect::<Option<_>>()?))
}

struct Rows {
    relations: Vec<(String, Vec<Ident>)>,
}

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expression
            && let Some(function) = name.0.last().and_then(|name| name.as_ident())
            && FUNCTIONS.contains(&function.value.to_ascii_lowercase().as_str())
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice()
            && let Expr::Identifier(named) = argument
            && let Some((relation, columns)) = self.relations.iter().find(|(name, columns)| {
                *name == named.value && !columns.iter().any(|column| column.value == named.value)
            })
        {
            *argument = row(&Ident { value: relation.clone(), ..named.clone() }, columns);
        }
        ControlFlow::Continue(())
    }
}

/// Returns `named_struct('a', t.a, 'b', t.b)`.
fn row(relation: &Ident, columns: &[Ident]) -> Expr {
    let argument = |value: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    let arguments = columns.iter().flat_map(|column| {
        // The name of an unquoted column is in small letters.
        let name =
            if column.quote_style.is_some() { column.value.clone() } else { column.value.to_lowercase() };
        let value = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
        [argument(Expr::value(Value::SingleQuotedString(name))), argument(value)]
    });
    super::syntax::call(ident("named_struct"), arguments.collect())
}
