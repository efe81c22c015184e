//! Queries that begin with FROM and have no SELECT: `FROM 'clicks.csv'` means `SELECT * FROM 'clicks.csv'`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Query, Select, SelectFlavor, SelectItem, VisitorMut, WildcardAdditionalOptions,
};

use tidemill_trees::syntax::walk_mut;

struct SelectAllCompletion;

impl VisitorMut for SelectAllCompletion {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        ControlFlow::Continue(())
    }
}

/// Adds the omitted `SELECT *`, here and in subqueries.
pub(crate) fn complete(query: &mut Query) {
    let _ = walk_mut(query, &mut SelectAllCompletion);
}
