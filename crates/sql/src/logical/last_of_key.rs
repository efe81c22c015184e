//! The node of a materialized view with a primary key: only the last row with each key counts.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// A stream that is read as a table: a row replaces the previous one with the same key. Conditions around it stay
/// outside, because a row that they drop has still replaced the previous one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct LastOfKey {
    pub input: Arc<LogicalPlan>,
    /// The indexes of the key's columns.
    pub key: Vec<usize>,
}

impl LastOfKey {
    /// The plan of such a view.
    pub fn plan(input: LogicalPlan, key: Vec<usize>) -> LogicalPlan {
        let node = LastOfKey { input: Arc::new(input), key };
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }
}

impl UserDefinedLogicalNodeCore for LastOfKey {
    fn name(&self) -> &str {
        "LastOfKey"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    /// All columns: the key's are needed, and the indexes of columns must not change.
    fn expressions(&self) -> Vec<Expr> {
        self.input.schema().columns().into_iter().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |column: &usize| self.input.schema().field(*column).name().clone();
        write!(formatter, "LastOfKey: {}", self.key.iter().map(name).collect::<Vec<_>>().join(", "))
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(LastOfKey { input, key: self.key.clone() })
    }
}
