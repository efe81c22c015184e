//! Parameters and numbers that are whole values of `VALUES`, and its rows.

use std::borrow::Cow;

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Value, Values};

use super::number;
use crate::statement::written_numbers::cast_numbers;
use crate::statement::{Statement, StatementKind};

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

    /// The rows of `VALUES`, each as a statement of its own, without its text; none if it is something else. In one statement the
    /// values of a column need a common type, and apart they do not.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("VALUES (1, now()), (2, '2026-11-26')", "example").unwrap().remove(0);
    /// assert_eq!(piece.read().unwrap().rows_of_values().count(), 2);
    /// ```
    pub fn rows_of_values(&self) -> impl ExactSizeIterator<Item = Statement> + use<> {
        let mut without_rows = self.clone();
        without_rows.text.clear();
        let rows = without_rows.values_mut().map(|values| std::mem::take(&mut values.rows));
        rows.unwrap_or_default().into_iter().map(move |row| {
            let mut statement = without_rows.clone();
            if let Some(values) = statement.values_mut() {
                values.rows.push(row);
            }
            statement
        })
    }

    /// The query with the numbers that it writes out for columns of these types as these columns take them in: in an `INT`, `2.5` is 3, and in a
    /// `VARCHAR`, `1.50` is `1.50`.
    ///
    /// ```
    /// use tidemill_engine::arrow::schema::DataType;
    /// let piece = tidemill_sql::divide("VALUES (2.5, 1), (7, 2.5)", "example").unwrap().remove(0);
    /// let rows = piece.read().unwrap();
    /// let rows = rows.with_numbers_for(&[&DataType::Int32, &DataType::Float64]).into_owned();
    /// let tidemill_sql::StatementKind::Query(query, _) = &rows.kind else { unreachable!() };
    /// assert_eq!(query.to_string(), "VALUES (CAST(2.5 AS BIGINT), 1), (7, 2.5)");
    /// ```
    pub fn with_numbers_for(&self, columns: &[&DataType]) -> Cow<'_, Statement> {
        let is_taken = |column: &&DataType| column.is_integer() || column.is_string();
        let has_no_fraction = !self.text.is_empty() && !self.text.contains('.');
        if has_no_fraction || !columns.iter().any(is_taken) {
            return Cow::Borrowed(self);
        }
        let mut changed = self.clone();
        let is_changed = match &mut changed.kind {
            StatementKind::Query(query, _) => cast_numbers(&mut query.body, columns),
            _ => false,
        };
        if is_changed {
            // It is another statement now.
            changed.text.clear();
            Cow::Owned(changed)
        } else {
            Cow::Borrowed(self)
        }
    }

    fn values_mut(&mut self) -> Option<&mut Values> {
        match &mut self.kind {
            StatementKind::Query(query, _) => match query.body.as_mut() {
                SetExpr::Values(values) => Some(values),
                _ => None,
            },
            _ => None,
        }
    }
}

pub(in crate::statement) fn parameter(value: &Expr) -> Option<usize> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => number(name),
            _ => None,
        },
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}
