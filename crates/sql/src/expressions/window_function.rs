//! Window functions over whole partitions, as DataFusion computes them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Window};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_planner::create_window_expr;
use tidemill_engine::{Cause, PartitionFunction};

use crate::expressions::compiled::plain;
use crate::logical::for_batch;

/// One function with its frame.
pub(crate) struct PartitionValues {
    function: Arc<dyn WindowExpr>,
    data_type: DataType,
}

impl PartitionValues {
    /// Compiles a call over rows with these columns, with the meaning that it has in answers over tables.
    pub fn new(call: &Expr, schema: &DFSchemaRef) -> Result<PartitionValues> {
        let nothing = EmptyRelation { produce_one_row: false, schema: Arc::clone(schema) };
        let window = Window::try_new(vec![call.clone()], Arc::new(LogicalPlan::EmptyRelation(nothing)))?;
        let guarded = for_batch(LogicalPlan::Window(window))?;
        let call = guarded_call(&guarded, schema).unwrap_or_else(|| call.clone());
        let function = create_window_expr(&call, schema, &ExecutionProps::new(), &Default::default())?;
        let data_type = function.field()?.data_type().clone();
        Ok(PartitionValues { function, data_type })
    }
}

/// The call in a plan that was guarded, if it still reads the same columns.
fn guarded_call(plan: &LogicalPlan, schema: &DFSchemaRef) -> Option<Expr> {
    match plan {
        LogicalPlan::Window(window) if window.input.schema() == schema => window.window_expr.first().cloned(),
        other => other.inputs().into_iter().find_map(|input| guarded_call(input, schema)),
    }
}

impl fmt::Debug for PartitionValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PartitionValues").field(&self.function.name()).finish()
    }
}

impl PartitionFunction for PartitionValues {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn evaluate(&self, partition: &RecordBatch) -> std::result::Result<ArrayRef, Cause> {
        self.function.evaluate(partition).map_err(|error| Cause::user(plain(&error)).with_source(error))
    }
}
