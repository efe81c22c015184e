//! The first rows of each window: `WHERE ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY ...) <= n` around it.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Projection, Window};
use tidemill_operators::top::{Numbering, Top, TopSpec, output_schema};

use super::columns::{order_of, schema_of, unique};
use super::over::window_function;
use super::{Relation, Role, Translator, as_column, column_at, refuse};

impl Translator {
    /// A projection of the first rows, if it is one.
    pub(super) fn top(&mut self, projection: &Projection) -> Result<Option<Relation>> {
        let LogicalPlan::Filter(filter) = projection.input.as_ref() else { return Ok(None) };
        let Some(relation) = self.top_of_filter(filter)? else { return Ok(None) };
        let schema = filter.input.schema();
        self.compute(relation, schema, &[], &projection.expr, Some(&projection.schema)).map(Some)
    }

    /// The first rows, if a filter selects them: its input numbers the rows of each window by anything but time.
    pub(super) fn top_of_filter(&mut self, filter: &Filter) -> Result<Option<Relation>> {
        let mut renamed = None;
        let window = match filter.input.as_ref() {
            LogicalPlan::Window(window) => window,
            LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
                LogicalPlan::Window(window) => window,
                LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                    LogicalPlan::Window(window) => {
                        renamed = Some(projection);
                        window
                    }
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            },
            LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                LogicalPlan::Window(window) => {
                    renamed = Some(projection);
                    window
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let [function] = window.window_expr.as_slice() else { return Ok(None) };
        let function = window_function(function)?;
        let numbering = match function.fun.name() {
            "row_number" => Numbering::RowNumber,
            "rank" => Numbering::Rank,
            "dense_rank" => Numbering::DenseRank,
            _ => return Ok(None),
        };
        let number = window.schema.fields().len() - 1;
        let number_of = |expression: &Expr| {
            let column = as_column(expression, filter.input.schema())?;
            match renamed {
                None => Some(column),
                Some(projection) => as_column(&projection.expr[column], &window.schema),
            }
        };
        let mut count = None;
        let mut rest = Vec::new();
        for condition in split_conjunction(&filter.predicate) {
            match at_most(condition).filter(|(column, _)| number_of(column) == Some(number)) {
                Some((_, limit)) => count = Some(count.map_or(limit, |known: usize| known.min(limit))),
                None => rest.push(condition.clone()),
            }
        }
        let Some(count) = count else { return Ok(None) };
        let top = match self.first_rows(window, &function, numbering, count)? {
            Some(top) => top,
            None if self.takes_changes => self.changing_first_rows(window, &function, (numbering, count))?,
            None => return Ok(None),
        };
        let top = match renamed {
            None => top,
            Some(projection) => {
                self.compute(top, &window.schema, &[], &projection.expr, Some(&projection.schema))?
            }
        };
        let Some(rest) = conjunction(rest) else { return Ok(Some(top)) };
        let schema = filter.input.schema();
        let all: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
        self.compute(top, schema, &[rest], &all, Some(schema)).map(Some)
    }

    /// The first rows of each partition; `None` if no column of the partition is the end of a window.
    fn first_rows(
        &mut self,
        window: &Window,
        function: &datafusion::logical_expr::expr::WindowFunction,
        numbering: Numbering,
        count: usize,
    ) -> Result<Option<Relation>> {
        let schema = window.input.schema();
        let relation = self.relation(&window.input)?;
        if relation.is_changing() {
            return Ok(None);
        }
        let columns = |expressions: &[Expr]| -> Option<Vec<usize>> {
            expressions.iter().map(|expression| as_column(expression, schema)).collect()
        };
        let Some(partition) = columns(&function.params.partition_by) else { return Ok(None) };
        let order_by: Vec<Expr> = function.params.order_by.iter().map(|by| by.expr.clone()).collect();
        let Some(order) = columns(&order_by) else {
            if self.takes_changes {
                return Ok(None);
            }
            return Err(refuse("the rows are numbered by an expression", "name it in a subquery"));
        };
        let role = |column: &usize| relation.roles[*column];
        let is_end = |column: &&usize| matches!(role(column), Role::WindowEnd(window) if window.is_computed);
        let Some(window_end) = partition.iter().find(is_end).copied() else { return Ok(None) };
        let order = order_of(&order, &function.params.order_by);
        let partitions = self.limits.partitions;
        let spec = TopSpec {
            schema: Arc::clone(&relation.schema),
            partition: partition.clone(),
            order,
            count,
            numbering,
            number_column: Some("number".into()),
            window_end,
            watermark: self.watermark(&relation, relation.roles[window_end].time_delay_ns().unwrap_or(0)),
            rows_max: self.rows_max(partitions),
            late: self.late.clone(),
        };
        let output = output_schema(&spec);
        let output = unique(&output);
        let name = format!("top {count} per window");
        let inputs = [(relation.stream, partition)];
        let stream = self.operator(&name, &inputs, partitions, Arc::clone(&output), move |_| {
            Box::new(Top::new(spec.clone()).expect("checked when it was planned"))
        });
        let mut roles = relation.roles.clone();
        roles.push(Role::None);
        let top = Relation { selection: None, stream, schema: output, roles, ordered: false, ..relation };
        Ok(Some(Relation { schema: schema_of(&window.schema), ..top }))
    }
}

/// `column <= n`, in any notation.
fn at_most(condition: &Expr) -> Option<(&Expr, usize)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let number = |value: &Expr| match value {
        Expr::Literal(value, _) => match value.cast_to(&arrow_schema::DataType::Int64) {
            Ok(ScalarValue::Int64(Some(number))) => usize::try_from(number).ok(),
            _ => None,
        },
        _ => None,
    };
    match op {
        Operator::LtEq => Some((left, number(right)?)),
        Operator::Lt => Some((left, number(right)?.checked_sub(1)?)),
        Operator::Eq => number(right).filter(|number| *number == 1).map(|number| (left.as_ref(), number)),
        Operator::GtEq => Some((right, number(left)?)),
        Operator::Gt => Some((right, number(left)?.checked_sub(1)?)),
        _ => None,
    }
}
