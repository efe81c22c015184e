//! Parts of a plan that form a unit: a process, steps that run before rows are sent, a view with a key.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// The kind of such a part.
pub(crate) trait Mark: Clone + fmt::Debug + Eq + Hash + PartialOrd + Send + Sync + 'static {
    const NAME: &'static str;

    /// Details for `EXPLAIN`, given the columns of the part.
    fn shown(&self, schema: &DFSchema) -> String;
}

/// A part of a plan with its mark. The optimizer moves nothing into it: no condition, and no choice of columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Marked<M> {
    pub mark: M,
    pub input: Arc<LogicalPlan>,
}

impl<M: Mark> Marked<M> {
    /// The plan of such a part.
    pub fn plan(mark: M, input: LogicalPlan) -> LogicalPlan {
        let node = Marked { mark, input: Arc::new(input) };
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }
}

impl<M: Mark> UserDefinedLogicalNodeCore for Marked<M> {
    fn name(&self) -> &str {
        M::NAME
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    /// All columns, so that none of them is optimised away and each keeps its number.
    fn expressions(&self) -> Vec<Expr> {
        self.input.schema().columns().into_iter().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(M::NAME)?;
        match self.mark.shown(self.input.schema()) {
            nothing if nothing.is_empty() => Ok(()),
            shown => write!(formatter, ": {shown}"),
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(Marked { mark: self.mark.clone(), input })
    }
}
