//! The first rows in an order, of all rows or of each partition: LIMIT, OFFSET, and conditions on `ROW_NUMBER()`.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, FetchType, Limit, LogicalPlan, SkipType, SortExpr, Window};
use tidemill_operators::changes::{ChangingTopSpec, Top, changelog_schema};
use tidemill_operators::top::Numbering;

use super::changing;
use crate::translate::columns::{extended, schema_of};
use crate::translate::{Relation, Translator, refuse, user};

/// Which rows are chosen.
struct Chosen<'a> {
    partition_by: &'a [Expr],
    order_by: &'a [SortExpr],
    skip: usize,
    fetch: Option<usize>,
    numbering: Numbering,
    /// The name of the column with the number of each row, if there is to be one.
    number_column: Option<String>,
}

impl Translator {
    /// LIMIT and OFFSET, in the order of the ORDER BY below them. Rows that it leaves equal are ordered by their columns.
    pub(in crate::translate) fn limit(&mut self, limit: &Limit) -> Result<Relation> {
        if let Some(inner) = pushed_to_order(limit)? {
            return self.output(&inner);
        }
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Err(refuse("LIMIT and OFFSET are not constants", "write numbers"));
        };
        let (order_by, input): (&[SortExpr], _) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => (&sort.expr, &sort.input),
            _ => (&[], &limit.input),
        };
        let relation = self.output(input)?;
        let numbering = Numbering::RowNumber;
        let chosen = Chosen { partition_by: &[], order_by, skip, fetch, numbering, number_column: None };
        self.chosen(relation, input.schema(), chosen)
    }

    /// The first rows of each partition, with their numbers.
    pub(in crate::translate) fn changing_first_rows(
        &mut self,
        window: &Window,
        function: &WindowFunction,
        (numbering, count): (Numbering, usize),
    ) -> Result<Relation> {
        let relation = self.output(&window.input)?;
        let number = window.schema.fields().len() - 1;
        let chosen = Chosen {
            partition_by: &function.params.partition_by,
            order_by: &function.params.order_by,
            skip: 0,
            fetch: Some(count),
            numbering,
            number_column: Some(window.schema.field(number).name().clone()),
        };
        let top = self.chosen(relation, window.input.schema(), chosen)?;
        Ok(Relation { schema: schema_of(&window.schema), ..top })
    }

    fn chosen(&mut self, relation: Relation, schema: &DFSchema, chosen: Chosen<'_>) -> Result<Relation> {
        let relation = self.changelog(relation)?;
        let columns = schema.fields().len();
        let by = (chosen.partition_by, chosen.order_by);
        let (rows, partition, order) = self.divided_and_ordered(relation, schema, by)?;
        let partitions = self.partitions(partition.len());
        let spec = ChangingTopSpec {
            schema: Arc::clone(&rows.schema),
            changes: rows.is_changing(),
            partition: partition.clone(),
            order,
            skip: chosen.skip,
            fetch: chosen.fetch,
            numbering: chosen.numbering,
            number_column: chosen.number_column.clone(),
            rows_max: self.rows_max(partitions),
        };
        Top::new(spec.clone()).map_err(user)?;
        let number = chosen.number_column.clone().map(|name| (name, arrow_schema::DataType::UInt64));
        let output = extended(&rows.schema, number);
        let name = match chosen.fetch {
            Some(count) => format!("top {count} of changes"),
            None => format!("all but {} of changes", chosen.skip),
        };
        let inputs = [(rows.stream, partition)];
        let (written, faults) = (changelog_schema(&output), self.faults.clone());
        let stream = self.operator(&name, &inputs, partitions, written, move |_| {
            let top = Top::new(spec.clone()).expect("checked when it was planned");
            Box::new(top.faults(faults.clone()))
        });
        let computed = rows.schema.fields().len();
        let top = changing(rows, stream, output);
        let places: Vec<usize> = (0..columns).chain(chosen.number_column.map(|_| computed)).collect();
        let names = DFSchema::try_from(top.schema.project(&places)?)?;
        self.select(top, &places, &names)
    }
}

/// Returns the plan in which a limit stands directly above the order that it counts in, below projections and aliases, which give
/// a row for each; `None` if there is nothing between them.
fn pushed_to_order(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let (LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_)) = limit.input.as_ref() else {
        return Ok(None);
    };
    if !is_of_ordered_rows(&limit.input) {
        return Ok(None);
    }
    let inputs = limit
        .input
        .inputs()
        .into_iter()
        .map(|input| LogicalPlan::Limit(Limit { input: Arc::new(input.clone()), ..limit.clone() }));
    let inputs = inputs.collect();
    limit.input.with_new_exprs(limit.input.expressions(), inputs).map(Some)
}

fn is_of_ordered_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_of_ordered_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_of_ordered_rows(&alias.input),
        _ => false,
    }
}
