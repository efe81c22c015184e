//! A query over one sub-stream as a query over all of them: the number of the sub-stream is one more column, by which
//! everything that looks at several rows is divided. Joins compare it, groups and running functions contain it.
//!
//! So a query over sub-streams is planned, optimised, divided among workers and kept in snapshots like any other.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Extension, Filter, Join, LogicalPlan, Projection, SubqueryAlias, Union,
    Unnest, UserDefinedLogicalNodeCore, Window,
};

use super::count_windows::CountWindowsNode;
use super::marked::{Mark, Marked};
use super::operator_call::OperatorCall;
use super::split_stream::SplitStream;
use super::window_assign::WindowAssign;
use crate::logical::node_of;
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

/// Tells the sub-streams of one `mapstream` from those of others.
#[derive(Clone, Debug)]
pub(super) struct SubStreamMark(Arc<()>);

impl SubStreamMark {
    pub fn new() -> Self {
        SubStreamMark(Arc::new(()))
    }
}

impl PartialEq for SubStreamMark {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SubStreamMark {}

impl std::hash::Hash for SubStreamMark {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl PartialOrd for SubStreamMark {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (self == other).then_some(std::cmp::Ordering::Equal)
    }
}

impl Mark for SubStreamMark {
    const NAME: &'static str = "SubStream";

    fn shown(&self, _schema: &DFSchema) -> String {
        String::new()
    }
}

/// A sub-stream where a query names it. It is gone when the query has been lifted.
pub(super) type SubStream = Marked<SubStreamMark>;

/// A plan with the number of the sub-stream that each of its rows comes from.
struct Lifted {
    plan: LogicalPlan,
    number: Column,
}

/// The rows that a query gives on each of the sub-streams.
pub(super) fn on_each(query: &LogicalPlan, mark: &SubStreamMark) -> Result<LogicalPlan> {
    if !reads(query, mark)? {
        return Err(refuse(
            "the query of mapstream does not read the sub-streams, so it is the same for all of them",
            "read the sub-stream in FROM: mapstream(splitstream(...), (SELECT ... FROM sub))",
        ));
    }
    let lifted = Lift { mark }.plan(query)?;
    let columns = query.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(lifted.plan))?))
}

