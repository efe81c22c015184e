//! The nodes of processes, and of what is done for a reader before rows are sent to it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::process::StreamProcess;

/// A query with a name and a place. Nothing is pushed into it from outside: it runs once for all of its readers.
#[derive(Clone, Debug)]
pub(crate) struct ProcessNode {
    pub definition: Arc<StreamProcess>,
    pub input: LogicalPlan,
}

impl PartialEq for ProcessNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition) && self.input == other.input
    }
}

impl Eq for ProcessNode {}

impl Hash for ProcessNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.plan.name.hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for ProcessNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.definition.plan.name, &self.input).partial_cmp(&(&other.definition.plan.name, &other.input))
    }
}

impl UserDefinedLogicalNodeCore for ProcessNode {
    fn name(&self) -> &str {
        "Process"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    /// All columns, so that no reader can cause one to be optimised away.
    fn expressions(&self) -> Vec<Expr> {
        self.input.schema().columns().into_iter().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Process: {}", self.definition.plan.name)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().unwrap_or_else(|| self.input.clone());
        Ok(ProcessNode { input, definition: Arc::clone(&self.definition) })
    }
}

/// `postfilter((SELECT ... FROM process WHERE ...))`: rows are filtered and computed in the place of the process that
/// they come from (thesis, Paper III, section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Postfilter {
    pub input: Arc<LogicalPlan>,
}

impl UserDefinedLogicalNodeCore for Postfilter {
    fn name(&self) -> &str {
        "Postfilter"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.input.schema().columns().into_iter().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Postfilter")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(Postfilter { input })
    }
}
