//! The body of a query: SELECT, VALUES, UNION and the like.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, Spanned, Table, Values};

use super::{Checked, Clauses, PLANNED};

impl Clauses<'_> {
    pub(super) fn body(&self, body: &SetExpr, query: &Query) -> Checked {
        let changes = "a query only reads; write its rows with INSERT INTO sink SELECT ...";
        match body {
            // The visitor reaches these by itself.
            SetExpr::Select(_) | SetExpr::Query(_) => PLANNED,
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.body(left, query)?;
                self.operation(*op, *set_quantifier, body)?;
                self.body(right, query)
            }
            SetExpr::Values(Values { explicit_row: _, value_keyword, rows: _ }) => {
                if *value_keyword {
                    self.clause(query, &["VALUE"], "write VALUES")
                } else {
                    PLANNED
                }
            }
            SetExpr::Insert(_) => self.clause(query, &["INSERT"], changes),
            SetExpr::Update(_) => self.clause(query, &["UPDATE"], changes),
            SetExpr::Delete(_) => self.clause(query, &["DELETE"], changes),
            SetExpr::Merge(_) => self.clause(query, &["MERGE"], changes),
            SetExpr::Table(table) => {
                let Table { table_name, schema_name: _ } = table.as_ref();
                let name = table_name.as_deref().unwrap_or("name");
                self.clause(query, &["TABLE"], &format!("write SELECT * FROM {name}"))
            }
        }
    }

    fn operation(&self, op: SetOperator, quantifier: SetQuantifier, body: &SetExpr) -> Checked {
        let refused = |words: &[&str], hint: &str| {
            self.words(body.span(), words, format!("{} is not part of the language", words.join(" ")), hint)
        };
        match (op, quantifier) {
            (SetOperator::Minus, _) => refused(&["MINUS"], "write EXCEPT"),
            (
                SetOperator::Except | SetOperator::Intersect,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName,
            ) => refused(&["BY", "NAME"], "write the columns of both sides in the same order"),
            (
                SetOperator::Union,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName,
            )
            | (
                SetOperator::Union | SetOperator::Except | SetOperator::Intersect,
                SetQuantifier::Distinct | SetQuantifier::None,
            )
            | (SetOperator::Union | SetOperator::Except | SetOperator::Intersect, SetQuantifier::All) => {
                PLANNED
            }
        }
    }
}
