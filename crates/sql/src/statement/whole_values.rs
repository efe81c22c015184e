//! Parameters that are whole values of `VALUES`, and its rows.

use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Value};

use super::parameters::number;
use super::{Statement, StatementKind};

impl Statement {
    /// The parameters that are whole values of `VALUES`, each with the number of its column, from 0 on. Whoever knows the columns knows
    /// their types.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("VALUES (1, $1), ($2 + 1, $3)", "example").unwrap().remove(0);
    /// assert_eq!(piece.read().unwrap().whole_values(), [(1, 1), (3, 1)]);
    /// ```
    #[must_use]
    pub fn whole_values(&self) -> Vec<(usize, usize)> {
        let StatementKind::Query(query, _) = &self.kind else { return Vec::new() };
        let SetExpr::Values(values) = query.body.as_ref() else { return Vec::new() };
        let rows = values.rows.iter().flat_map(|row| row.iter().enumerate());
        rows.filter_map(|(column, value)| Some((parameter(value)?, column))).collect()
    }

    /// The rows of `VALUES`, each as a statement of its own; empty if it is something else. In one statement the values of a column
    /// need a common type, and apart they do not.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("VALUES (1, now()), (2, '2026-11-26')", "example").unwrap().remove(0);
    /// assert_eq!(piece.read().unwrap().rows_of_values().len(), 2);
    /// ```
    #[must_use]
    pub fn rows_of_values(&self) -> Vec<Statement> {
        let StatementKind::Query(query, _) = &self.kind else { return Vec::new() };
        let SetExpr::Values(values) = query.body.as_ref() else { return Vec::new() };
        let row = |index: usize| {
            let mut statement = self.clone();
            if let StatementKind::Query(query, _) = &mut statement.kind
                && let SetExpr::Values(values) = query.body.as_mut()
            {
                values.rows = vec![values.rows.swap_remove(index)];
            }
            statement
        };
        (0..values.rows.len()).map(row).collect()
    }
}

fn parameter(value: &Expr) -> Option<usize> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => number(name),
            _ => None,
        },
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}
