//! The node of a user's own operator in FROM: `name(TABLE(input), ...)`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::arguments::Arguments;
use crate::extension::BoundCall;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct OperatorCall {
    pub name: String,
    pub inputs: Vec<LogicalPlan>,
    /// The constants, as a text: calls with others compute something else.
    pub arguments: String,
    pub bound: Arc<BoundCall>,
    pub schema: DFSchemaRef,
}

impl OperatorCall {
    pub fn new(
        name: &str,
        inputs: Vec<LogicalPlan>,
        arguments: &Arguments,
        bound: Arc<BoundCall>,
    ) -> Result<Self> {
        let (name, arguments) = (name.to_owned(), arguments.to_string());
        let schema = DFSchema::try_from_qualified_schema(TableReference::bare(name.as_str()), &bound.output)?;
        Ok(OperatorCall { name, inputs, arguments, bound, schema: Arc::new(schema) })
    }
}

impl PartialEq for OperatorCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bound, &other.bound) && self.inputs == other.inputs
    }
}

impl Eq for OperatorCall {}

impl Hash for OperatorCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.inputs.hash(state);
    }
}

impl PartialOrd for OperatorCall {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.name, &self.inputs).partial_cmp(&(&other.name, &other.inputs))
    }
}

impl UserDefinedLogicalNodeCore for OperatorCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// All columns of the inputs, so that none of them is optimised away.
    fn expressions(&self) -> Vec<Expr> {
        let columns = |input: &LogicalPlan| input.schema().columns();
        self.inputs.iter().flat_map(columns).map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Operator: {}", self.name)?;
        match self.arguments.as_str() {
            "" => Ok(()),
            arguments => write!(formatter, "({arguments})"),
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(OperatorCall { inputs, ..self.clone() })
    }
}
