//! The node of `tumble` and `hop` over a number of rows: its input with the columns window_start and window_end, each
//! row once for each of its windows.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

use crate::arguments::{Value, value_of};
use crate::logical::names::shown;

/// The largest window.
const ROWS_MAX: u32 = 10_000_000;
/// The most windows that a row may be in, because it is written once for each of them.
const WINDOWS_OF_ROW_MAX: u32 = 1_000;

/// A number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct RowWindow {
    pub size: u32,
    /// From the first row of one window to the first row of the next.
    pub slide: u32,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountWindowsNode {
    pub input: Arc<LogicalPlan>,
    /// The columns whose values have windows of their own.
    pub keys: Vec<Column>,
    /// The event time in whose order rows are counted; without it, that of their arrival counts. No Sort in the input,
    /// because DataFusion's planner removes it below FROM.
    pub time: Option<Column>,
    pub window: RowWindow,
    pub schema: DFSchemaRef,
}

impl CountWindowsNode {
    pub fn new(
        input: LogicalPlan,
        keys: Vec<Column>,
        time: Option<Column>,
        window: RowWindow,
    ) -> Result<Self> {
        let qualifier = input.schema().qualified_field(0).0.cloned();
        let schema = schema_with_bounds(&input, qualifier)?;
        Ok(CountWindowsNode { input: Arc::new(input), keys, time, window, schema })
    }

    /// The same windows for each value of one more column.
    pub fn divided(&self, input: LogicalPlan, key: Column) -> Result<Self> {
        let keys = self.keys.iter().cloned().chain([key]).collect();
        Ok(CountWindowsNode { keys, ..self.over(input)? })
    }

    fn over(&self, input: LogicalPlan) -> Result<Self> {
        let schema = schema_with_bounds(&input, self.qualifier())?;
        Ok(CountWindowsNode { input: Arc::new(input), schema, ..self.clone() })
    }

    fn qualifier(&self) -> Option<TableReference> {
        self.schema.qualified_field(self.schema.fields().len() - 1).0.cloned()
    }
}

fn schema_with_bounds(input: &LogicalPlan, qualifier: Option<TableReference>) -> Result<DFSchemaRef> {
    let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    let bound = |name| (qualifier.clone(), Arc::new(Field::new(name, DataType::Int64, true)));
    let fields = fields.chain(["window_start", "window_end"].map(bound)).collect();
    Ok(Arc::new(DFSchema::new_with_metadata(fields, Default::default())?))
}

/// The number of rows in `ROWS 100`, which is read as a call.
pub(super) fn rows_of(argument: &ast::Expr) -> Option<Result<u32>> {
    let ast::Expr::Function(call) = argument else { return None };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(count))] = list.args.as_slice() else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("rows") {
        return None;
    }
    let number = match value_of(count) {
        Ok(Value::Integer(rows)) => u32::try_from(rows).ok(),
        _ => None,
    };
    Some(match number.filter(|rows| (1..=ROWS_MAX).contains(rows)) {
        Some(rows) => Ok(rows),
        None => plan_err!("a window has ROWS 1 to ROWS {ROWS_MAX}, not ROWS {count}"),
    })
}

/// The columns of `key => page` or `key => (page, user_id)`.
pub(super) fn key_columns(
    key: Option<ast::Expr>,
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<Column>> {
    let parts = match key {
        None => Vec::new(),
        Some(ast::Expr::Tuple(parts)) => parts,
        Some(ast::Expr::Nested(part)) => vec![*part],
        Some(part) => vec![part],
    };
    let column = |part: ast::Expr| match context.sql_to_expr(part, input.schema())? {
        Expr::Column(column) => Ok(column),
        other => plan_err!(
            "the key of a window by count is a column or several, found {other}; compute it before: \
             tumble((SELECT *, lower(page) AS page FROM clicks), ROWS 100, key => page)"
        ),
    };
    parts.into_iter().map(column).collect()
}

/// The window of these numbers of rows: the size, or slide and size.
pub(super) fn row_window(function: &str, rows: &[u32], usage: &str) -> Result<RowWindow> {
    match (function, rows) {
        ("tumble", [size]) => Ok(RowWindow { size: *size, slide: *size }),
        ("hop", [slide, size]) if slide > size => {
            plan_err!(
                "hop over ROWS {size} every ROWS {slide} would leave rows out; use a slide up to the size"
            )
        }
        ("hop", [slide, size]) if size.div_ceil(*slide) > WINDOWS_OF_ROW_MAX => plan_err!(
            "hop puts each row into {} windows, but at most {WINDOWS_OF_ROW_MAX} are allowed; use a longer slide or \
             a smaller size",
            size.div_ceil(*slide)
        ),
        ("hop", [slide, size]) => Ok(RowWindow { size: *size, slide: *slide }),
        _ => plan_err!("write {function} as {usage}"),
    }
}

impl PartialOrd for CountWindowsNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let parts =
            |node: &Self| (Arc::clone(&node.input), node.keys.clone(), node.time.clone(), node.window);
        parts(self).partial_cmp(&parts(other))
    }
}

impl UserDefinedLogicalNodeCore for CountWindowsNode {
    fn name(&self) -> &str {
        "CountWindows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.iter().chain(&self.time).cloned().map(Expr::Column).collect()
    }

    /// The rows that exist determine the windows, so no filter can be applied first.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.keys.iter().map(|key| shown(&key.name)).collect();
        let RowWindow { size, slide } = self.window;
        write!(formatter, "CountWindows: {size} rows every {slide} by ({})", keys.join(", "))?;
        match &self.time {
            Some(time) => write!(formatter, " in the order of {time}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().unwrap_or_else(|| self.input.as_ref().clone());
        let columns = exprs.into_iter().filter_map(|expression| match expression {
            Expr::Column(column) => Some(column),
            _ => None,
        });
        let mut keys: Vec<Column> = columns.collect();
        let over = self.over(input)?;
        if keys.len() != self.keys.len() + usize::from(self.time.is_some()) {
            return Ok(over);
        }
        let time = if self.time.is_some() { keys.pop() } else { None };
        Ok(CountWindowsNode { keys, time, ..over })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        let own = self.keys.iter().chain(&self.time);
        let own = own.filter_map(|column| schema.maybe_index_of_column(column));
        let wanted = output_columns.iter().copied().filter(|column| *column < schema.fields().len());
        let mut needed: Vec<usize> = own.chain(wanted).collect();
        needed.sort_unstable();
        needed.dedup();
        // Rows are counted even if no column is read; one column carries them.
        if needed.is_empty() {
            needed.push(0);
        }
        Some(vec![needed])
    }
}
