//! A subquery, computed for all values of the outer columns that it reads: each of its nodes gets these columns, in front of its own. The
//! rules are those of dependent joins (Neumann and Kemper, Unnesting Arbitrary Queries, 2015).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, TableReference};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Expr, ExprFunctionExt, FetchType, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, SkipType, Sort, SortExpr, Subquery, Union, Window, lit, when,
};
use tidemill_trees::nodes::{PlanTree, Tree};

use super::is_same;
use super::references::{Reference, of_subquery, references};

/// The column that numbers the rows of an outer row.
const NUMBER: &str = "__number";

/// The values of outer columns, and what reads them.
pub(super) struct Dependent {
    read: Vec<Reference>,
    /// The name of the relation that has the values.
    name: TableReference,
    /// One row for each combination of values.
    domain: LogicalPlan,
}

impl Dependent {
    /// Those of a domain of this name, which has a column for each reference.
    pub fn new(read: Vec<Reference>, name: TableReference, domain: LogicalPlan) -> Dependent {
        Dependent { read, name, domain }
    }

    /// Returns the columns that have the values.
    pub fn columns(&self) -> Vec<Expr> {
        (0..self.read.len()).map(|at| Expr::Column(self.column(at))).collect()
    }

    fn column(&self, at: usize) -> Column {
        Column::new(Some(self.name.clone()), format!("c{at}"))
    }

