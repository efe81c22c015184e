//! What users add: generators of rows, and operators of their own, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Operator};

use crate::arguments::Arguments;
use crate::definition::SourceDefinition;

/// Makes the definition of a source from the arguments of a call in FROM.
pub type Generator = dyn Fn(&Arguments) -> Result<SourceDefinition, Cause> + Send + Sync;

/// An operator of the user's, callable in FROM: `SELECT * FROM name(TABLE(input), argument => value)`.
pub trait TableOperator: Send + Sync {
    /// What a call with these inputs and arguments runs.
    ///
    /// # Errors
    /// If the inputs' columns or the arguments do not fit; says which, and what would.
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause>;
}

/// An operator with its inputs and arguments known.
pub struct BoundOperator {
    /// The columns of its rows.
    pub output: SchemaRef,
    /// For each input, the columns by whose values its rows are divided among the partitions: rows with equal
    /// values come to one partition. None: all rows go to one partition.
    pub keys: Vec<Vec<String>>,
    /// Columns that each row of the output has from rows of the inputs that caused it, with the same name and type in
    /// every input, where rows of other values have no part in it. Conditions of a query on these columns alone then
    /// choose rows before the operator sees them, and before they are split. None, if in doubt.
    pub carried: Vec<String>,
    /// Makes the instance of a partition. Its inputs have the columns of the call's inputs.
    pub factory: Arc<dyn Fn(u32) -> Box<dyn Operator> + Send + Sync>,
}

impl fmt::Debug for BoundOperator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BoundOperator").field("output", &self.output).finish_non_exhaustive()
    }
}

/// Everything that was registered by name and stands in FROM.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub generators: BTreeMap<String, Arc<Generator>>,
    pub operators: BTreeMap<String, Arc<dyn TableOperator>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generators: Vec<_> = self.generators.keys().collect();
        let operators: Vec<_> = self.operators.keys().collect();
        formatter
            .debug_struct("Registry")
            .field("generators", &generators)
            .field("operators", &operators)
            .finish()
    }
}
