//! The node of `tumble`, `hop` and `session` in FROM: its input with the columns window_start and window_end.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use tidemill_operators::EmptyWindows;

/// The windows that rows are assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum WindowKind {
    /// `[n * size + offset, (n + 1) * size + offset)`
    Tumble { size_ns: i64, offset_ns: i64 },
    /// Windows of a given size, one of which begins with every slide.
    Hop { size_ns: i64, slide_ns: i64, offset_ns: i64 },
    /// They last as long as no gap between rows of a group is larger.
    Session { gap_ns: i64 },
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowAssign {
    pub input: Arc<LogicalPlan>,
    /// The event time column of the input.
    pub time: Column,
    pub kind: WindowKind,
    /// Which windows without rows are written, if any are.
    pub empty: Option<EmptyWindows>,
    pub schema: DFSchemaRef,
}

impl WindowAssign {
    pub fn new(
        input: LogicalPlan,
        time: Column,
        kind: WindowKind,
        empty: Option<EmptyWindows>,
    ) -> Result<Self> {
        let qualifier = input.schema().qualified_field(0).0.cloned();
        Self::with_qualifier(input, time, (kind, empty), qualifier)
    }

    /// The bounds' qualifier stays when the optimiser removes columns of the input, possibly the first one.
    fn with_qualifier(
        input: LogicalPlan,
        time: Column,
        (kind, empty): (WindowKind, Option<EmptyWindows>),
        qualifier: Option<TableReference>,
    ) -> Result<Self> {
        let zone = match input.schema().field_from_column(&time)?.data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let window_type = DataType::Timestamp(TimeUnit::Nanosecond, zone);
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        for name in ["window_start", "window_end"] {
            fields.push((qualifier.clone(), Arc::new(Field::new(name, window_type.clone(), true))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(WindowAssign { input: Arc::new(input), time, kind, empty, schema })
    }
}

impl PartialOrd for WindowAssign {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let parts = |node: &Self| (Arc::clone(&node.input), node.time.clone(), node.kind, node.empty);
        parts(self).partial_cmp(&parts(other))
    }
}

impl UserDefinedLogicalNodeCore for WindowAssign {
    fn name(&self) -> &str {
        match self.kind {
            WindowKind::Tumble { .. } => "Tumble",
            WindowKind::Hop { .. } => "Hop",
            WindowKind::Session { .. } => "Session",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![Expr::Column(self.time.clone())]
    }

    /// A filter on other columns may be applied first, except for sessions, which depend on the rows that exist.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let names = self.schema.fields().iter().map(|field| field.name().clone());
        match self.kind {
            WindowKind::Session { .. } => names.collect(),
            _ => names.filter(|name| name == "window_start" || name == "window_end").collect(),
        }
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: time={}, {:?}", self.name(), self.time, self.kind)?;
        match self.empty {
            Some(EmptyWindows { windows_max }) => write!(formatter, ", {windows_max} empty"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().unwrap_or_else(|| self.input.as_ref().clone());
        let time = match exprs.first() {
            Some(Expr::Column(column)) => column.clone(),
            _ => self.time.clone(),
        };
        let start = self.schema.fields().len() - 2;
        let qualifier = self.schema.qualified_field(start).0.cloned();
        WindowAssign::with_qualifier(input, time, (self.kind, self.empty), qualifier)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let inputs = self.input.schema().fields().len();
        let time = self.input.schema().index_of_column(&self.time).ok()?;
        let mut needed: Vec<usize> =
            output_columns.iter().copied().filter(|column| *column < inputs).collect();
        needed.push(time);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
