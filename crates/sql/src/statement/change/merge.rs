//! `MERGE`: rows of another relation say which rows of a table are updated, deleted or inserted.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Join, JoinConstraint, JoinOperator, MergeAction, MergeClauseKind,
    MergeInsertKind, ObjectName, Statement as Parsed, TableWithJoins,
};

use super::made::{Made, is_default, made, named, null, relation, row_of};
use super::read::alias;
use super::{TARGET, TableChange, TableShape};
use crate::TextError;
use crate::statement::Statement;
use crate::text::Problem;

/// What a `MERGE` does.
pub struct Merged {
    /// The rows of the other relation, each with the row of the table that it matches: the number of that row, or NULL; for each action
    /// whether it is the one for the row; and then the values of each action.
    pub query: Statement,
    /// The actions, in order; the first one that is for a row counts.
    pub actions: Vec<MergedAction>,
}

/// What becomes of a row.
pub enum MergedAction {
    /// The row of the table goes.
    Delete,
    /// The row of the table gets values for these columns.
    Update(Vec<usize>),
    /// A row comes with values for these columns.
    Insert(Vec<usize>),
}

impl Merged {
    /// What a `MERGE` does.
    ///
    /// # Errors
    /// If it names a column that the table does not have, or has clauses that no change of a table has.
    pub fn of(change: &TableChange, table: &TableShape) -> Result<Merged, TextError> {
        let Parsed::Merge(merge) = &*change.change else {
            return Err(change.error("the statement is not a MERGE"));
        };
        let alias = alias(change);
        let on = JoinOperator::LeftOuter(JoinConstraint::On(*merge.on.clone()));
        let target = Join { relation: relation(TARGET, &alias).relation, global: false, join_operator: on };
        let from = vec![TableWithJoins { relation: merge.source.clone(), joins: vec![target] }];
        let (mut flags, mut values, mut actions) =
            (vec![named(row_of(&alias), super::ROW)], Vec::new(), Vec::new());
        for (number, clause) in merge.clauses.iter().enumerate() {
            let is_matched = match clause.clause_kind {
                MergeClauseKind::Matched => Expr::IsNotNull(Box::new(row_of(&alias))),
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                    Expr::IsNull(Box::new(row_of(&alias)))
                }
                MergeClauseKind::NotMatchedBySource => {
                    let message = "WHEN NOT MATCHED BY SOURCE is not known";
                    return Err(
                        change.not_supported(message, "DELETE FROM ... WHERE NOT EXISTS (SELECT ...)")
                    );
                }
            };
            let is_for = match &clause.predicate {
                None => is_matched,
                Some(predicate) => Expr::BinaryOp {
                    left: Box::new(is_matched),
                    op: BinaryOperator::And,
                    right: Box::new(Expr::Nested(Box::new(predicate.clone()))),
                },
            };
            flags.push(named(is_for.clone(), &format!("$is {number}")));
            let (assigned, action): (Vec<(usize, Expr)>, _) = match &clause.action {
                MergeAction::Delete { .. } => (Vec::new(), MergedAction::Delete),
                MergeAction::Update(update) => {
                    let assigned = change.assignments(table, &update.assignments)?;
                    let columns = assigned.iter().map(|(column, _)| *column).collect();
                    (assigned, MergedAction::Update(columns))
                }
                MergeAction::Insert(insert) => {
                    let assigned = match &insert.kind {
                        MergeInsertKind::Values(values) => match values.rows.as_slice() {
                            [row] => merge_values(change, table, &insert.columns, row.to_vec())?,
                            _ => return Err(change.error("MERGE inserts one row for each row of its source")),
                        },
                        MergeInsertKind::Row => {
                            return Err(
                                change.not_supported("INSERT ROW is not known", "INSERT VALUES (...)")
                            );
                        }
                    };
                    let columns = assigned.iter().map(|(column, _)| *column).collect();
                    (assigned, MergedAction::Insert(columns))
                }
            };
            for (column, value) in assigned {
                // Other rows need not have a value.
                let when = CaseWhen { condition: is_for.clone(), result: value };
                let case = Expr::Case {
                    case_token: merge.merge_token.clone(),
                    end_token: merge.merge_token.clone(),
                    operand: None,
                    conditions: vec![when],
                    else_result: None,
                };
                values.push(named(case, &format!("$set {number} {column}")));
            }
            actions.push(action);
        }
        let columns = flags.into_iter().chain(values).collect();
        let query = made(change, Made { columns, from, selection: None })?;
        Ok(Merged { query, actions })
    }
}

/// The values of an `INSERT`, each with the column that it is for.
fn merge_values(
    change: &TableChange,
    table: &TableShape,
    columns: &[ObjectName],
    values: Vec<Expr>,
) -> Result<Vec<(usize, Expr)>, TextError> {
    let columns = match columns {
        [] => (0..table.columns.fields().len()).take(values.len()).collect(),
        named => named.iter().map(|name| change.column(table, name)).collect::<Result<Vec<_>, _>>()?,
    };
    if columns.len() != values.len() {
        let error = change.error("INSERT has as many values as columns");
        return Err(error.of(Problem::Syntax));
    }
    let value = |(column, value): (usize, Expr)| {
        let value =
            if is_default(&value) { table.defaults[column].clone().unwrap_or_else(null) } else { value };
        (column, value)
    };
    Ok(columns.into_iter().zip(values).map(value).collect())
}
