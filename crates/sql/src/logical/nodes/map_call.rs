//! `mapstream(...)` in FROM: a query that is applied to each sub-stream (thesis, Paper IV, section 3).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, Query, TableFactor, Visitor};
use parking_lot::{Mutex, MutexGuard};

use super::call_arguments::table_of;
use super::lift::{SubStream, SubStreamMark, on_each};
use super::split_stream::SplitStream;
use crate::logical::node_of;
use crate::refusal::{refuse, refuse_at};
use tidemill_trees::syntax::walk;

const USAGE: &str = "mapstream(splitstream(TABLE(clicks), 4, route => n % 4), (SELECT page, count(*) FROM sub \
    GROUP BY page))";
/// The name of a sub-stream that has no other.
const SUB: &str = "sub";

/// The sub-streams that a query can name, for each `mapstream` around the place that is being planned.
#[derive(Debug, Default)]
pub(crate) struct Scopes(Mutex<Vec<BTreeMap<String, LogicalPlan>>>);

impl Scopes {
    /// The sub-stream with this name.
    pub fn find(&self, name: &str) -> Option<LogicalPlan> {
        self.lock().iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// Plans something within a scope.
    fn within<T>(&self, scope: BTreeMap<String, LogicalPlan>, plan: impl FnOnce() -> T) -> T {
        self.lock().push(scope);
        let planned = plan();
        self.lock().pop();
        planned
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BTreeMap<String, LogicalPlan>>> {
        self.0.lock()
    }
}

/// The arguments of a call.
struct Call {
    /// The sub-streams by the names that the query gives them.
    streams: Vec<(String, TableFactor)>,
    query: Box<Query>,
}

/// `mapstream(splitstream(...), (SELECT ... FROM sub))`, or with several streams, each with a name:
/// `mapstream(a => splitstream(...), b => splitstream(...), (SELECT ... FROM a JOIN b ...))`
pub(super) fn mapstream(
    args: Vec<FunctionArg>,
    scopes: &Scopes,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let call = sort_arguments(args, context)?;
    check_names(&call, context)?;
    if call.query.order_by.is_some() {
        return Err(refuse(
            "ORDER BY within mapstream has no effect, because mergestream unites the rows in the order of the events \
             that caused them",
            "write ORDER BY at the end of the whole query",
        ));
    }
    let mark = SubStreamMark::new();
    let (mut scope, mut partitions) = (BTreeMap::new(), None);
    for (name, table) in call.streams {
        let plan = context.plan(table)?;
        let Some(split) = node_of::<SplitStream>(&plan) else {
            return plan_err!("mapstream applies a query to sub-streams, but {name} is not split: {USAGE}");
        };
        if *partitions.get_or_insert(split.partitions) != split.partitions {
            return Err(refuse(
                "the inputs of mapstream are not split into equally many sub-streams",
                "split an input whose rows every sub-stream needs with splitstream(TABLE(t), n, broadcast => true)",
            ));
        }
        let marked = SubStream::plan(mark.clone(), plan);
        scope.insert(name.clone(), LogicalPlanBuilder::from(marked).alias(name)?.build()?);
    }
    let query = TableFactor::Derived { lateral: false, subquery: call.query, alias: None, sample: None };
    let planned = scopes.within(scope, || context.plan(query))?;
    on_each(&planned, &mark)
}

/// Whether a relation is a call of `mapstream`.
pub(super) fn is_mapped(table: &TableFactor) -> bool {
    let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) = table else {
        return false;
    };
    let name = name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value.eq_ignore_ascii_case("mapstream"))
}

fn sort_arguments(args: Vec<FunctionArg>, context: &dyn RelationPlannerContext) -> Result<Call> {
    let (mut streams, mut queries) = (Vec::new(), Vec::new());
    for arg in args {
        let (name, arg) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Subquery(query))) => {
                queries.push(query);
                continue;
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => (SUB.to_owned(), arg),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. } => {
                (context.normalize_ident(name), arg)
            }
            other => return plan_err!("mapstream() does not take the argument {other}: {USAGE}"),
        };
        let Some(table) = table_of(&arg, true) else {
            return plan_err!("mapstream takes sub-streams and a query, found {arg}: {USAGE}");
        };
        if streams.iter().any(|(known, _)| *known == name) {
            return Err(refuse(
                format!("mapstream has two sub-streams with the name {name}"),
                "give each a name: mapstream(a => splitstream(...), b => splitstream(...), (SELECT * FROM a JOIN b ON \
                 ...))",
            ));
        }
        streams.push((name, table));
    }
    match (queries.len(), queries.pop()) {
        (1, Some(query)) if !streams.is_empty() => Ok(Call { streams, query }),
        _ => plan_err!("mapstream takes sub-streams and one query in parentheses: {USAGE}"),
    }
}

/// A name that means two things would be read in one of them.
fn check_names(call: &Call, context: &dyn RelationPlannerContext) -> Result<()> {
    let hidden = walk(&call.query, &mut Hiding { streams: &call.streams, context });
    let ControlFlow::Break(name) = hidden else { return Ok(()) };
    Err(refuse_at(
        name.span,
        format!("{name} is a sub-stream of mapstream, and WITH gives the name to something else"),
        "use another name in WITH",
    ))
}

/// Looks for a WITH that has the name of a sub-stream.
struct Hiding<'a> {
    streams: &'a [(String, TableFactor)],
    context: &'a dyn RelationPlannerContext,
}

impl Visitor for Hiding<'_> {
    type Break = ast::Ident;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<ast::Ident> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| &table.alias.name);
        for name in names {
            let normal = self.context.normalize_ident(name.clone());
            if self.streams.iter().any(|(stream, _)| *stream == normal) {
                return ControlFlow::Break(name.clone());
            }
        }
        ControlFlow::Continue(())
    }
}