    /// Returns the rows of a plan for each of the values, which stand in front of its columns; `None`: there is no rule for a part of it.
    pub fn pushed(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if !self.is_read_by(plan)? {
            let pairs = LogicalPlanBuilder::from(self.domain.clone()).cross_join(plan.clone())?;
            return pairs.build().map(Some);
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.pushed(&projection.input)? else { return Ok(None) };
                let own = self.replaced(plan, projection.expr.clone(), projection.input.schema())?;
                let selected = self.columns().into_iter().chain(own).collect();
                Ok(Some(LogicalPlan::Projection(Projection::try_new(selected, Arc::new(input))?)))
            }
            LogicalPlan::Filter(filter) => {
                let Some(input) = self.pushed(&filter.input)? else { return Ok(None) };
                let predicate = self.replaced_in(filter.predicate.clone(), filter.input.schema())?;
                Ok(Some(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)))
            }
            LogicalPlan::SubqueryAlias(alias) => match self.pushed(&alias.input)? {
                Some(input) => self.renamed(input, &alias.alias).map(Some),
                None => Ok(None),
            },
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Sort(sort) => {
                let Some(input) = self.pushed(&sort.input)? else { return Ok(None) };
                let expr = self.orders(&sort.expr, sort.input.schema())?;
                Ok(Some(LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: None })))
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                Ok(self.pushed(input)?.map(|input| LogicalPlan::Distinct(Distinct::All(Arc::new(input)))))
            }
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Unnest(unnest) => match self.pushed(&unnest.input)? {
                Some(input) => plan.with_new_exprs(Vec::new(), vec![input]).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn is_read_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let read = references(plan)?;
        Ok(read.iter().any(|one| self.read.iter().any(|known| known.column == one.column)))
    }

    /// Returns pushed rows whose own columns belong to a relation of this name.
    pub fn renamed(&self, pushed: LogicalPlan, name: &TableReference) -> Result<LogicalPlan> {
        let own = pushed.schema().columns().into_iter().skip(self.read.len()).map(|column| {
            let own = column.name.clone();
            Expr::Column(column).alias_qualified(Some(name.clone()), own)
        });
        let selected = self.columns().into_iter().chain(own).collect::<Vec<_>>();
        Ok(LogicalPlan::Projection(Projection::try_new(selected, Arc::new(pushed))?))
    }

    /// Returns pushed rows with the columns of `schema` behind the values, whatever they are called.
    fn with_names(&self, pushed: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
        let given = pushed.schema().columns().into_iter().map(Expr::Column);
        let values = (0..self.read.len()).map(|at| (Some(self.name.clone()), format!("c{at}")));
        let own = schema.columns().into_iter().map(|column| (column.relation, column.name));
        let named = given.zip(values.chain(own));
        let selected = named.map(|(column, (relation, name))| column.alias_qualified(relation, name));
        let selected = selected.collect::<Vec<_>>();
        Ok(LogicalPlan::Projection(Projection::try_new(selected, Arc::new(pushed))?))
    }

    /// Returns expressions of a node that read the values in place of outer columns. They keep their names.
    fn replaced(&self, node: &LogicalPlan, expressions: Vec<Expr>, rows: &DFSchema) -> Result<Vec<Expr>> {
        let names = NamePreserver::new(node);
        let replaced = expressions.into_iter().map(|expression| {
            let name = names.save(&expression);
            Ok(name.restore(self.replaced_in(expression, rows)?))
        });
        replaced.collect()
    }

    /// The same for an expression over these rows, and for the subqueries in it.
    fn replaced_in(&self, expression: Expr, rows: &DFSchema) -> Result<Expr> {
        expression
            .rewrite_up(|part| match part {
                Expr::OuterReferenceColumn(field, column) => Ok(match self.place(&column) {
                    Some(at) => Transformed::yes(Expr::Column(self.column(at))),
                    None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                }),
                Expr::ScalarSubquery(subquery) => {
                    Ok(Transformed::yes(Expr::ScalarSubquery(self.within(&subquery, rows)?)))
                }
                Expr::Exists(part) => {
                    let subquery = self.within(&part.subquery, rows)?;
                    Ok(Transformed::yes(Expr::Exists(Exists { subquery, ..part })))
                }
                Expr::InSubquery(part) => {
                    let subquery = self.within(&part.subquery, rows)?;
                    Ok(Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..part })))
                }
                Expr::SetComparison(part) => {
                    let subquery = self.within(&part.subquery, rows)?;
                    Ok(Transformed::yes(Expr::SetComparison(SetComparison { subquery, ..part })))
                }
                part => Ok(Transformed::no(part)),
            })
            .data()
    }
    fn place(&self, column: &Column) -> Option<usize> {
        self.read.iter().position(|known| known.column == *column)
    }

    /// Returns a subquery over such rows, in which the outer columns that these rows do not hide are those of the values.
    fn within(&self, subquery: &Subquery, rows: &DFSchema) -> Result<Subquery> {
        let plan = subquery.subquery.as_ref().clone().rewrite_up_with_subqueries(|node| {
            node.rewrite_expressions(|expression| {
                expression.rewrite_up(|part| match part {
                    Expr::OuterReferenceColumn(field, column) if !rows.has_column(&column) => {
                        Ok(match self.place(&column) {
                            Some(at) => Transformed::yes(Expr::OuterReferenceColumn(field, self.column(at))),
                            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                        })
                    }
                    part => Ok(Transformed::no(part)),
                })
            })
        });
        of_subquery(subquery, plan.data()?)
    }

    fn orders(&self, orders: &[SortExpr], rows: &DFSchema) -> Result<Vec<SortExpr>> {
        let replaced = orders
            .iter()
            .map(|order| Ok(SortExpr { expr: self.replaced_in(order.expr.clone(), rows)?, ..order.clone() }));
        replaced.collect()
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
        let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
        let Some(input) = self.pushed(&aggregate.input)?.filter(|_| !has_sets) else { return Ok(None) };
        let node = LogicalPlan::Aggregate(aggregate.clone());
        let rows = aggregate.input.schema();
        let values = self.replaced(&node, aggregate.aggr_expr.clone(), rows)?;
        if !aggregate.group_expr.is_empty() {
            let keys = self.replaced(&node, aggregate.group_expr.clone(), rows)?;
            let keys = self.columns().into_iter().chain(keys).collect();
            let grouped = Aggregate::try_new(Arc::new(input), keys, values)?;
            return Ok(Some(LogicalPlan::Aggregate(grouped)));
        }
        let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::clone(input.schema()),
        });
        let grouped = Aggregate::try_new(Arc::new(input), self.columns(), values.clone())?;
        let of_nothing = Aggregate::try_new(Arc::new(nothing), Vec::new(), values)?;
        self.with_rows_of_nothing(grouped, of_nothing, aggregate).map(Some)
    }

    /// Returns one row for each of the values: that of its group, or that which an aggregate has for no rows.
    fn with_rows_of_nothing(
        &self,
        grouped: Aggregate,
        of_nothing: Aggregate,
        aggregate: &Aggregate,
    ) -> Result<LogicalPlan> {
        let keys = self.read.len();
        let own = aggregate.schema.columns();
        let named = |plan: LogicalPlan, skipped: usize| -> Vec<Expr> {
            let columns = plan.schema().columns().into_iter().skip(skipped).enumerate();
            columns.map(|(at, column)| Expr::Column(column).alias(format!("a{at}"))).collect()
        };
        let (grouped, of_nothing) = (LogicalPlan::Aggregate(grouped), LogicalPlan::Aggregate(of_nothing));
        let key = |at: usize| Expr::Column(self.column(at)).alias(format!("k{at}"));
        let mut selected: Vec<Expr> = (0..keys).map(key).collect();
        selected.extend(named(grouped.clone(), keys));
        selected.push(lit(true).alias("is_there"));
        let (group_name, nothing_name) = (self.named("group"), self.named("nothing"));
        let groups =
            LogicalPlanBuilder::from(grouped).project(selected)?.alias(group_name.clone())?.build()?;
        let selected = named(of_nothing.clone(), 0);
        let nothing =
            LogicalPlanBuilder::from(of_nothing).project(selected)?.alias(nothing_name.clone())?.build()?;
        let read =
            |name: &TableReference, column: String| Expr::Column(Column::new(Some(name.clone()), column));
        let same =
            (0..keys).map(|at| is_same(Expr::Column(self.column(at)), read(&group_name, format!("k{at}"))));
        let joined = LogicalPlanBuilder::from(self.domain.clone())
            .join_on(groups, JoinType::Left, same.collect::<Vec<_>>())?
            .cross_join(nothing)?;
        let is_missing = read(&group_name, "is_there".to_owned()).is_null();
        let values = own.into_iter().enumerate().map(|(at, column)| {
            let (of_group, of_nothing) =
                (read(&group_name, format!("a{at}")), read(&nothing_name, format!("a{at}")));
            let value = when(is_missing.clone(), of_nothing).otherwise(of_group)?;
            Ok(value.alias_qualified(column.relation, column.name))
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        joined.project(self.columns().into_iter().chain(values).collect::<Vec<_>>())?.build()
    }

    /// Returns a name that belongs to these values.
    fn named(&self, what: &str) -> TableReference {
        TableReference::bare(format!("{}_{what}", self.name.table()))
    }

    fn join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let is_lateral =
            |side: &LogicalPlan| side.contains(|node| Ok(matches!(node, LogicalPlan::Subquery(_))));
        if is_lateral(&join.left)? || is_lateral(&join.right)? {
            return Ok(None);
        }
        let (reads_left, reads_right) = (self.is_read_by(&join.left)?, self.is_read_by(&join.right)?);
        let (left, right) = match join.join_type {
            JoinType::Inner => (reads_left || !reads_right, reads_right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (true, reads_right)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (reads_left, true)
            }
            JoinType::Full => return Ok(None),
        };
        let keeps_left =
            !matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let keeps_right =
            !matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        let pushed = |is_pushed: bool, side: &LogicalPlan| {
            if is_pushed { self.pushed(side) } else { Ok(Some(side.clone())) }
        };
        let (Some(mut left_side), Some(mut right_side)) =
            (pushed(left, &join.left)?, pushed(right, &join.right)?)
        else {
            return Ok(None);
        };
        let rows = merge_schema(&[&join.left, &join.right]);
        let mut conditions = Vec::new();
        if let Some(filter) = &join.filter {
            conditions.push(self.replaced_in(filter.clone(), &rows)?);
        }
        if left && right {
            // The values of the side that is kept have their names.
            let other = self.named("other");
            let from_left = keeps_left && join.join_type != JoinType::Right;
            let side = if from_left { &mut right_side } else { &mut left_side };
            *side = self.with_other_names(side.clone(), &other)?;
            for at in 0..self.read.len() {
                let renamed = Expr::Column(Column::new(Some(other.clone()), format!("c{at}")));
                conditions.push(is_same(Expr::Column(self.column(at)), renamed));
            }
        }
        let on = join.on.iter().map(|(one, same)| {
            Ok((self.replaced_in(one.clone(), &rows)?, self.replaced_in(same.clone(), &rows)?))
        });
        // Pairs of NULLs are joined in one way or the other, for all columns alike.
        let mut on = on.collect::<Result<Vec<_>>>()?;
        let mut null_equality = join.null_equality;
        if left && right && !on.is_empty() {
            let same = std::mem::take(&mut on).into_iter().map(|(one, other)| match null_equality {
                NullEquality::NullEqualsNull => is_same(one, other),
                NullEquality::NullEqualsNothing => one.eq(other),
            });
            conditions.extend(same);
            null_equality = NullEquality::NullEqualsNothing;
        }
        let joined = LogicalPlan::Join(Join::try_new(
            Arc::new(left_side),
            Arc::new(right_side),
            on,
            conjunction(conditions),
            join.join_type,
            JoinConstraint::On,
            null_equality,
            join.null_aware,
        )?);
        debug_assert!(keeps_left || keeps_right);
        let own = join.schema.columns().into_iter().map(Expr::Column);
        let selected = self.columns().into_iter().chain(own).collect::<Vec<_>>();
        LogicalPlanBuilder::from(joined).project(selected)?.build().map(Some)
    }

    /// Returns pushed rows whose values have another relation's name.
    fn with_other_names(&self, pushed: LogicalPlan, name: &TableReference) -> Result<LogicalPlan> {
        let columns = pushed.schema().columns().into_iter().enumerate().map(|(at, column)| {
            if at < self.read.len() {
                Expr::Column(column).alias_qualified(Some(name.clone()), format!("c{at}"))
            } else {
                Expr::Column(column)
            }
        });
        let columns = columns.collect::<Vec<_>>();
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(pushed))?))
    }

    /// Numbers the rows of each outer row, and keeps some of them.
    fn limit(&self, limit: &Limit) -> Result<Option<LogicalPlan>> {
        // The order is that of rows below the choice of columns.
        let below = |input: &LogicalPlan| {
            LogicalPlan::Limit(Limit { input: Arc::new(input.clone()), ..limit.clone() })
        };
        match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => {
                let input = Arc::new(below(&projection.input));
                let projection = Projection::try_new(projection.expr.clone(), input)?;
                return self.pushed(&LogicalPlan::Projection(projection));
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = below(&alias.input);
                let plan = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
                return self.pushed(&plan);
            }
            _ => {}
        }
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let (rows, orders) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => (sort.input.as_ref(), self.orders(&sort.expr, sort.input.schema())?),
            // Some rows, but the same ones each time.
            other => {
                let by = |column| Expr::Column(column).sort(true, false);
                (other, other.schema().columns().into_iter().map(by).collect())
            }
        };
        let Some(pushed) = self.pushed(rows)? else { return Ok(None) };
        let columns: Vec<Expr> = pushed.schema().columns().into_iter().map(Expr::Column).collect();
        let number = row_number().partition_by(self.columns()).order_by(orders).build()?.alias(NUMBER);
        let read = || Expr::Column(Column::new_unqualified(NUMBER));
        let number_of = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
        let mut condition = read().gt(number_of(skip));
        if let Some(fetch) = fetch {
            condition = condition.and(read().lt_eq(number_of(skip.saturating_add(fetch))));
        }
        let numbered = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(pushed))?);
        LogicalPlanBuilder::from(numbered).filter(condition)?.project(columns)?.build().map(Some)
    }

    fn union(&self, union: &Union) -> Result<Option<LogicalPlan>> {
        let mut inputs = Vec::new();
        for input in &union.inputs {
            let Some(pushed) = self.pushed(input)? else { return Ok(None) };
            inputs.push(Arc::new(pushed));
        }
        let united = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        self.with_names(united, &union.schema).map(Some)
    }

    fn window(&self, window: &Window) -> Result<Option<LogicalPlan>> {
        let Some(input) = self.pushed(&window.input)? else { return Ok(None) };
        let node = LogicalPlan::Window(window.clone());
        let calls = self.replaced(&node, window.window_expr.clone(), window.input.schema())?;
        let calls = calls.into_iter().zip(&window.window_expr).map(|(call, written)| {
            let (relation, name) = written.qualified_name();
            let divided = call.rewrite_up(|part| match part {
                Expr::WindowFunction(mut call) => {
                    call.params.partition_by.splice(0..0, self.columns());
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                }
                part => Ok(Transformed::no(part)),
            })?;
            Ok(divided.data.unalias().alias_qualified(relation, name))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        Ok(Some(LogicalPlan::Window(Window::try_new(calls, Arc::new(input))?)))
    }
}
