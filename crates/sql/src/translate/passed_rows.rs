//! A node of a plan that passes on the rows of another one, in another shape.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// How the rows of the input become the rows of the node: the same ones, in the same order.
pub(super) type Pass = fn(SendableRecordBatchStream) -> SendableRecordBatchStream;

/// The rows of another plan, passed on by a function.
#[derive(Clone, Debug)]
pub(super) struct PassedRows {
    name: &'static str,
    input: Arc<dyn ExecutionPlan>,
    pass: Pass,
}

impl PassedRows {
    pub fn over(input: &Arc<dyn ExecutionPlan>, name: &'static str, pass: Pass) -> Arc<dyn ExecutionPlan> {
        Arc::new(PassedRows { name, input: Arc::clone(input), pass })
    }
}

impl DisplayAs for PassedRows {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl ExecutionPlan for PassedRows {
    fn name(&self) -> &str {
        self.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.pop() {
            Some(input) => Arc::new(PassedRows { input, ..(*self).clone() }),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context).map(self.pass)
    }
}