/// Whether a plan contains one of the sub-streams, also in a subquery.
fn reads(plan: &LogicalPlan, mark: &SubStreamMark) -> Result<bool> {
    let mut found = false;
    plan.look_through_with_subqueries(|node| {
        found |= node_of::<SubStream>(node).is_some_and(|stream| stream.mark == *mark);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

struct Lift<'a> {
    mark: &'a SubStreamMark,
}

impl Lift<'_> {
    /// A plan that reads the sub-streams.
    fn plan(&self, plan: &LogicalPlan) -> Result<Lifted> {
        self.check_subqueries(plan)?;
        match plan {
            LogicalPlan::Extension(extension) => self.extension(extension, plan),
            LogicalPlan::SubqueryAlias(alias) => {
                let Lifted { plan, number } = self.plan(&alias.input)?;
                let plan = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
                let number = Column::new(Some(alias.alias.clone()), number.name);
                Ok(Lifted { plan: LogicalPlan::SubqueryAlias(plan), number })
            }
            LogicalPlan::Projection(projection) => {
                let Lifted { plan, number } = self.plan(&projection.input)?;
                let columns = projection.expr.iter().cloned().chain([Expr::Column(number.clone())]).collect();
                let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
                Ok(Lifted { plan, number })
            }
            LogicalPlan::Filter(filter) => {
                let Lifted { plan, number } = self.plan(&filter.input)?;
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(plan))?;
                Ok(Lifted { plan: LogicalPlan::Filter(filter), number })
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (plan, number) = self.columns_of(input)?;
                Ok(Lifted { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), number })
            }
            LogicalPlan::Unnest(unnest) => {
                let Lifted { plan, number } = self.plan(&unnest.input)?;
                let columns = unnest.exec_columns.clone();
                let unnest = Unnest::try_new(Arc::new(plan), columns, unnest.options.clone())?;
                Ok(Lifted { plan: LogicalPlan::Unnest(unnest), number })
            }
            LogicalPlan::Limit(_) => Err(refuse(
                "LIMIT within mapstream would end each sub-stream by itself",
                "write LIMIT at the end of the whole query, or number the rows of each window with ROW_NUMBER()",
            )),
            LogicalPlan::Distinct(Distinct::On(_)) => Err(refuse(
                "DISTINCT ON within mapstream keeps the first row in an order, and a sub-stream has no final order",
                "number the rows of each window with ROW_NUMBER() and keep the first",
            )),
            LogicalPlan::Subquery(_) => Err(refuse(
                "a subquery that depends on the outer row cannot run on each sub-stream",
                "write it as a join",
            )),
            other => Err(refuse(
                format!("{} cannot run on each sub-stream", other.display()),
                "write it around mergestream",
            )),
        }
    }

    /// The sub-streams themselves, and the functions of FROM around them.
    fn extension(&self, extension: &Extension, plan: &LogicalPlan) -> Result<Lifted> {
        if let Some(stream) = node_of::<SubStream>(plan)
            && let Some(split) = node_of::<SplitStream>(&stream.input)
        {
            let (split, number) = split.numbered()?;
            return Ok(Lifted { plan: node(split), number });
        }
        if let Some(assign) = node_of::<WindowAssign>(plan) {
            let Lifted { plan, number } = self.plan(&assign.input)?;
            return Ok(Lifted { plan: node(assign.with_exprs_and_inputs(Vec::new(), vec![plan])?), number });
        }
        if let Some(windows) = node_of::<CountWindowsNode>(plan) {
            let Lifted { plan, number } = self.plan(&windows.input)?;
            return Ok(Lifted { plan: node(windows.divided(plan, number.clone())?), number });
        }
        if node_of::<SplitStream>(plan).is_some() {
            return Err(refuse(
                "a sub-stream cannot be split again within mapstream",
                "split once, by both: splitstream(TABLE(t), 12, route => a * 4 + b)",
            ));
        }
        if let Some(call) = node_of::<OperatorCall>(plan) {
            return Err(refuse(
                format!("{}() cannot be called within the query of mapstream", call.name),
                "apply the operator itself to the sub-streams: mergestream(operator(splitstream(...)))",
            ));
        }
        Err(refuse(
            format!("{} cannot run on each sub-stream", extension.node.name()),
            "write it around mergestream, or before the split",
        ))
    }

    /// Each sub-stream has groups of its own.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<Lifted> {
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(refuse(
                "GROUPING SETS, CUBE and ROLLUP are not supported within mapstream",
                "write one query for each",
            ));
        }
        let Lifted { plan, number } = self.plan(&aggregate.input)?;
        let groups = aggregate.group_expr.iter().cloned().chain([Expr::Column(number.clone())]).collect();
        let aggregate = Aggregate::try_new(Arc::new(plan), groups, aggregate.aggr_expr.clone())?;
        Ok(Lifted { plan: LogicalPlan::Aggregate(aggregate), number })
    }

    /// Functions with OVER run in each sub-stream separately. Their columns keep their names, which contain the
    /// expression.
    fn window(&self, window: &Window) -> Result<Lifted> {
        let Lifted { plan, number } = self.plan(&window.input)?;
        let divide = |part: Expr| match part {
            Expr::WindowFunction(mut function) => {
                function.params.partition_by.push(Expr::Column(number.clone()));
                Ok(Transformed::yes(Expr::WindowFunction(function)))
            }
            other => Ok(Transformed::no(other)),
        };
        let functions =
            window.window_expr.iter().cloned().map(|function| Ok(function.rewrite_up(divide)?.data));
        let divided = Window::try_new(functions.collect::<Result<_>>()?, Arc::new(plan))?;
        let first = divided.input.schema().fields().len();
        let columns = divided.schema.columns();
        let names = window.schema.fields().iter().skip(window.input.schema().fields().len());
        let named = columns[first..].iter().zip(names);
        let named = named.map(|(column, field)| Expr::Column(column.clone()).alias(field.name()));
        let all = columns[..first].iter().cloned().map(Expr::Column).chain(named).collect();
        let divided = Arc::new(LogicalPlan::Window(divided));
        Ok(Lifted { plan: LogicalPlan::Projection(Projection::try_new(all, divided)?), number })
    }

    /// Rows of a sub-stream meet rows of the same sub-stream, and all rows of what is not split.
    fn join(&self, join: &Join) -> Result<Lifted> {
        let (reads_left, reads_right) = (reads(&join.left, self.mark)?, reads(&join.right, self.mark)?);
        let is_possible = match join.join_type {
            JoinType::Inner => true,
            JoinType::Left => reads_left,
            JoinType::Right => reads_right,
            _ => false,
        };
        if !is_possible {
            return Err(refuse(
                "within mapstream, a join that keeps unmatched rows of what is not split would keep them once for \
                 each sub-stream",
                "begin with the sub-stream: FROM sub LEFT JOIN other ON ...",
            ));
        }
        let side = |plan: &Arc<LogicalPlan>, reads: bool| {
            if reads {
                self.plan(plan).map(|lifted| (Arc::new(lifted.plan), Some(lifted.number)))
            } else {
                Ok((Arc::clone(plan), None))
            }
        };
        let (left, left_number) = side(&join.left, reads_left)?;
        let (right, right_number) = side(&join.right, reads_right)?;
        let (mut on, mut right) = (join.on.clone(), right);
        let number = match (left_number, right_number) {
            (Some(number), Some(of_right)) => {
                let (renamed, of_right) = with_other_name(&right, &of_right, left.schema())?;
                right = Arc::new(renamed);
                on.push((Expr::Column(number.clone()), Expr::Column(of_right.clone())));
                if join.join_type == JoinType::Right { of_right } else { number }
            }
            (number, of_right) => number.or(of_right).expect("a side reads the sub-streams"),
        };
        let join = Join::try_new(
            left,
            right,
            on,
            join.filter.clone(),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Lifted { plan: LogicalPlan::Join(join), number })
    }

    fn union(&self, union: &Union) -> Result<Lifted> {
        let mut inputs = Vec::new();
        for input in &union.inputs {
            if !reads(input, self.mark)? {
                return Err(refuse(
                    "a part of the UNION ALL within mapstream does not read the sub-streams, so its rows would be \
                     there once for each of them",
                    "unite it with the result: SELECT ... FROM mergestream(...) UNION ALL SELECT ...",
                ));
            }
            inputs.push(Arc::new(self.columns_of(input)?.0));
        }
        let last = Arc::new(Field::new(UNITED, DataType::Int64, true));
        let fields = union.schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(fields.chain([(None, last)]).collect(), Default::default())?;
        let plan = LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) });
        Ok(Lifted { plan, number: Column::new_unqualified(UNITED) })
    }

    /// A plan's own columns in their order, and then the number, unqualified.
    fn columns_of(&self, plan: &LogicalPlan) -> Result<(LogicalPlan, Column)> {
        let lifted = self.plan(plan)?;
        let number = Expr::Column(lifted.number).alias(UNITED);
        let columns = plan.schema().columns().into_iter().map(Expr::Column).chain([number]).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(lifted.plan))?);
        Ok((plan, Column::new_unqualified(UNITED)))
    }

    /// A value from all rows of a sub-stream would have to be computed for each sub-stream.
    fn check_subqueries(&self, plan: &LogicalPlan) -> Result<()> {
        plan.look_through_expressions(|expression| {
            expression.look_through(|part| {
                let subquery = match part {
                    Expr::ScalarSubquery(subquery) => Some(subquery),
                    Expr::Exists(exists) => Some(&exists.subquery),
                    Expr::InSubquery(within) => Some(&within.subquery),
                    Expr::SetComparison(compared) => Some(&compared.subquery),
                    _ => None,
                };
                match subquery {
                    Some(subquery) if reads(&subquery.subquery, self.mark)? => Err(refuse(
                        "a subquery inside an expression cannot read a sub-stream",
                        "write it as a join",
                    )),
                    _ => Ok(TreeNodeRecursion::Continue),
                }
            })
        })?;
        Ok(())
    }
}

/// The name of the number where the qualifiers of columns are lost.
const UNITED: &str = "sub-stream";

fn node(node: impl UserDefinedLogicalNodeCore) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// The right side of a join whose number has a name that the left side does not have.
fn with_other_name(
    right: &Arc<LogicalPlan>,
    number: &Column,
    left: &DFSchema,
) -> Result<(LogicalPlan, Column)> {
    let is_free = |name: &String| {
        [left, right.schema()].iter().all(|schema| !schema.has_column_with_unqualified_name(name))
    };
    let name = (2..).map(|count| format!("{UNITED} {count}")).find(is_free).expect("names do not end");
    let qualifier = TableReference::bare("mapstream");
    let columns = right.schema().columns().into_iter().map(|column| {
        if column == *number {
            Expr::Column(column).alias_qualified(Some(qualifier.clone()), &name)
        } else {
            Expr::Column(column)
        }
    });
    let plan = Projection::try_new(columns.collect(), Arc::clone(right))?;
    Ok((LogicalPlan::Projection(plan), Column::new(Some(qualifier), name)))
}
