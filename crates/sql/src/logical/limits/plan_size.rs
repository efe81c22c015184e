//! How large a plan may become. Some rewriting doubles a part of it: `x BETWEEN a AND b` becomes two comparisons of `x`, a
//! condition over a subquery is written again over the columns from which that computes its own, and a view that is named
//! twice is planned twice. Nested, that doubles the whole plan with each level, so it is looked at before.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use tidemill_trees::nodes::{PlanTree, Tree};

use crate::planning_limits::{go_on, while_planning};
use crate::refusal::refuse;
use crate::statement::MAX_TYPES;

/// The most parts that rewriting may add to a node's expressions.
const PARTS_MAX: u64 = 10_000;

/// Functions that are rewritten as CASE over their arguments, each of which is then computed in two places.
const DOUBLING: [&str; 5] = ["coalesce", "ifnull", "nullif", "nvl", "nvl2"];

/// As many elements of IN become comparisons of their own.
const COMPARED_ELEMENTS: usize = 3;
/// As many branches of a CASE become conditions of their own.
const CONDITION_BRANCHES: usize = 3;

/// Checks the types of the columns: views over views could nest them deeper than any statement does.
///
/// # Errors
/// If one of them has more levels than what stores it can read back.
pub(crate) fn check_types(plan: &LogicalPlan) -> Result<()> {
    for field in plan.schema().fields() {
        let (mut level, mut levels) = (vec![field.data_type()], 0);
        while !level.is_empty() {
            levels += 1;
            level = level.into_iter().flat_map(types_in).collect();
        }
        // The values in it are the last level.
        if levels > MAX_TYPES + 1 {
            let message = format!("the type of column '{}' has more than {MAX_TYPES} levels", field.name());
            return Err(refuse(message, "keep a part of it in a column of its own"));
        }
    }
    Ok(())
}

/// The types that a type contains.
fn types_in(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            vec![item.data_type()]
        }
        DataType::Map(entries, _) => vec![entries.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    }
}

/// A rule that is not applied where it would make too much.
pub(crate) struct BoundedRule(pub Arc<dyn OptimizerRule + Send + Sync>);

