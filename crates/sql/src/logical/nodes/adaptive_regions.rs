//! The node of `adaptive_regions(...)` in FROM: its input with the column region.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore, cast,
};
use datafusion::sql::sqlparser::ast;
use tidemill_engine::Cause;
use tidemill_split::spatial::{Cuts, Method};

use super::call_arguments::external;
use crate::arguments::Arguments;

const USAGE: &str = "adaptive_regions(TABLE(requests), event_time, x, y, every => INTERVAL '10 minutes')";
/// Region numbers have 32 bits.
const COORDINATES_MAX: usize = 31;

/// How regions are computed, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RegionsChoice {
    pub method: Method,
    pub history_ns: i64,
    pub every_ns: i64,
    pub points_max: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct RegionsNode {
    pub input: Arc<LogicalPlan>,
    /// The event time column of the input.
    pub time: Column,
    /// The coordinates of a row's point, DOUBLEs.
    pub coordinates: Vec<Expr>,
    pub choice: RegionsChoice,
    pub schema: DFSchemaRef,
}

/// `adaptive_regions(table, time, coordinates...)`
pub(crate) fn plan(
    input: LogicalPlan,
    expressions: Vec<ast::Expr>,
    arguments: &Arguments,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let choice = choice(arguments).map_err(external)?;
    let mut planned =
        expressions.into_iter().map(|expression| context.sql_to_expr(expression, input.schema()));
    let time = match planned.next().transpose()? {
        Some(Expr::Column(time)) => time,
        _ => return plan_err!("adaptive_regions takes a table, its event time and coordinates: {USAGE}"),
    };
    let coordinates: Vec<Expr> = planned.collect::<Result<_>>()?;
    if coordinates.is_empty() || coordinates.len() > COORDINATES_MAX {
        return plan_err!("adaptive_regions takes 1 to {COORDINATES_MAX} coordinates: {USAGE}");
    }
    let coordinate = |expression: Expr| match expression.get_type(input.schema())? {
        DataType::Float64 => Ok(expression),
        found if found.is_numeric() => Ok(cast(expression, DataType::Float64)),
        found => plan_err!("coordinates must be numbers, but {expression} is {found}"),
    };
    let coordinates = coordinates.into_iter().map(coordinate).collect::<Result<_>>()?;
    let qualifier = input.schema().qualified_field(0).0.cloned();
    let node = RegionsNode::new(input, time, coordinates, choice, qualifier)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn choice(arguments: &Arguments) -> std::result::Result<RegionsChoice, Cause> {
    let wrong = |text: &str| Cause::user(format!("adaptive_regions(): {text}: {USAGE}"));
    let levels = arguments.integer("levels", 0..=16)?.map(|levels| levels as u32);
    let least = arguments.number("least", 0.0..=0.5)?;
    let method = match (arguments.text("method")?.unwrap_or("point_quad"), levels, least) {
        ("point_quad", None, None) => Method::PointQuad,
        ("point_quad", ..) => return Err(wrong("a point quad has no levels")),
        ("kd_tree", None, _) => return Err(wrong("give the number of levels of the tree")),
        ("kd_tree", Some(levels), None) => Method::KdTree { levels, cuts: Cuts::Median },
        ("kd_tree", Some(levels), Some(least)) => Method::KdTree { levels, cuts: Cuts::Sparse { least } },
        (other, ..) => {
            return Err(wrong(&format!(
                "'{other}' is not a method; the methods are point_quad and \
            kd_tree"
            )));
        }
    };
    let every_ns =
        arguments.interval_ns("every")?.ok_or_else(|| wrong("state how often regions are recomputed"))?;
    let history_ns = arguments.interval_ns("history")?.unwrap_or(every_ns);
    if every_ns <= 0 || history_ns <= 0 {
        return Err(wrong("intervals must be longer than 0"));
    }
    let points_max = arguments.integer("points_max", 1..=10_000_000)?.unwrap_or(100_000) as usize;
    Ok(RegionsChoice { method, history_ns, every_ns, points_max })
}

impl RegionsNode {
    fn new(
        input: LogicalPlan,
        time: Column,
        coordinates: Vec<Expr>,
        choice: RegionsChoice,
        qualifier: Option<TableReference>,
    ) -> Result<Self> {
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let region = (qualifier, Arc::new(Field::new("region", DataType::Int64, true)));
        let schema = DFSchema::new_with_metadata(fields.chain([region]).collect(), Default::default())?;
        Ok(RegionsNode { input: Arc::new(input), time, coordinates, choice, schema: Arc::new(schema) })
    }
}

impl PartialEq for RegionsNode {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time
            && self.coordinates == other.coordinates
            && self.choice == other.choice
            && self.input == other.input
    }
}

impl Eq for RegionsNode {}

impl Hash for RegionsNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.time.hash(state);
        self.coordinates.hash(state);
    }
}

impl PartialOrd for RegionsNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.input, &self.time, &self.coordinates).partial_cmp(&(
            &other.input,
            &other.time,
            &other.coordinates,
        ))
    }
}

/// Nothing is pushed into it, because regions are computed from all points.
impl UserDefinedLogicalNodeCore for RegionsNode {
    fn name(&self) -> &str {
        "AdaptiveRegions"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        std::iter::once(Expr::Column(self.time.clone())).chain(self.coordinates.clone()).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AdaptiveRegions: time={}, {:?}", self.time, self.choice)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().unwrap_or_else(|| self.input.as_ref().clone());
        let mut exprs = exprs.into_iter();
        let time = match exprs.next() {
            Some(Expr::Column(time)) => time,
            _ => self.time.clone(),
        };
        let qualifier = self.schema.qualified_field(self.schema.fields().len() - 1).0.cloned();
        RegionsNode::new(input, time, exprs.collect(), self.choice, qualifier)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.input.schema().fields().len();
        let needed = output_columns.iter().copied().filter(|column| *column < columns);
        let expressions = self.expressions();
        let read = expressions.iter().flat_map(Expr::column_refs);
        let read = read.filter_map(|column| self.input.schema().maybe_index_of_column(column));
        let mut needed: Vec<usize> = needed.chain(read).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
