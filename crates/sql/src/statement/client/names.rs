//! The names in a query of a client of PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Visitor};

use super::calls::last;

/// The schemas of PostgreSQL's catalogue.
const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Collects the relations and functions that a query names: the last part of each name, in small letters.
pub(crate) struct Names(pub Vec<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.extend(last(relation));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expression {
            self.0.extend(last(&call.name));
        }
        ControlFlow::Continue(())
    }
}

/// The schema of the catalogue to which a name belongs.
pub(crate) fn schema(name: &ObjectName) -> Option<String> {
    let [schema, _] = name.0.as_slice() else { return None };
    Some(schema.as_ident()?.value.to_ascii_lowercase()).filter(|schema| SCHEMAS.contains(&schema.as_str()))
}