impl fmt::Debug for BoundedRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl OptimizerRule for BoundedRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        go_on()?;
        let mut written = 0;
        plan.look_through_expressions(|expression| {
            expression.look_through(|_| {
                written += 1;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let parts: u64 = match &plan {
            LogicalPlan::Filter(filter) => match filter.input.as_ref() {
                LogicalPlan::Projection(below) => {
                    let columns = below.schema.columns();
                    over(&filter.predicate, &columns, &below.expr)
                }
                _ => simplified(&filter.predicate),
            },
            _ => {
                let mut parts = 0;
                plan.look_through_expressions(|expression| {
                    parts = sum(parts, simplified(expression));
                    Ok(TreeNodeRecursion::Continue)
                })?;
                parts
            }
        };
        if parts.saturating_sub(written) > PARTS_MAX {
            Err(too_large())
        } else {
            while_planning(|| self.0.rewrite(plan, config))
        }
    }
}

fn too_large() -> DataFusionError {
    let message = format!(
        "an expression of the query becomes too large: it would get more than {PARTS_MAX} further parts"
    );
    refuse(message, "compute a part of it in a materialized view, or write it with CASE")
}

fn sum(one: u64, other: u64) -> u64 {
    one.saturating_add(other)
}

/// The parts of a condition that is written over the expressions of which its columns are made.
fn over(condition: &Expr, columns: &[Column], made: &[Expr]) -> u64 {
    let mut parts = simplified(condition);
    let _ = condition.look_through(|part| {
        let at = match part {
            Expr::Column(column) => columns.iter().position(|known| known.name == column.name),
            _ => None,
        };
        parts = sum(parts, at.and_then(|at| made.get(at)).map_or(0, simplified));
        Ok(TreeNodeRecursion::Continue)
    });
    parts
}

/// How many parts an expression has at most when it is simplified.
fn simplified(expression: &Expr) -> u64 {
    let mut parts = Vec::new();
    let _ = expression.apply_children(|part| {
        parts.push(simplified(part));
        Ok(TreeNodeRecursion::Continue)
    });
    let all = parts.iter().fold(1, |all, part| sum(all, *part));
    let again = |times: usize, first: usize| {
        let repeated = parts.iter().take(first).fold(0, |all, part| sum(all, *part));
        sum(all, repeated.saturating_mul(times as u64))
    };
    match expression {
        Expr::Between(Between { .. }) => again(1, 1),
        Expr::InList(InList { list, .. }) if list.len() <= COMPARED_ELEMENTS => {
            again(list.len().saturating_sub(1), 1)
        }
        Expr::ScalarFunction(ScalarFunction { func, .. }) if DOUBLING.contains(&func.name()) => {
            again(1, parts.len())
        }
        Expr::Case(Case { expr: None, when_then_expr, .. }) if when_then_expr.len() <= CONDITION_BRANCHES => {
            // Conditions and results take turns.
            let conditions = parts.iter().step_by(2).take(when_then_expr.len());
            let conditions = conditions.fold(0, |all, part| sum(all, *part));
            sum(all, conditions.saturating_mul(when_then_expr.len() as u64))
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Planner, parse};

    /// The message with which a query is refused.
    fn refused(query: &str) -> String {
        let statement = &parse(query, "large").unwrap()[0];
        match Planner::new().execute(statement) {
            Ok(_) => panic!("it is planned: {query}"),
            Err(error) => error.to_string(),
        }
    }

    fn nested(begin: &str, inner: &str, end: &str, levels: usize) -> String {
        format!("{}{inner}{}", begin.repeat(levels), end.repeat(levels))
    }

    #[test]
    fn what_doubles_with_each_level_is_refused_before_it_does() {
        let with = "(SELECT n, n + 1 AS m FROM (SELECT unnest(range(3)) AS n))";
        for expression in [
            nested("coalesce(", "n", ", m)", 40),
            nested("coalesce(m, ", "n", ")", 40),
            nested("nullif(", "n", ", 7)", 40),
            nested("nvl(", "n", ", m)", 40),
            nested("(", "n", " BETWEEN 1 AND 2)::INT", 40),
            nested("(", "n", " IN (1, 2, 3))::INT", 40),
            nested("CASE WHEN ", "n > 1", " THEN m > 1 ELSE n > 2 END", 40),
        ] {
            for query in [
                format!("SELECT {expression} AS made FROM {with}"),
                format!("SELECT n FROM {with} WHERE ({expression}) IS NOT NULL"),
            ] {
                let message = refused(&query);
                assert!(message.contains("becomes too large"), "{query}: {message}");
            }
        }
        // A condition is written over the columns below, level by level.
        let added = nested("SELECT n + n AS n FROM (", "SELECT unnest(range(3)) AS n", ")", 16);
        let message = refused(&format!("SELECT n FROM ({added}) WHERE n > 1"));
        assert!(message.contains("becomes too large"), "{message}");
    }

    #[test]
    fn a_plan_that_doubles_with_each_name_is_refused() {
        let steps = (1..=40).map(|at| format!(", q{at} AS (SELECT a.n FROM q{} a, q{} b)", at - 1, at - 1));
        let steps: String = steps.collect();
        let message = refused(&format!("WITH q0 AS (SELECT 1 AS n){steps} SELECT n FROM q40"));
        assert!(message.contains("more than 4000 steps"), "{message}");

        let mut planner = Planner::new();
        let mut refused = None;
        planner.execute(&parse("CREATE VIEW v0 AS SELECT 1 AS n", "views").unwrap()[0]).unwrap();
        for at in 1..=40 {
            let text =
                format!("CREATE VIEW v{at} AS SELECT a.n FROM v{0} a JOIN v{0} b ON a.n = b.n", at - 1);
            match planner.execute(&parse(&text, "views").unwrap()[0]) {
                Ok(_) => {}
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
        }
        let message = refused.expect("it is refused in the end");
        assert!(message.contains("more than 4000 steps"), "{message}");
    }

    #[test]
    fn views_over_views_do_not_nest_types_without_end() {
        let mut planner = Planner::new();
        planner.execute(&parse("CREATE VIEW v0 AS SELECT 1 AS n", "views").unwrap()[0]).unwrap();
        let refused = (1..=40).find_map(|at| {
            let text = format!("CREATE VIEW v{at} AS SELECT [n] AS n FROM v{}", at - 1);
            planner.execute(&parse(&text, "views").unwrap()[0]).err().map(|error| (at, error.to_string()))
        });
        let (at, message) = refused.expect("it is refused in the end");
        assert_eq!(at, 31);
        assert!(message.contains("the type of column 'n' has more than 30 levels"), "{message}");
    }

    #[test]
    fn what_people_write_is_small() {
        let cases = nested("CASE WHEN n = 7 THEN 1 ELSE ", "0", " END", 40);
        for query in [
            format!("SELECT {cases} AS made FROM (SELECT 7 AS n)"),
            "SELECT coalesce(coalesce(coalesce(coalesce(n, 1), 2), 3), 4) AS made FROM (SELECT 1 AS n)"
                .to_owned(),
            format!("SELECT n FROM (SELECT 1 AS n) WHERE n IN ({})", vec!["1"; 60_000].join(", ")),
            "SELECT n FROM (SELECT 1 AS n) WHERE n BETWEEN (CASE WHEN n IN (1, 2) THEN 0 END) AND 7"
                .to_owned(),
        ] {
            let statement = &parse(&query, "small").unwrap()[0];
            assert!(Planner::new().execute(statement).is_ok(), "{query}");
        }
    }
}
