//! Named subqueries over PostgreSQL's catalogue that have no rows, and unions with them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, VisitorMut,
};

use super::columns::column_name;
use super::empty::{body_has_no_rows, has_no_rows, has_wildcard, without_rows};
use super::names::schema;
use tidemill_trees::syntax::walk_mut;

/// Puts the named subqueries that have no rows in the place of their names, and leaves them out of unions.
pub(super) struct EmptyParts;

impl VisitorMut for EmptyParts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut empty = Named(Vec::new());
        for named in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if !empty.0.is_empty() {
                let _ = walk_mut(&mut named.query, &mut empty);
            }
            if has_no_rows(&named.query) && !has_wildcard(&named.query) && named.alias.columns.is_empty() {
                without_rows(&mut named.query);
                empty.0.push((named.alias.name.clone(), named.query.clone()));
            }
        }
        if !empty.0.is_empty() {
            let with = query.with.take();
            let _ = walk_mut(query, &mut empty);
            query.with = with;
        }
        without_empty_sides(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// Named subqueries.
struct Named(Vec<(Ident, Box<Query>)>);

impl VisitorMut for Named {
    type Break = ();

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, alias, .. } = relation
            && schema(name).is_none()
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
            && let Some((ident, query)) = self.0.iter().find(|(named, _)| named.value == ident.value)
        {
            let own = TableAlias { explicit: true, name: ident.clone(), columns: Vec::new(), at: None };
            let (subquery, alias) = (query.clone(), Some(alias.take().unwrap_or(own)));
            *relation = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        }
        ControlFlow::Continue(())
    }
}

/// Leaves the side of a union out that has no rows. The columns keep the names of the left side.
fn without_empty_sides(body: &mut SetExpr) {
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: SetQuantifier::All, left, right } =
        body
    else {
        return;
    };
    without_empty_sides(left);
    without_empty_sides(right);
    if body_has_no_rows(right) {
        let left = std::mem::replace(&mut **left, SetExpr::Values(super::empty::no_values()));
        *body = left;
    } else if body_has_no_rows(left)
        && let (SetExpr::Select(empty), SetExpr::Select(shown)) = (left.as_ref(), right.as_mut())
        && empty.projection.len() == shown.projection.len()
    {
        for (item, named) in shown.projection.iter_mut().zip(&empty.projection) {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let alias = Ident::with_quote('"', column_name(named));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        let right = std::mem::replace(&mut **right, SetExpr::Values(super::empty::no_values()));
        *body = right;
    }
}
